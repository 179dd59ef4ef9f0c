"""Runs every measurement of this folder, each in a process of its own: ``bench/_all.py [NAME …]``.

A measurement is one file ``bench/NAME.py`` that prints for people and writes its figures to ``--json FILE``.
All figures end up in ``build/bench/bench.json``.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "build" / "bench"
#: Measurements that take many minutes and have a target of their own: run when named only.
APART = {"farm_scale"}


def main(wanted: list[str]) -> int:
    """0 when every measurement ended well, else 1; 2 for a name that does not exist."""
    known = {path.stem: path for path in sorted(HERE.glob("*.py")) if not path.stem.startswith("_")}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no such measurement: {', '.join(unknown)}\n  next: choose of {', '.join(known)}", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    figures: dict[str, object] = {}
    failed = []
    for name in wanted or [name for name in known if name not in APART]:
        print(f"== {name}", flush=True)
        target = OUT / f"{name}.json"
        target.unlink(missing_ok=True)
        done = subprocess.run([sys.executable, str(known[name]), "--json", str(target)], check=False)
        if done.returncode or not target.is_file():
            failed.append(name)
            print(
                f"{name} left with {done.returncode} and {'its' if target.is_file() else 'no'} figures", file=sys.stderr
            )
        else:
            figures[name] = json.loads(target.read_text())
    host = {"machine": platform.machine(), "cpus": os.cpu_count(), "system": platform.platform()}
    (OUT / "bench.json").write_text(json.dumps({"host": host, "figures": figures, "failed": failed}, indent=1) + "\n")
    print(f"figures: {OUT / 'bench.json'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
