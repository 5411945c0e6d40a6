"""JSON as data sets have it: whole files or a record on each line, and fields that are checked.

An error names the file and the place in it: `dev.json, data[0].paragraphs[3]` or `dev.jsonl,
line 12`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from elmo.text import check_text, read_lines, write_lines

Kind = TypeVar("Kind")

_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "a truth value",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def parsed(text: str) -> Any:
    """What a text in JSON says.

    Raises:
        json.JSONDecodeError: If it is not JSON.
        ValueError: If it is nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(
            "its lists and objects stand too deep within each other; is it a file of the task?"
        ) from None


def read_json(path: str | Path) -> Any:
    """What a JSON file holds; `.gz`, `.xz` and `.zst` are decompressed.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not UTF-8 or not JSON, with the line, or nested too deeply.
    """
    text = "\n".join(read_lines(path))
    try:
        return parsed(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: is not JSON ({error.msg})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def write_json(path: str | Path, values: Any) -> None:
    """Write values as JSON for people to read too; beside, and then renamed."""
    write_lines(path, [json.dumps(values, indent=2, ensure_ascii=False)])


def read_json_lines(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record of a file with one on each line, and where it stands; empty lines are none.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a line is not a JSON object.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = parsed(line)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{where}: is not JSON ({error.msg}), but a record on each line is wanted"
            ) from None
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        yield where, checked(record, dict, where)


def field(record: Mapping[str, Any], name: str, kind: type[Kind], where: str) -> Kind:
    """A field that a record has to have.

    Raises:
        ValueError: If it is missing, of another kind, or a string that is no text.
    """
    if name not in record:
        raise ValueError(f'{where}: "{name}" is missing, but {_NAMES[kind]} is wanted')
    return checked(record[name], kind, f'{where}: "{name}"')


def checked(value: Any, kind: type[Kind], where: str) -> Kind:
    """The value, if it is of this kind.

    Raises:
        ValueError: If not, or if it is a string that is no text.
    """
    if type(value) is not kind:
        shown = json.dumps(value, ensure_ascii=False)
        shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
        found = shown if value is None else f"{_NAMES[type(value)]}, {shown}"
        raise ValueError(f"{where} is {found}, but {_NAMES[kind]} is wanted")
    if isinstance(value, str):
        check_text(value, where)
    return value
