"""All of the suite, in several processes at once: ``python -m tests.chaos.parts [PYTEST ARGUMENTS]``.

A scenario mostly waits: for leases that end, for links that come back. Each part has a farm, devices and folders of
its own, and a share of the combinations.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.table import RESULTS

#: One more than cores: while one waits, two work.
PARTS = min(8, (os.cpu_count() or 1) + 1)
#: How long a part that was interrupted may take to end what it started.
CLEARING_SECONDS = 30
#: Nothing of the share was chosen by the arguments.
NO_TESTS = 5
OUTCOME = re.compile(r"::test_all\[(?P<entry>[^]]+)\] (?P<outcome>PASSED|FAILED|ERROR)")


@dataclass
class Part:
    """One pytest over its share."""

    number: int
    arguments: Sequence[str]
    lines: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Start it."""
        command = [sys.executable, "-u", "-m", "pytest", "-v", "-m", "chaos and long", "tests/chaos"]
        self.pytest = subprocess.Popen(
            [*command, f"--chaos-part={self.number}/{PARTS}", *self.arguments],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def follow(self) -> None:
        """One line for each combination, until it has ended."""
        assert self.pytest.stdout is not None
        with self.pytest.stdout as said:
            for line in said:
                self.lines.append(line)
                found = OUTCOME.search(line)
                if found:
                    print(f"{found['outcome'].lower()}  {found['entry']}", flush=True)
        self.pytest.wait()

    @property
    def failed(self) -> bool:
        """True unless all of its share was survived; it may have none."""
        return self.pytest.returncode not in (0, NO_TESTS)


def main(arguments: Sequence[str]) -> int:
    """Run every part; 1 when one of them failed, with what it said."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    parts = [Part(number, arguments) for number in range(1, PARTS + 1)]
    threads = [threading.Thread(target=part.follow) for part in parts]
    for part, thread in zip(parts, threads, strict=True):
        part.start()
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for part in parts:
            with suppress(subprocess.TimeoutExpired):  # it heard the Ctrl-C too, and clears away what it made
                part.pytest.wait(CLEARING_SECONDS)
            part.pytest.kill()
        raise
    for part in parts:
        (RESULTS / f"part-{part.number}.log").write_text("".join(part.lines))
        if part.failed:
            print("".join(part.lines))
    return 1 if any(part.failed for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
