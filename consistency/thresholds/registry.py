"""Profiles by name: each is a module of this folder with a ``PROFILE``, found by its file name."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import consistency.thresholds as folder
from consistency.thresholds.profile import Profile

_MACHINERY = frozenset({"learned", "profile", "registry", "rules"})


def _names() -> tuple[str, ...]:
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(folder.__path__) if module.name not in _MACHINERY)
    )


PROFILE_NAMES = _names()


@cache
def profile(name: str) -> Profile:
    """The profile called ``name``; ``ValueError`` names the known ones."""
    if name not in PROFILE_NAMES:
        raise ValueError(f"unknown profile {name!r}; known: {', '.join(PROFILE_NAMES)}")
    found: object = importlib.import_module(f"consistency.thresholds.{name}").PROFILE
    if not isinstance(found, Profile):
        raise TypeError(f"consistency/thresholds/{name}.py has no PROFILE")
    return found
