"""Encoders by name, as a recipe or a command line asks for them: `static:glove.txt+elmo`."""

import re
from typing import NamedTuple

import torch

from elmo.checkpoints.sources import DEFAULT_MODEL
from elmo.config import suggest
from elmo.encoders.elmo import ElmoEncoder
from elmo.encoders.encoder import Encoder
from elmo.encoders.static import StaticEncoder

NONE, ELMO, STATIC, TRANSFORMER, TFIDF = KINDS = ("none", "elmo", "static", "transformer", "tfidf")
TAKES = {ELMO: "MODEL", STATIC: "FILE", TRANSFORMER: "NAME_OR_FOLDER"}
"""What stands behind the colon."""
_DIVIDER = re.compile(rf"\+(?=\s*(?:(?:{'|'.join(KINDS)})\s*(?:[:+]|$)|[a-z]+\s*:))")


class Part(NamedTuple):
    """One encoder that is asked for.

    Attributes:
        name: As it was written.
        kind: One of `KINDS`.
        argument: What stood behind the colon; empty without one.
    """

    name: str
    kind: str
    argument: str = ""


def read_specification(text: str) -> tuple[Part, ...]:
    """The encoders that a text asks for, in order; nothing is opened yet.

    A `+` divides where a kind follows it, or anything with a colon; elsewhere it belongs to a name.

    Raises:
        ValueError: If a kind is not known, lacks what it needs, or does not go with others.

    Example:
        >>> [part.kind for part in read_specification("static:glove.txt+elmo")]
        ['static', 'elmo']
    """
    wanted = "give none, elmo, elmo:MODEL, static:FILE, transformer:NAME_OR_FOLDER or tfidf"
    parts = []
    for name in _DIVIDER.split(text.strip()):
        kind, colon, argument = (field.strip() for field in name.partition(":"))
        if kind not in KINDS:
            raise ValueError(
                f'"{name.strip()}" names no encoder.{suggest(kind, KINDS)} Wanted: {wanted}, or '
                "several with + between"
            )
        if kind in (STATIC, TRANSFORMER) and not argument:
            raise ValueError(f'"{name.strip()}" does not say which: give {kind}:{TAKES[kind]}')
        if kind in (NONE, TFIDF) and colon:
            raise ValueError(f'"{name.strip()}": {kind} takes nothing behind a colon')
        if kind == ELMO and colon and not argument:
            raise ValueError(f'"{name.strip()}" does not say which: give elmo or elmo:MODEL')
        parts.append(Part(name.strip(), kind, argument))
    if len(parts) > 1 and any(part.kind == NONE for part in parts):
        raise ValueError(f'"{text}": none goes with no other encoder; leave it out')
    if len({part.name for part in parts}) < len(parts):
        raise ValueError(f'"{text}" asks for the same encoder twice: leave one out')
    return tuple(part for part in parts if part.kind != NONE)


def open_encoders(
    specification: str | tuple[Part, ...],
    *,
    device: str | torch.device = "cpu",
    offline: bool | None = None,
) -> tuple[Encoder, ...]:
    """The encoders that are asked for, one for each part; none for `none`.

    Args:
        specification: As for `read_specification`, or what that gave.
        device: Where to compute.
        offline: Never use the network; by default as ELMO_OFFLINE or HF_HUB_OFFLINE say.

    Raises:
        ValueError: If the specification is none, asks for `tfidf` (which gives a vector per
            document, not per token; see `Tfidf`), or what it names is damaged.
        ImportError: If what an encoder needs is not installed.
        FileNotFoundError: If there is no such model or file.
        OSError: If a download fails.
    """
    if isinstance(specification, str):
        specification = read_specification(specification)
    for part in specification:
        if part.kind == TFIDF:
            raise ValueError(
                "tfidf gives one vector per document, not per token: only classification takes it"
            )
    return tuple(_open(part, device, offline) for part in specification)


def _open(part: Part, device: str | torch.device, offline: bool | None) -> Encoder:
    if part.kind == ELMO:
        model = part.argument or DEFAULT_MODEL
        return ElmoEncoder.open(model, name=part.name, device=device, offline=offline)
    if part.kind == STATIC:
        return StaticEncoder.open(part.argument, name=part.name)
    from elmo.encoders.transformer import TransformerEncoder

    return TransformerEncoder.open(part.argument, name=part.name, device=device, offline=offline)
