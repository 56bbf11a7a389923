"""What `lint` looks at: files and directories of configurations and manifests, and the objects of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jettison.engine.config.kubelet_fields import KIND
from jettison.engine.lint.subjects import Objects
from jettison.errors import ApiError, InputError, ManifestError
from jettison.manifests.files.decoding import decode_anything
from jettison.manifests.files.plain_files import plain_text, read_given
from jettison.manifests.files.plain_yaml import load_documents
from jettison.manifests.linted_objects import KINDS, objects_from
from jettison.manifests.node_files import LARGEST_LIST
from jettison.runtimes.kube.client import KubeClient, together
from jettison.runtimes.kube.kinds import (
    BUDGETS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Kind,
)
from jettison.values import frozen

MOST_FILES = 10_000
"""Of a directory; more are hardly meant."""

_SUFFIXES = (".yaml", ".yml", ".json", ".conf")
_IN_CLUSTER: Mapping[str, Kind] = {
    "Pod": PODS,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "ReplicationController": REPLICATION_CONTROLLERS,
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "Job": JOBS,
    "PodDisruptionBudget": BUDGETS,
    "PriorityClass": PRIORITY_CLASSES,
    "HorizontalPodAutoscaler": Kind("autoscaling", "horizontalpodautoscalers", version="v2"),
}


@frozen
class FoundAt:
    """Where an object stands."""

    source: str
    line: int | None = None


@dataclass(slots=True)
class Gathered:
    """All that was found, with what cannot be used: a place and a message each."""

    # Files that hold a KubeletConfiguration.
    configs: list[str] = field(default_factory=list)
    documents: list[Mapping[str, Any]] = field(default_factory=list)
    # By `Kind namespace/name`.
    places: dict[str, FoundAt] = field(default_factory=dict)
    broken: list[tuple[FoundAt, str]] = field(default_factory=list)
    files: int = 0
    # Paths of the command line that hold nothing of all this.
    idle: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Of everything that was found."""
        return len(self.configs) + len(self.documents) + len(self.broken)

    def objects(self) -> Objects:
        """What rules look at; a document of another shape is among the broken ones afterwards."""
        good = []
        for document in self.documents:
            try:
                objects_from([document])
            except ManifestError as error:
                self.broken.append((self.places.get(object_name(document), FoundAt("")), str(error)))
            else:
                good.append(document)
        return objects_from(good)

    def add(self, document: object, place: FoundAt) -> None:
        """A document, or the items of a list."""
        if not isinstance(document, Mapping):
            return
        kind = document.get("kind")
        if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
            for item in document["items"]:
                # Items of a typed list do not name their kind.
                self.add({"kind": kind.removesuffix("List"), **item} if isinstance(item, Mapping) else item, place)
        elif kind in KINDS:
            self.documents.append(document)
            self.places.setdefault(object_name(document), place)


def object_name(document: Mapping[str, Any]) -> str:
    """`Kind namespace/name`, as findings name an object."""
    metadata = document.get("metadata")
    parts = metadata if isinstance(metadata, Mapping) else {}
    name = parts.get("name") or parts.get("generateName") or ""
    return f"{document.get('kind')} {parts.get('namespace') or 'default'}/{name}"


def gather(paths: Sequence[str]) -> Gathered:
    """Every file, and every YAML or JSON file below a directory. What cannot be read is told and not raised."""
    found = Gathered()
    for given in paths:
        path, before = Path(given), found.count
        if not os.path.lexists(path):
            raise InputError(f"cannot read `{given}`: no such file or directory")
        for each in _below(path) if path.is_dir() else [path]:
            found.files += 1
            if found.files > MOST_FILES:
                raise InputError(f"`{given}` holds more than {MOST_FILES} files")
            try:
                _read(each, found)
            except (InputError, ManifestError) as error:
                found.broken.append(_placed(str(each), str(error)))
        if found.count == before:
            found.idle.append(given)
    return found


def _below(directory: Path) -> Iterator[Path]:
    """In the order of their names; links to directories are not followed, and a pipe is not opened."""
    for top, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            path = Path(top) / name
            if path.suffix in _SUFFIXES and path.is_file():
                yield path


def _read(path: Path, found: Gathered) -> None:
    data, name = read_given(path, LARGEST_LIST), str(path)
    if data.lstrip().startswith((b"{", b"[")):
        documents, lines = [decode_anything(data, name)], [1]
    else:
        text = plain_text(data, name)
        documents = load_documents(text, name)
        lines = _beginnings(text)
    for place, document in enumerate(documents):
        if isinstance(document, Mapping) and document.get("kind") == KIND:
            found.configs.append(name)
        else:
            line = lines[place] if len(lines) == len(documents) else None
            found.add(document, FoundAt(name, line))


def _beginnings(text: str) -> list[int]:
    """The line at which each document of a YAML file begins."""
    begins: list[int] = []
    is_open = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("---"):
            is_open = False
        elif not is_open and line.strip() and not line.lstrip().startswith(("#", "%")):
            begins.append(number)
            is_open = True
    return begins


def _placed(name: str, message: str) -> tuple[FoundAt, str]:
    """A message that begins with the file, and perhaps its line, as a place and the rest."""
    rest = message.removeprefix(f"{name}:")
    line, colon, said = rest.partition(":")
    if rest != message and colon and line.isdigit():
        return FoundAt(name, int(line)), said.strip()
    return FoundAt(name), rest.strip()


async def gather_from_cluster(client: KubeClient) -> Gathered:
    """Every object of the kinds that rules look at; a kind that the server does not have is passed over."""
    found = Gathered()

    async def items(kind: Kind) -> list[dict[str, Any]]:
        try:
            return list((await client.list(kind)).items)
        except ApiError as error:
            if error.code == 404:
                return []
            raise

    listed = await together(*(items(kind) for kind in _IN_CLUSTER.values()))
    for kind, documents in zip(_IN_CLUSTER, listed, strict=True):
        for document in documents:
            found.add({**document, "kind": kind}, FoundAt("cluster"))
    return found
