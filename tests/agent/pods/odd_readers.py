"""Children that read manifests with parsers as an attacker would wish for; `test_manifest_reader` has them started."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from jettison.agent.pods import manifest_child
from jettison.runtimes.linux.aside_child import MessageChannel


def _with_parser(channel: MessageChannel, parser: Callable[[str, str], Any]) -> None:
    vars(manifest_child)["parse_documents"] = parser
    manifest_child.serve(channel)


def crash(channel: MessageChannel) -> None:
    """A mistake in C code."""
    _with_parser(channel, lambda *_: ctypes.string_at(0))


def _forever(*_: str) -> None:
    while True:
        pass


def burn(channel: MessageChannel) -> None:
    """Never done."""
    _with_parser(channel, _forever)


def take_memory(channel: MessageChannel) -> None:
    """More than there may be."""
    _with_parser(channel, lambda *_: bytearray(600 * 2**20))
