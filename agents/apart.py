"""Files that travel by themselves, beside the script that waits for them, on links where that is the faster way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from agents.deployment import Blob, Parcel, bytes_of, tar_bytes, tar_stream


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
    """Files of ``least`` bytes or more, the largest first, and the others."""
    large = sorted((name for name, blob in files.items() if blob.size >= least), key=lambda name: -files[name].size)
    return {name: files[name] for name in large}, {name: blob for name, blob in files.items() if blob.size < least}


@dataclass(frozen=True)
class Trip:
    """How a parcel travels beside its script: ``large`` files first, so that they are hashed while ``small`` travel.

    ``beside`` begins the names of what the script is told of one by one, ``word`` says that all small ones are there.
    """

    large: tuple[Apart, ...]
    small: tuple[Apart, ...]
    beside: str
    word: bytes

    @classmethod
    def of(cls, parcel: Parcel, staging: str, least: int, guard: Callable[[], None]) -> Trip:
        """Files of ``least`` bytes or more are large.

        Where an older bundle is copied to its place at the same time, small files cannot go there: they go as a tar.
        """
        large, small = by_size(parcel.files, least)
        beside, word = f"{staging}.sent/", b"rest\n"
        alone = tuple(Apart.of(f"{beside}{name}", blob, guard) for name, blob in large.items())
        others = tuple(Apart.of(f"{staging}/{name}", blob, guard) for name, blob in small.items())
        if parcel.base and small:
            word, others = b"tar\n", (Apart(f"{beside}tar", tar_stream(small, guard), tar_bytes(small)),)
        return cls(alone, others, beside, word)

    def words(self, arrived: Iterable[str]) -> Iterator[bytes]:
        """What the script reads, from the names of files in the order in which the device had them.

        An empty name: none has arrived for a moment.
        """
        left = {file.name for file in self.small}
        for name in arrived:
            if not name:
                yield b""
            elif name not in left:
                yield f"{name.removeprefix(self.beside)}\n".encode()
            elif len(left) == 1:
                yield self.word
            left.discard(name)
        yield b"end\n"
