"""Recipes: TOML files whose values can be replaced one by one, as on a command line."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_values(path: str | Path, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Plain values of a recipe, with some replaced by `key=value` overrides.

    Args:
        path: A TOML file.
        overrides: `table.key=value`, the value written as in TOML (a bare word is a string).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no TOML, or an override is none.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    return overridden(values, overrides)


def quoted(text: str) -> str:
    """A text as the value of an override, whatever else it might be read as."""
    return json.dumps(text, ensure_ascii=False)


def overridden(values: dict[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """The values, changed in place by `key=value` overrides.

    Raises:
        ValueError: If an override is none.
    """
    for override in overrides:
        _override(values, override)
    return values


def _override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise ValueError(f'"{override}" is no override: expected key=value, as training.n_rows=64')
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        read = {"value": text.strip()}
    if len(read) > 1:
        raise ValueError(f"{override!r} holds more than one setting: give each one by itself")
    *tables, name = key.strip().split(".")
    table = values
    for part in tables:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ValueError(f'"{override}": {part} is a setting, not a table of settings')
    table[name] = read["value"]
