"""The clock governor of every core: set for one run, and put back to what each core had before.

What is changed is first recorded in the device's folder, core by core. So the governors come back on every way out,
and where a holder died before it could do so, the next holder of the lease puts them back (``restore_left_over``).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agents.probes._text import lines, words
from agents.probes.clocks import RECORD
from agents.readings import Place, RunScript
from engine.contract.errors import InfraError

SECONDS = 60.0
log = logging.getLogger("lockstep.governor")

# A record begins with its owner; then one line a core: its name and the governor it had. A core that is offline has no
# node in sysfs: its line is kept for who comes next. Names of a record are a device's text: nothing but cpuN is a path.
_RESTORE = r"""
cpus=$1/devices/system/cpu record=$2
restore() {
    : >"$record.left"
    while read -r name before; do
        case $name in owner) continue ;; cpu*[!0-9]* | cpu) continue ;; cpu*) ;; *) continue ;; esac
        file=$cpus/$name/cpufreq/scaling_governor
        now=; [ -r "$file" ] && read -r now <"$file"
        if [ "$now" = "$before" ]; then echo "kept $name $before"; continue; fi
        [ -n "$now" ] && { echo "$before" >"$file"; now=; read -r now <"$file"; }
        if [ "$now" = "$before" ]; then echo "restored $name $before"
        else echo "left $name $before"; echo "$name $before" >>"$record.left"; fi
    done <"$record"
    if [ -s "$record.left" ]; then mv -f "$record.left" "$record"; else rm -f "$record" "$record.left"; fi
}
exec 2>/dev/null
"""

# $3: restore only what this owner recorded; everybody's when empty
_RESTORE_OWN = (
    _RESTORE
    + r"""
if [ ! -e "$record" ]; then echo none; exit 0; fi
read -r word owner <"$record"
if [ -n "$3" ] && [ "$owner" != "$3" ]; then echo other; exit 0; fi
restore
"""
)

# $3 the owner, $4 the governor
_SET = (
    _RESTORE
    + r"""
[ -e "$record" ] && restore
echo "owner $3" >"$record.new" || { echo unrecorded; exit 0; }
for core in "$cpus"/cpu[0-9]*; do
    [ -d "$core" ] || continue
    name=${core##*/} file=$core/cpufreq/scaling_governor
    online=1; [ -r "$core/online" ] && read -r online <"$core/online"
    if [ "$online" = 0 ]; then echo "offline $name"
    elif [ ! -r "$file" ]; then echo "none $name"
    else read -r before <"$file" && echo "$name $before" >>"$record.new"; fi
done
# what could not be put back earlier is older than what was read now, and so counts: the last line wins
while read -r name before; do [ "$name" != owner ] && echo "$name $before" >>"$record.new"; done <"$record"
mv -f "$record.new" "$record" || { echo unrecorded; exit 0; }
while read -r name before; do
    file=$cpus/$name/cpufreq/scaling_governor
    { [ "$name" != owner ] && [ -r "$file" ]; } || continue
    [ -w "$file" ] || { echo "denied $name $before"; continue; }
    echo "$4" >"$file"; now=; read -r now <"$file"
    if [ "$now" = "$4" ]; then echo "set $name $before"; else echo "refused $name $now"; fi
done <"$record"
"""
)


@dataclass
class Governed:
    """What was done: core → the governor it had; ``notes`` say in words what was not done and why."""

    changed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@contextmanager
def governor(run: RunScript, wanted: str, place: Place) -> Iterator[Governed]:
    """Hold all online cores at governor ``wanted`` while the block runs.

    What the device does not allow is a note and no failure. When the device is lost before the governors are back,
    its record stays on it. DeviceUnavailable when it is lost at the beginning.
    """
    owner = secrets.token_hex(8)
    held = Governed()
    try:
        done = run(_SET, place.sys, _record(place), owner, wanted, seconds=SECONDS)
        _read_set(lines(done.stdout.decode(errors="replace")), wanted, held)
        yield held
    finally:
        try:
            held.notes += restore(run, place, owner)
        except InfraError as error:
            held.notes.append("the governors could not be put back: the next lease does it")
            log.warning("governors are not put back yet: %s", error.message)


def restore_left_over(run: RunScript, place: Place) -> list[str]:
    """Put back what an earlier holder of this lease left behind; what is not back yet, in words."""
    return restore(run, place, "")


def restore(run: RunScript, place: Place, owner: str) -> list[str]:
    """Put every core back to its own governor; only while the record is ``owner``'s ("" for anybody's)."""
    done = run(_RESTORE_OWN, place.sys, _record(place), owner, seconds=SECONDS)
    notes = []
    for line in lines(done.stdout.decode(errors="replace")):
        what, _, rest = line.partition(" ")
        core, _, before = words(rest).partition(" ")
        if what == "left":
            notes.append(f"{core} is not back at {before} (offline, or not allowed): the next lease tries again")
        elif what == "other":
            notes.append("the record of governors is another holder's by now: left alone")
    return notes


def _read_set(told: list[str], wanted: str, held: Governed) -> None:
    for line in told:
        what, _, rest = line.partition(" ")
        core, _, before = words(rest).partition(" ")
        if what == "set":
            held.changed[core] = before
        elif what in _NOTES:
            held.notes.append(_NOTES[what].format(core=core, before=before, wanted=wanted))


_NOTES = {
    "offline": "{core} is offline: skipped",
    "none": "{core} has no governor: skipped",
    "denied": "{core} stays at {before}: permission denied (needs root)",
    "refused": "{core} stays at {before}: the kernel refused {wanted}",
    "left": "{core} is not back at {before} from an earlier run",
    "unrecorded": "no governor was changed: what they were could not be recorded in the device's folder",
}


def _record(place: Place) -> str:
    return f"{place.folder}/{RECORD}"
