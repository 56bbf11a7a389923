"""Pods of manifests that the operator deleted by hand: they stay away while their manifest says what it said then.

The directory of manifests is the truth about what should run, so a deletion cannot be more than an exception to it. It
is on file, because an agent that is restarted at night must not bring back what was deleted in the evening; and it ends
by itself when the manifest changes or goes, because that is the newer word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from jettison import events
from jettison.agent.pods.readmission import DELAY, LIVES
from jettison.errors import ManifestError, WriteError
from jettison.events import Emit
from jettison.manifests.files.decoding import read_json
from jettison.manifests.files.plain_files import replace_file, set_aside
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.protocol import PodManifest

NAME = "held.json"

_DECODER = msgspec.json.Decoder(dict[str, str])
# What is ours in a document, and changes though nothing was written.
_OURS = (LIVES, DELAY)


class Holds:
    """By namespace and name of the pod, what its manifest said; `path` has the same."""

    def __init__(self, path: Path, emit: Emit) -> None:
        self._path = path
        self._stamps: dict[str, str] = {}
        try:
            self._stamps = read_holds(path)
        except ManifestError as error:
            why = f"{set_aside(path, str(error))}; they start again"
            emit(events.ActionFailed("read which pods were deleted by hand", why))

    @property
    def names(self) -> list[str]:
        """`namespace/name` of each pod that is held."""
        return list(self._stamps)

    def holds(self, manifest: PodManifest) -> bool:
        """Whether it is to stay away."""
        held = self._stamps.get(str(manifest.pod))
        return held is not None and held == _stamp(manifest.document)

    def hold(self, manifest: PodManifest) -> None:
        """From now on, and after a restart. Raises WriteError, and then nothing has changed."""
        self._write({**self._stamps, str(manifest.pod): _stamp(manifest.document)})

    def release(self, name: str) -> None:
        """It may start again. Raises WriteError, and then nothing has changed."""
        if name in self._stamps:
            self._write({each: stamp for each, stamp in self._stamps.items() if each != name})

    def keep_only(self, wanted: Mapping[str, PodManifest]) -> None:
        """Forget those whose manifest is gone or says something else by now; `wanted` is by namespace and name."""
        kept = {
            name: stamp
            for name, stamp in self._stamps.items()
            if name in wanted and stamp == _stamp(wanted[name].document)
        }
        if kept != self._stamps:
            self._write(kept)

    def _write(self, stamps: dict[str, str]) -> None:
        try:
            replace_file(self._path, msgspec.json.encode(stamps))
        except OSError as error:
            raise WriteError(f"cannot write `{self._path}`: {reason(error)}") from error
        self._stamps = stamps


def read_holds(path: Path) -> dict[str, str]:
    """What is on file; raises ManifestError where that makes no sense."""
    try:
        return read_json(path, _DECODER)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ManifestError(f"cannot read `{path}`: {reason(error)}") from error


def _stamp(document: Mapping[str, Any]) -> str:
    metadata = dict(document.get("metadata") or {})
    annotations = metadata.pop("annotations", None) or {}
    # The count of lives is part of the uid, and a pod that was evicted twice has the same manifest.
    metadata.pop("uid", None)
    said = {name: text for name, text in annotations.items() if name not in _OURS}
    data = msgspec.json.encode({**document, "metadata": {**metadata, "annotations": said}}, order="deterministic")
    return hashlib.sha256(data).hexdigest()
