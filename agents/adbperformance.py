"""Android's fixed-performance mode: clocks that can be held for long, where the product offers it.

Asked for before the first program runs, read back, and put back as it was found. AOSP: PowerManagerShellCommand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agents.base import Completed
from engine.contract.errors import InfraError

SECONDS = 20.0

# $1 true or false, or nothing to read only. Prints what it was before and what it is now; the command tells success
# by its exit code, and newer systems list the mode.
_SET = """
command -v cmd >/dev/null 2>&1 || { echo 'absent absent'; exit 0; }
mode() {
    dumpsys power 2>/dev/null | sed -n 's/.*[Ff]ixedPerformance[A-Za-z]*[=:][ ]*\\([a-z]*\\).*/\\1/p' | head -n 1
}
before=$(mode)
if cmd power set-fixed-performance-mode-enabled "$1" >/dev/null 2>&1; then
    now=$(mode)
    echo "${before:-unknown} ${now:-set}"
else echo 'absent absent'; fi
"""


@dataclass
class FixedPerformance:
    """The mode of one device while an agent uses it. ``state`` is for the fingerprint."""

    run: Callable[..., Completed]
    state: str = "not asked for"
    _restore: str = ""

    def ask(self) -> None:
        """Switch it on, once, and read it back. Never raises: a device without it is measured as it is."""
        if self.state != "not asked for":
            return
        before, now = self._set("true")
        if now == "absent":
            self.state = "not offered"
        else:
            self.state = {"true": "on", "set": "on (not read back)"}.get(now, "refused")
            self._restore = "" if before == "true" else "false"

    def put_back(self) -> None:
        """As it was found; never raises. A device that is gone leaves the mode when it restarts."""
        if self._restore:
            self._set(self._restore)
            self._restore = ""

    def _set(self, value: str) -> tuple[str, str]:
        try:
            said = self.run(_SET, value, seconds=SECONDS).stdout.decode(errors="replace").split()
        except InfraError:
            return "absent", "absent"
        return (said[0], said[1]) if len(said) == 2 else ("absent", "absent")
