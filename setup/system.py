"""Unpacks the Debian packages that a make target needs and prints their folders: ``setup/system.py TARGET``."""

from __future__ import annotations

import sys

from engine.contract.errors import LockstepError
from engine.debian import unpack
from engine.places import cache_root
from engine.toolchain import groups_needed_by, package_group


def say(line: str) -> None:
    """Progress on stderr."""
    print(f"setup: {line}", file=sys.stderr, flush=True)


def main(target: str) -> int:
    """0, or the exit code of the error whose words go to stderr."""
    try:
        for name in groups_needed_by(target):
            print(unpack(package_group(name), cache_root(), say))
    except LockstepError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
