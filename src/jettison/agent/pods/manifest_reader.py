"""Manifests are read by a child that is gone afterwards.

The agent stays for months, with its memory locked. A YAML parser takes 1 MB of that, of 28; a file of 1 MB takes
hundreds for a moment, which Python does not give back; and the parser is C code that is given whatever a file holds.
The child opens the file itself and has limits of its own on memory and processor time. What it hands over is measured
(`manifests.bounds`) and comes one document at a time, because decoding holds the interpreter: 0.4 ms for the largest
one. A child takes 60 ms to be there, so one child reads all that changed. The caller waits for it, in a thread.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NamedTuple, Self

import msgspec

from jettison.errors import ManifestError, ObservationError
from jettison.manifests.files import bounds
from jettison.runtimes.linux.aside import PROCESSOR_SECONDS, Aside

_PROGRAM = "jettison.agent.pods.manifest_child:serve"

Documents = list[dict[str, Any]]

# How many documents follow, None when the file is gone; and what is wrong.
_ANSWER = msgspec.json.Decoder(tuple[int | None, str])
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])

# Longer ones are no words that come again.
_LONGEST_SHARED = 100


class Reading(NamedTuple):
    """The documents of a file, and how many bytes of JSON they are."""

    documents: Documents
    size: int


class ManifestReader:
    """For one look: the child begins with the first file and ends with the `with`."""

    def __init__(self, processor_seconds: int = PROCESSOR_SECONDS, program: str = _PROGRAM) -> None:
        """`program` is what the child does, for tests of what a parser may do to it."""
        self._child = Aside(program, processor_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.end()

    def read(self, path: str, source: str) -> Reading | None:
        """What a file holds, None when it is gone. Raises ManifestError, and ObservationError where another try may
        succeed. `source` is the file's name as it can be shown.
        """
        found: list[dict[str, Any]] = []
        size = 0
        try:
            self._child.send(os.fsencode(path))
            self._child.send(source.encode())
            answer = self._child.receive(bounds.LARGEST_DOCUMENT)
            count, complaint = _ANSWER.decode(answer) if answer else (0, "")
            if count is None:
                return None
            for _ in range(count):
                answer = self._child.receive(bounds.LARGEST_DOCUMENT)
                if not answer:
                    break
                size += len(answer)
                found.append(_shared(_DOCUMENT.decode(answer)))
        except ConnectionError:
            answer = b""
        except ObservationError as error:
            raise ObservationError(f"{source}: {error}") from error
        if not answer:
            raise self._crashed(source)
        if complaint:
            raise ManifestError(complaint)
        return Reading(found, size)

    def _crashed(self, source: str) -> ManifestError | ObservationError:
        status = self._child.end()
        if status == -signal.SIGKILL:
            return ObservationError(f"{source}: the process that read it was killed")
        if status == -signal.SIGXCPU:
            seconds = self._child.processor_seconds
            return ManifestError(f"{source}: reading it takes more than {seconds} s of processor time")
        return ManifestError(f"{source}: the process that reads it crashes, exit code {status}")


def _shared(value: Any) -> Any:
    """One copy of each text: the documents stay, and a hundred of them are made of the same thirty words."""
    if isinstance(value, str):
        return sys.intern(value) if len(value) <= _LONGEST_SHARED else value
    if isinstance(value, dict):
        return {sys.intern(key): _shared(each) for key, each in value.items()}
    return [_shared(each) for each in value] if isinstance(value, list) else value
