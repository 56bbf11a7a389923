"""Bytes to structs, and msgspec's complaints to ours."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from jettison.errors import ManifestError

Unsigned = Annotated[int, Meta(ge=0)]
T = TypeVar("T")


class Wire(Struct, rename="camel", gc=False):
    """A document's shape. Absent and null are the same thing, as they are to Go."""


def decode(decoder: msgspec.json.Decoder[T], data: bytes, source: str) -> T:
    """What `data` says, or a ManifestError that names `source` and the place in it."""
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ManifestError(f"{source}: {_reworded(error)}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: not UTF-8") from error
    except RecursionError as error:
        raise ManifestError(f"{source}: nested too deeply to be a Kubernetes object") from error


def convert(document: object, shape: type[T], source: str) -> T:
    """Like `decode`, for a document that is already decoded (from YAML, or from an API)."""
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{source}: {_reworded(error)}") from error


def _reworded(error: msgspec.MsgspecError) -> str:
    text, _, place = str(error).partition(" - at ")
    text = text if text.startswith("JSON") else text[:1].lower() + text[1:]
    return f"{text} at {place}".replace("`$.", "`") if place else text


def shortened(text: str) -> str:
    """A hostile value must not fill the screen."""
    return text if len(text) <= 60 else f"{text[:40]}… ({len(text)} characters)"
