"""Profiles by name: each is a module of this folder with a ``PROFILE``; learned ones are adopted."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import consistency.thresholds as folder
from consistency.thresholds.profile import Profile

_MACHINERY = frozenset({"fitting", "learned", "profile", "registry", "rules"})


def _names() -> tuple[str, ...]:
    return tuple(
        sorted(module.name for module in pkgutil.iter_modules(folder.__path__) if module.name not in _MACHINERY)
    )


PROFILE_NAMES = _names()
_ADOPTED: dict[str, Profile] = {}


def profile(name: str) -> Profile:
    """The profile called ``name``; ``ValueError`` names the known ones."""
    return _ADOPTED[name] if name in _ADOPTED else _of_the_code(name)


def adopt(learned: Profile) -> str:
    """Make a learned profile known to this process under its name, which says what it holds. ``ValueError`` if not."""
    if learned.name in PROFILE_NAMES or _ADOPTED.setdefault(learned.name, learned) != learned:
        raise ValueError(f"another profile is called {learned.name!r}")
    return learned.name


@cache
def _of_the_code(name: str) -> Profile:
    if name not in PROFILE_NAMES:
        raise ValueError(f"unknown profile {name!r}; known: {', '.join([*PROFILE_NAMES, *_ADOPTED])}")
    found: object = importlib.import_module(f"consistency.thresholds.{name}").PROFILE
    if not isinstance(found, Profile):
        raise TypeError(f"consistency/thresholds/{name}.py has no PROFILE")
    return found
