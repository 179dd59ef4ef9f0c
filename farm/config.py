"""Strict YAML: every complaint names the file, the key path and the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from engine.contract.errors import ConfigError

M = TypeVar("M", bound="Strict")

MAX_BYTES = 4 * 1024 * 1024


class Strict(BaseModel):
    """Base of everything that is read from YAML: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class _UniqueKeyLoader(yaml.SafeLoader):
    """A key given twice is an error, not the last one wins."""


def _mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[object, object]:
    seen: set[object] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)  # type: ignore[no-untyped-call, unused-ignore]
        if not isinstance(key, (str, int, float, bool)):
            raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> Any:
    """Parse one YAML file; ``ConfigError`` when absent, too large or broken."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes", hint="a configuration file is small; check it")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", hint="run from the top of the repository, or name it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {error}", hint="check the file's permissions and encoding"
        ) from error
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader subclass
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error}", hint="mend the line it names") from error


def load(path: Path, model: type[M]) -> M:
    """Read ``path`` into ``model``."""
    return validate(read_yaml(path), model, str(path))


def validate(document: object, model: type[M], source: str) -> M:
    """Check ``document`` against ``model``; all faults are listed at once."""
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: holds {type(document).__name__}, not a mapping", hint="see docs/ for an example")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        lines = [_complaint(fault, model) for fault in error.errors()]
        raise ConfigError(
            f"{source}: " + "; ".join(lines), hint="mend the keys named above; docs/ shows a complete example"
        ) from error


def _complaint(fault: Mapping[str, Any], model: type[BaseModel]) -> str:
    location = fault["loc"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    if fault["type"] != "extra_forbidden":
        return f"{path or 'document'}: {fault['msg']}"
    known = _siblings(model, location[:-1])
    near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.4)
    suggestion = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
    return f"{path}: unknown key ({suggestion})"


def _siblings(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Field names allowed at ``location``, found by walking the model's JSON schema."""
    schema = model.model_json_schema()
    node: Any = schema
    for part in location:
        node = _resolve(node, schema)
        if isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(part, node.get("additionalProperties") or node)
    return list(_resolve(node, schema).get("properties", {}))


def _resolve(node: Any, schema: dict[str, Any]) -> Any:
    while isinstance(node, dict):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
            continue
        options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
        if not options:
            break
        node = options[0]
    return node if isinstance(node, dict) else {}


def nearest(name: str, known: list[str]) -> str:
    """Words that point from a wrong name to the nearest right one."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known)) or 'none'}"
