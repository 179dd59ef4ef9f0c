"""What this machine allows: where it does not, the tests of exactly that have nothing to say."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Sequence

#: A root stripped of its powers. Mapping root's own number into a user namespace takes SETFCAP; a user who is not root
#: needs not even this.
STRIPPED = ("setpriv", "--bounding-set=-all,+setfcap", "--inh-caps=-all") if os.geteuid() == 0 else ()


@functools.cache
def user_namespaces(prefix: Sequence[str] = STRIPPED) -> bool:
    """False in a chroot and in most containers."""
    return subprocess.run([*prefix, "unshare", "-Ur", "true"], capture_output=True, check=False).returncode == 0
