"""Writing that never leaves a half-written file under its final name."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from reports.errors import ReportError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a neighbour of ``path`` to write to; it takes the final name only when the block ends well.

    Raises ``ReportError`` when the disk refuses.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(path)
    except OSError as error:
        raise ReportError(
            f"{path}: cannot be written: {error.strerror or error}", "free some space, or make the folder writable"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 with plain line feeds, whole or not at all."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8", newline="\n")
