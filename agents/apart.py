"""Files that travel by themselves, beside the script that waits for them, on links where that is the faster way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agents.deployment import Blob, bytes_of


@dataclass(frozen=True)
class Apart:
    """One file that travels by itself: ``pieces`` are its bytes, read once, ``size`` about how many they are."""

    name: str
    pieces: Iterable[bytes]
    size: int
    executable: bool = False

    @classmethod
    def of(cls, name: str, blob: Blob, guard: Callable[[], None]) -> Apart:
        """A host file; ``guard`` is called before each piece."""

        def pieces() -> Iterator[bytes]:
            for piece in bytes_of(blob):
                guard()
                yield piece

        return cls(name, pieces(), blob.size, blob.executable)


def by_size(files: Mapping[str, Blob], least: int) -> tuple[dict[str, Blob], dict[str, Blob]]:
    """Files of ``least`` bytes or more, the largest first, and the others.

    The last one to arrive is hashed when nothing travels any more: it should be the smallest.
    """
    large = sorted((name for name, blob in files.items() if blob.size >= least), key=lambda name: -files[name].size)
    return {name: files[name] for name in large}, {name: blob for name, blob in files.items() if blob.size < least}
