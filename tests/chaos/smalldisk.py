"""A disk that is soon full."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

SMALL_DISK_MB = 96


def on_a_small_disk(folder: Path) -> tuple[str, ...]:
    """The start of a command that sees a disk of its own at ``folder``; needs root or user namespaces."""
    mount = f'mount -t tmpfs -o size={SMALL_DISK_MB}m,mode=0777 tmpfs "$0" && exec "$@"'
    if os.getuid() == 0:
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", mount, str(folder))
    me = pwd.getpwuid(os.getuid())
    back = ("unshare", "--user", f"--map-user={me.pw_uid}", f"--map-group={me.pw_gid}")
    return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(folder), *back)
