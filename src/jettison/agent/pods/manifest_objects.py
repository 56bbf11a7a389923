"""ConfigMaps and Secrets in the manifest directories of a node, for the pods that come from there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from jettison import events
from jettison.agent.pods.directories import ManifestDirectory
from jettison.errors import ContentError, ManifestError
from jettison.events import Emit
from jettison.manifests.kept_objects import KINDS, identity, object_values
from jettison.runtimes.configuration import IssuedToken, ObjectKind, TokenOrder
from jettison.runtimes.kept_text import MOST_BYTES, KeptText

_KIND_NAMES = {ObjectKind.CONFIG_MAP: "ConfigMap", ObjectKind.SECRET: "Secret"}


class ManifestObjects:
    """Looked up when they are asked for: a directory has at most 500 documents."""

    def __init__(self, directories: Sequence[ManifestDirectory]) -> None:
        self._directories = directories

    async def read(self, kind: ObjectKind, namespace: str, name: str) -> KeptText | None:
        """One of them; of two with one name the first counts, in the order of directories and files."""
        title = _KIND_NAMES[kind]
        for source, document in _objects(self._directories):
            try:
                if identity(document) == (title, namespace, name):
                    return _kept(document, title, _refused(kind, name, source))
            except (ManifestError, OSError) as error:
                raise ContentError(f"{_refused(kind, name, source)}: {error}") from error
        return None

    async def token(self, order: TokenOrder) -> IssuedToken:
        """There is nothing that could issue one."""
        raise ContentError(f'no API that issues tokens of service account "{order.account}" to a pod from a manifest')


def _refused(kind: ObjectKind, name: str, source: str) -> str:
    return f'{kind} "{name}" of {source} cannot be used'


def _kept(document: dict[str, Any], title: str, label: str) -> KeptText:
    """At most 256 KiB of JSON, 0.3 ms. Raises OSError."""
    found = KeptText(title, label)
    try:
        found.begin()(msgspec.json.encode(document))
    except OSError:
        found.close()
        raise
    return found


def check_objects(directories: Iterable[ManifestDirectory], emit: Emit) -> set[str]:
    """The files in which such an object is wrong; what is wrong is told."""
    wrong: set[str] = set()
    seen: set[tuple[str, str, str]] = set()
    for source, document in _objects(directories):
        try:
            name = identity(document)
            if name in seen:
                raise ManifestError(f"{name[0]} `{name[1]}/{name[2]}` is there twice, the second is left out")
            seen.add(name)
            object_values(document, MOST_BYTES)
        except ManifestError as error:
            emit(events.ActionFailed(f"read {source}", f"{source}: {error}"))
            wrong.add(source)
    return wrong


def _objects(directories: Iterable[ManifestDirectory]) -> Iterable[tuple[str, dict[str, Any]]]:
    return (
        (source, document)
        for directory in directories
        for source, document in directory.documents()
        if document["kind"] in KINDS
    )
