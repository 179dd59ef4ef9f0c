"""From a fresh clone to a verdict with empty caches and an empty HOME: the first quarter of an hour of a newcomer.

    python bench/fresh_clone.py [--json FILE]

Target: ≤ 8 minutes on 2 cores. Needs the package registries.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]


def main(words: list[str]) -> int:
    """Print the phases, write the figures; 1 when the gate does not pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="lockstep-fresh-") as folder:
        clone, home = Path(folder) / "clone", Path(folder) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", REPOSITORY, clone], check=True)
        hidden = ("LOCKSTEP_", "XDG_", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        begun = time.monotonic()
        done = subprocess.run(["make", "gate"], cwd=clone, env={**environment, "HOME": str(home)}, check=False)
        wall = time.monotonic() - begun
        verdict = clone / "out" / "latest" / "verdict.json"
        run: dict[str, Any] = (
            json.loads(verdict.read_text())["run"] if verdict.is_file() else {"phases": [], "seconds": 0.0}
        )
    phases = {"setup": wall - run["seconds"], **{entry["name"]: entry["seconds"] for entry in run["phases"]}}
    print(f"fresh clone to verdict: {wall:.0f} s (target <= 480 s)")
    for name, seconds in phases.items():
        print(f"    {name:26} {seconds:6.1f} s")
    if asked.json:
        asked.json.write_text(json.dumps({"wall_s": wall, "phases": phases, "exit_code": done.returncode}, indent=1))
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
