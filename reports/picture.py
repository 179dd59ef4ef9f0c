"""Take the README's picture of a report: ``python -m reports.picture out/latest docs/report.png``.

Chromium renders the page as a reader sees it; ``LOCKSTEP_CHROMIUM`` names another binary.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from reports.errors import ReportError
from reports.files import whole
from reports.renderer import render

#: What keeps Chromium from reaching for the network, the GPU or the user's own profile.
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

DEADLINE_SECONDS = 60


def chromium() -> str:
    """Return the path of Chromium; ``ReportError`` says what to type when there is none."""
    named = os.environ.get("LOCKSTEP_CHROMIUM")
    found = shutil.which(named) if named else shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        what = f"LOCKSTEP_CHROMIUM={named} is no program" if named else "Chromium is not installed"
        raise ReportError(what, "type: apt-get install chromium (or set LOCKSTEP_CHROMIUM to the path of any Chromium)")
    return found


def take_picture(run_folder: Path, picture: Path, width: int = 1240, height: int = 1600) -> None:
    """Render the report of ``run_folder`` and photograph its top, ``width`` x ``height`` pixels, light theme.

    Raises ``ReportError`` when the run cannot be rendered or Chromium gives no picture.
    """
    program = chromium()
    index = render(run_folder).index
    with tempfile.TemporaryDirectory() as profile, whole(picture) as part:
        shot = Path(profile) / "shot.png"
        command = [
            program,
            "--headless=new",
            *CHROMIUM_ARGUMENTS,
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--screenshot={shot}",
            index.resolve().as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ReportError(f"{program} took no picture in {DEADLINE_SECONDS} s", "try it by hand") from None
        if not shot.exists():
            raise ReportError(f"{program} took no picture: {done.stderr.strip()[-400:]}", "try it by hand")
        shutil.copyfile(shot, part)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m reports.picture", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="run folder, such as out/latest")
    parser.add_argument("picture", type=Path, help="PNG to write, such as docs/report.png")
    options = parser.parse_args(arguments)
    try:
        take_picture(options.run, options.picture)
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
