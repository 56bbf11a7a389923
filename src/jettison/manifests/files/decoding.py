"""JSON from anywhere to values: bounded, and msgspec's complaints as ours.

This and `plain_yaml` are the only ways in. What comes out is nested at most 100 levels deep, so that it may be
walked by recursion; it holds no half surrogates, which could not be printed, and no number of thousands of digits.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from jettison.errors import ManifestError
from jettison.manifests.files.plain_files import LARGEST_STATE, read_plain

Unsigned = Annotated[int, Meta(ge=0)]
T = TypeVar("T")

DEEPEST: Final = 100
"""No Kubernetes object has 20 levels."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_ANYTHING: Final = msgspec.json.Decoder()
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(set(range(256)) - _STEPS.keys())
# Types that msgspec has looked at as a whole.
_learnt: set[type[Any]] = set()
_learning = threading.Lock()


class Wire(Struct, rename="camel", gc=False):
    """A document's shape. Absent and null are the same thing, as they are to Go."""


def decode(decoder: msgspec.json.Decoder[T], data: bytes, source: str) -> T:
    """What `data` says, or a ManifestError that names `source` and the place in it.

    msgspec stops by itself before it runs out of stack, a thousand levels deep. That is enough for shapes, which hold
    what they name; where `T` holds just anything, `bounded` comes first.
    """
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise ManifestError(f"{source}: {_reworded(error) if bytes(data).strip() else 'is empty'}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: not UTF-8") from error
    except RecursionError as error:
        raise ManifestError(f"{source}: nested too deeply to be a Kubernetes object") from error


def bounded(data: bytes, source: str) -> bytes:
    """The same bytes, or a ManifestError when they nest deeper than anything that is read here."""
    if is_too_deep(data):
        raise ManifestError(f"{source}: nested more than {DEEPEST} levels deep")
    return data


def decode_anything(data: bytes, source: str) -> Any:
    """A JSON value of no known shape."""
    return decode(_ANYTHING, bounded(data, source), source)


def read_json(path: Path, decoder: msgspec.json.Decoder[T]) -> T:
    """A file that this program wrote, and that something else may have written to since.

    Raises the kernel's OSError and ManifestError.
    """
    return decode(decoder, bounded(read_plain(path, LARGEST_STATE), str(path)), str(path))


def is_too_deep(data: bytes) -> bool:
    """Counts brackets outside texts; a broken document may be called deep, and is refused one way or the other.

    As fast as msgspec reads: 40 MB/s. A loop over tokens takes three times as long.
    """
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return False
    between_texts = data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = b"".join(between_texts).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > DEEPEST


def without_surrogates(value: Any) -> Any:
    """As Go reads them: half of a pair is U+FFFD. Python's own decoder lets them through, and printing them fails."""
    if isinstance(value, str):
        return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def convert(document: object, shape: type[T], source: str) -> T:
    """Like `decode`, for a document that is already decoded (from YAML, or from an API)."""
    if shape not in _learnt:
        _learn(shape)
    try:
        return msgspec.convert(document, shape)
    except msgspec.ValidationError as error:
        raise ManifestError(f"{source}: {_reworded(error)}") from error
    except RecursionError as error:
        raise ManifestError(f"{source}: nested too deeply to be a Kubernetes object") from error


def _learn(shape: type[Any]) -> None:
    """msgspec looks at a type when it is first used, and keeps what it has found so far where every thread finds it:
    two that use the type for the first time at once end the process with SIGSEGV. A decoder looks at all of it.
    """
    with _learning:
        if shape not in _learnt:
            msgspec.json.Decoder(shape)
            _learnt.add(shape)


def named(kind: str, document: object) -> str:
    """How a complaint calls the document: by its name, as far as it has one."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{kind} `{name}`" if isinstance(name, str) else kind


def _reworded(error: msgspec.MsgspecError) -> str:
    text, _, place = str(error).partition(" - at ")
    text = text if text.startswith("JSON") else text[:1].lower() + text[1:]
    return f"{text} at {place}".replace("`$.", "`") if place else text


def shortened(text: str) -> str:
    """A hostile value must not fill the screen."""
    return text if len(text) <= 60 else f"{text[:40]}… ({len(text)} characters)"
