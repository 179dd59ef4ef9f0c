"""Android's fixed-performance mode: clocks that can be held for long, where the product offers it.

Asked for before the first program runs, read back, and put back as it was found. That it was switched on is first
recorded in the device's folder: where a holder died, or its line was cut, the next holder of the lease puts it back.
The mode ends with the boot, and so does what its record says. AOSP: PowerManagerShellCommand.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from agents.base import Completed
from engine.contract.errors import InfraError

SECONDS = 20.0
#: Lies in the device's folder while we have the mode on: who switched it on, and the boot in which that was.
RECORD = "fixed-performance.record"

# $1 the record, $2 its owner.
_RECORDED = """
boot= owner= since=
read -r boot </proc/sys/kernel/random/boot_id
[ -e "$1" ] && read -r owner since <"$1"
"""

# Prints what the mode is now; the command tells success by its exit code, and newer systems list the mode.
_SWITCH_ON = (
    """
exec 2>/dev/null
command -v cmd >/dev/null || { echo absent; exit 0; }
mode() { dumpsys power | sed -n 's/.*[Ff]ixedPerformance[A-Za-z]*[=:][ ]*\\([a-z]*\\).*/\\1/p' | head -n 1; }
"""
    + _RECORDED
    + """
before=$(mode)
[ "$owner" ] && [ "$since" = "$boot" ] && before=
if [ "$before" != true ]; then
    echo "$2 $boot" >"$1.new" && mv -f "$1.new" "$1" || { echo unrecorded; exit 0; }
fi
if cmd power set-fixed-performance-mode-enabled true >/dev/null; then
    now=$(mode)
    echo "${now:-set}"
else
    [ "$before" = true ] || rm -f "$1"
    echo absent
fi
"""
)

# Only what this owner recorded; anybody's when it is empty. The record stays where the device does not do it.
_PUT_BACK = (
    "exec 2>/dev/null\n"
    + _RECORDED
    + """
[ -e "$1" ] || exit 0
[ -z "$2" ] || [ "$owner" = "$2" ] || exit 0
[ "$since" != "$boot" ] || cmd power set-fixed-performance-mode-enabled false >/dev/null || exit 1
rm -f "$1"
"""
)


_STATES = {
    "absent": "not offered",
    "unrecorded": "off (cannot be recorded)",
    "true": "on",
    "set": "on (not read back)",
    "": "not known",
}


@dataclass
class FixedPerformance:
    """The mode of one device while an agent uses it. ``state`` is for the fingerprint; no call ever raises."""

    run: Callable[..., Completed]
    state: str = "not asked for"
    _owner: str = field(init=False, default_factory=lambda: secrets.token_hex(8))

    def ask(self, folder: str) -> None:
        """Switch it on, once, and read it back. A device without it is measured as it is."""
        if self.state != "not asked for":
            return
        self.state = _STATES.get(self._run(_SWITCH_ON, folder, self._owner), "refused")

    def put_back(self, folder: str) -> None:
        """As it was found, if this agent switched it on. Of a device that is gone, the next holder does it."""
        if self.state not in ("not asked for", "not offered"):
            self._run(_PUT_BACK, folder, self._owner)

    def put_back_left_over(self, folder: str) -> None:
        """As it was before an earlier holder who could not put it back; for who has the lease now."""
        self._run(_PUT_BACK, folder, "")

    def _run(self, script: str, folder: str, owner: str) -> str:
        """What the script said; nothing when the device was lost."""
        try:
            done = self.run(script, f"{folder}/{RECORD}", owner, seconds=SECONDS)
        except InfraError:
            return ""
        return done.stdout.decode(errors="replace").strip()
