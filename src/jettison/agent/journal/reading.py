"""Reading the journal, from any process: by pod, by time, from either end.

Of each record only the envelope is decoded, and its content only where it is needed: a step over many pods takes a
hundred times longer than its envelope.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from jettison.agent.journal.files import MAGIC, SegmentReader, segments
from jettison.errors import ManifestError, ObservationError
from jettison.manifests.files.decoding import bounded, decode
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen

PodName = tuple[str, str, str]
"""Namespace, name and uid."""


@frozen
class PodQuery:
    """Which pod is asked for; what is empty matches everything."""

    name: str = ""
    namespace: str = ""
    uid: str = ""

    @classmethod
    def parse(cls, text: str) -> PodQuery:
        """`namespace/name`, or a name in any namespace."""
        namespace, slash, name = text.partition("/")
        return cls(name, namespace) if slash else cls(text)

    def matches(self, pod: PodName) -> bool:
        """A name may also be given as the pod's uid, which is what other tools print."""
        namespace, name, uid = pod
        if self.uid and self.uid != uid:
            return False
        if self.name and self.name != name and (self.namespace or self.name != uid):
            return False
        return not self.namespace or self.namespace == namespace

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name or self.uid


class _Envelope(msgspec.Struct):
    version: int
    kind: str
    time: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    node: str
    pods: list[PodName]
    evicts: list[str] = msgspec.field(default_factory=list)
    ranks: bool = False
    event: str = ""
    values: msgspec.Raw = msgspec.Raw(b"{}")


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_VALUES = msgspec.json.Decoder(dict[str, Any])


@frozen
class Record:
    """One record; `data` is all of it, as JSON."""

    version: int
    kind: str
    time_ns: int
    node: str
    pods: list[PodName]
    # Of a step: the uids of those it ends, and whether it has an order of all pods.
    evicts: list[str]
    ranks: bool
    # Of a fact: its name and its values, as JSON.
    event: str
    values_data: bytes
    data: bytes

    @property
    def values(self) -> dict[str, Any]:
        """What a fact says."""
        try:
            return decode(_VALUES, bounded(self.values_data, "values"), "values")
        except ManifestError as error:
            return {"unreadable": str(error)}


def read_journal(
    directory: Path,
    *,
    newest_first: bool = False,
    about: PodQuery | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> Iterator[Record]:
    """Records that match, oldest first unless told otherwise. `until_ns` itself is not included.

    Raises ObservationError when the directory cannot be read; a record that the disk spoiled is passed over.
    """
    for data in _documents(directory, newest_first=newest_first):
        record = _record(data)
        if record is None or (since_ns is not None and record.time_ns < since_ns):
            continue
        if until_ns is not None and record.time_ns >= until_ns:
            continue
        if about is None or any(about.matches(pod) for pod in record.pods):
            yield record


class JournalFollower:
    """Reads on where it stopped: over new segments, and over old ones that were dropped before it came to them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = -1
        self._place = 0

    def news(self) -> Iterator[Record]:
        """Whole records that were added since the last call, oldest first; at the first call all there are."""
        try:
            for number, path in segments(self._directory):
                if number < self._number:
                    continue
                if number > self._number:
                    self._number, self._place = number, len(MAGIC)
                try:
                    reader = SegmentReader(path)
                except FileNotFoundError:
                    continue  # dropped by the agent since we looked
                with reader:
                    yield from self._read(reader)
        except OSError as error:
            raise _unreadable(self._directory, error) from error

    def _read(self, reader: SegmentReader) -> Iterator[Record]:
        for place, length in reader.frames(self._place):
            self._place = place + length
            document = reader.document(place, length)
            record = None if document is None else _record(document)
            if record is not None:
                yield record


def _documents(directory: Path, *, newest_first: bool) -> Iterator[bytes]:
    try:
        found = segments(directory)
        for _, path in reversed(found) if newest_first else found:
            try:
                reader = SegmentReader(path)
            except FileNotFoundError:
                continue  # dropped by the agent since we looked
            with reader:
                places = list(reader.frames())
                for place, length in reversed(places) if newest_first else places:
                    document = reader.document(place, length)
                    if document is not None:
                        yield document
    except OSError as error:
        raise _unreadable(directory, error) from error


def _unreadable(directory: Path, error: OSError) -> ObservationError:
    return ObservationError(f"cannot read the journal in `{directory}`: {reason(error)}")


def _record(data: bytes) -> Record | None:
    try:
        envelope = decode(_ENVELOPE, data, "record")
    except ManifestError:
        return None
    return Record(
        envelope.version,
        envelope.kind,
        envelope.time,
        envelope.node,
        envelope.pods,
        envelope.evicts,
        envelope.ranks,
        envelope.event,
        bytes(envelope.values),
        data,
    )
