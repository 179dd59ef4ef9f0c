"""What Android kept of a crash: the log since the program began, and its tombstone; capped, untrusted text.

Android writes a backtrace to a log buffer of its own, which no chatty app pushes out, and which every user build shows
to the shell; a tombstone it mostly does not.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable

from agents.base import Completed
from engine.contract.errors import InfraError

SECONDS = 20.0
#: How much of each is kept: the backtrace of the crashing thread is at the head of a tombstone.
KEPT_CHARACTERS = 8_000

# $1 a word drawn for this call, $2 the folder in which the program ran: it was made just before.
SCRIPT = """
echo "since $(date -r "$2" '+%m-%d %H:%M:%S' 2>/dev/null)"
echo "$1 crash"
if command -v logcat >/dev/null 2>&1; then
    logcat -b crash -d -v threadtime -t 1000 2>/dev/null | tail -c 131072
    echo
    echo "$1 logcat"
    logcat -b main -b system -d -v threadtime -t 400 2>&1 | tail -c 65536
else
    echo "$1 logcat"
    echo 'no logcat'
fi
echo
echo "$1 tombstone"
if [ -r /data/tombstones ] && [ -x /data/tombstones ]; then
    newest=$(cd /data/tombstones && ls -t 2>/dev/null | grep -v '[.]pb$' | head -n 1)
    if [ -n "$newest" ] && [ "/data/tombstones/$newest" -nt "$2" ]; then
        head -c 65536 "/data/tombstones/$newest" 2>&1 || echo "/data/tombstones/$newest cannot be read"
    else
        echo 'none since the program began'
    fi
else
    echo '/data/tombstones cannot be read by this user, as is usual: `adb bugreport` has it'
fi
"""
#: With these begins what is written of one crash: by crash_dump, and by the C library where that cannot run.
_BEGINNINGS = ("*** *** ***", "Fatal signal ")
_STAMP = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")


def collect(run: Callable[..., Completed], folder: str) -> dict[str, str]:
    """``logcat`` and ``tombstone`` of a program that crashed in ``folder``; the reason in words where there is none."""
    mark = secrets.token_hex(8)
    try:
        told = run(SCRIPT, mark, folder, seconds=SECONDS).stdout.decode(errors="replace")
    except InfraError as error:
        return {"logcat": f"not collected: {error.message}", "tombstone": f"not collected: {error.message}"}
    head, _, rest = told.partition(f"{mark} crash\n")
    crash, _, rest = rest.partition(f"{mark} logcat\n")
    log, _, tombstone = rest.partition(f"{mark} tombstone\n")
    found = _STAMP.search(head)
    since = found[0] if found else ""
    logs = [_last_crash(_plain(_since(crash, since)))[:KEPT_CHARACTERS], _plain(_since(log, since))[-KEPT_CHARACTERS:]]
    return {
        "logcat": "\n\n".join(filter(None, logs)) or "nothing since it began",
        "tombstone": _plain(tombstone)[:KEPT_CHARACTERS] or "none",
    }


def _last_crash(log: str) -> str:
    """From the beginning of the last crash on: its signal and the first frames are what matters."""
    begin = max(0, *(log.rfind(words) for words in _BEGINNINGS))
    return log[log.rfind("\n", 0, begin) + 1 :]


def _since(log: str, start: str) -> str:
    """Lines from ``start`` on; a line without a time belongs to the one before it."""
    kept: list[str] = []
    late = not start
    for line in log.splitlines():
        stamp = _STAMP.match(line)
        if stamp is not None:
            late = stamp[0] >= start
        if late:
            kept.append(line)
    return "\n".join(kept)


def _plain(text: str) -> str:
    """Without control characters: it is shown on terminals and pages."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable()).strip()
