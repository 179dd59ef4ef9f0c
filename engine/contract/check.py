"""Small schema checks for JSON that comes from a device (no third-party code: this runs on devices)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from engine.contract.errors import RunnerNonsense

T = TypeVar("T")

MAX_NAME = 4096
MAX_RANK = 16
MAX_ITEMS = 1_000_000


class Fields:
    """Typed access to one JSON object; every complaint names the key path."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise RunnerNonsense(f"{where} is {type(value).__name__}, not an object")
        self._value = value
        self.where = where

    def _get(self, key: str) -> object:
        if key not in self._value:
            raise RunnerNonsense(f"{self.where}.{key} is missing")
        return self._value[key]

    def _typed(self, key: str, kinds: tuple[type, ...], default: object) -> object:
        value = self._get(key) if default is _REQUIRED else self._value.get(key, default)
        if value is None and default is None:
            return None
        if isinstance(value, bool) and bool not in kinds:
            raise RunnerNonsense(f"{self.where}.{key} is a boolean, not {kinds[0].__name__}")
        if not isinstance(value, kinds):
            raise RunnerNonsense(f"{self.where}.{key} is {type(value).__name__}, not {kinds[0].__name__}")
        return value

    def text(self, key: str, default: str | None = "\0") -> str:
        """String of at most ``MAX_NAME`` characters."""
        value = self._typed(key, (str,), _REQUIRED if default == "\0" else default)
        return "" if value is None else as_text(value, f"{self.where}.{key}")

    def optional_text(self, key: str) -> str | None:
        """String or null."""
        return None if self._value.get(key) is None else self.text(key)

    def integer(self, key: str, default: int | None = None, least: int = -(2**63), most: int = 2**63 - 1) -> int:
        """Whole number within ``least`` … ``most``."""
        value = self._typed(key, (int,), _REQUIRED if default is None else default)
        assert isinstance(value, int)  # noqa: S101 - narrowed by _typed
        if not least <= value <= most:
            raise RunnerNonsense(f"{self.where}.{key} is {value}, outside {least} … {most}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Finite number."""
        value = self._typed(key, (int, float), _REQUIRED if default is None else default)
        assert isinstance(value, (int, float))  # noqa: S101 - narrowed by _typed
        number = float(value)
        if not math.isfinite(number):
            raise RunnerNonsense(f"{self.where}.{key} is not finite")
        return number

    def flag(self, key: str, default: bool = False) -> bool:
        """Boolean."""
        return bool(self._typed(key, (bool,), default))

    def items(self, key: str, build: Callable[[object, str], T], required: bool = True) -> tuple[T, ...]:
        """Array, each element built by ``build(value, where)``."""
        value = self._typed(key, (list, tuple), _REQUIRED if required else ())
        assert isinstance(value, Sequence)  # noqa: S101 - narrowed by _typed
        if len(value) > MAX_ITEMS:
            raise RunnerNonsense(f"{self.where}.{key} has {len(value)} entries; at most {MAX_ITEMS} are taken")
        return tuple(build(item, f"{self.where}.{key}[{index}]") for index, item in enumerate(value))

    def mapping(self, key: str, build: Callable[[object, str], T], required: bool = True) -> dict[str, T]:
        """Object with free keys, each value built by ``build(value, where)``."""
        value = self._typed(key, (dict,), _REQUIRED if required else {})
        assert isinstance(value, Mapping)  # noqa: S101 - narrowed by _typed
        return {str(name): build(item, f"{self.where}.{key}[{name!r}]") for name, item in value.items()}

    def shape(self, key: str) -> tuple[int, ...]:
        """Array of at most ``MAX_RANK`` sizes, none negative."""
        dims = self.items(key, as_size)
        if len(dims) > MAX_RANK:
            raise RunnerNonsense(f"{self.where}.{key} has rank {len(dims)}; at most {MAX_RANK} is taken")
        return dims

    def child(self, key: str) -> Fields:
        """Nested object."""
        return Fields(self._get(key), f"{self.where}.{key}")

    def optional_child(self, key: str) -> Fields | None:
        """Nested object or null."""
        value = self._value.get(key)
        return None if value is None else Fields(value, f"{self.where}.{key}")


_REQUIRED = object()


def as_size(value: object, where: str) -> int:
    """A tensor dimension: a whole number from 0 to 2**40."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**40:
        raise RunnerNonsense(f"{where} is {value!r}, not a tensor dimension")
    return value


def as_text(value: object, where: str) -> str:
    """A string of at most ``MAX_NAME`` characters that can be written as UTF-8."""
    if not isinstance(value, str):
        raise RunnerNonsense(f"{where} is {type(value).__name__}, not a string")
    if len(value) > MAX_NAME:
        raise RunnerNonsense(f"{where} has {len(value)} characters; at most {MAX_NAME} are taken")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise RunnerNonsense(f"{where} holds half a surrogate pair, which is no text")
    return value


def as_digest(value: object, where: str) -> str:
    """32 lower-case hexadecimal digits (XXH3-128 of the tensor's little-endian bytes in C order)."""
    text = as_text(value, where)
    if len(text) != 32 or not set(text) <= set("0123456789abcdef"):
        raise RunnerNonsense(f"{where} is {text[:40]!r}, not a digest of 32 hexadecimal digits")
    return text
