"""v1 Pods as a drain sees them, to `engine.drain.NodePod`."""

from __future__ import annotations

from typing import Any

from msgspec import field

from jettison.engine.drain.filters import NodePod
from jettison.manifests.budgets import guarded_pod_from
from jettison.manifests.files.decoding import Wire, convert
from jettison.manifests.pods import CONFIG_MIRROR
from jettison.manifests.times import parse_time


class _Volume(Wire):
    empty_dir: dict[str, Any] | None = None


class _Spec(Wire):
    node_name: str | None = None
    volumes: list[_Volume] | None = None


class _Metadata(Wire):
    name: str = ""
    uid: str | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Pod(Wire):
    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec | None = None


def node_pod_from(document: object) -> NodePod:
    """The pod in a document from an API."""
    guarded = guarded_pod_from(document)
    pod = convert(document, _Pod, f"pod `{guarded.name}`")
    metadata, spec = pod.metadata, pod.spec or _Spec()
    return NodePod(
        guarded=guarded,
        uid=metadata.uid or "",
        node=spec.node_name or "",
        # Present is enough, whatever it says.
        is_mirror=CONFIG_MIRROR in (metadata.annotations or {}),
        has_empty_dir=any(volume.empty_dir is not None for volume in spec.volumes or ()),
        deadline_ns=parse_time(metadata.deletion_timestamp) if metadata.deletion_timestamp else None,
    )
