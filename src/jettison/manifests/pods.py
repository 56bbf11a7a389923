"""v1 Pods, one or a list of them, to `engine.pods.Pod`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import field

from jettison.engine.pods import Container, Pod, PodResources, Volume
from jettison.engine.quantity import ZERO, Quantity, parse
from jettison.engine.taints import Toleration
from jettison.errors import ManifestError, QuantityError
from jettison.manifests.decoding import Wire, convert, decode, shortened

CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_MIRROR = "kubernetes.io/config.mirror"

ResourceTexts = dict[str, Any]


class _Resources(Wire):
    requests: ResourceTexts | None = None
    limits: ResourceTexts | None = None


class _Container(Wire):
    name: str = ""
    resources: _Resources | None = None
    restart_policy: str | None = None


class _EmptyDir(Wire):
    medium: str | None = None
    size_limit: Any = None


class _Present(Wire):
    """An object of which only its being there matters."""


class _Volume(Wire):
    name: str = ""
    empty_dir: _EmptyDir | None = None
    host_path: _Present | None = None
    git_repo: _Present | None = None
    config_map: _Present | None = None


class _Toleration(Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _Metadata(Wire):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    annotations: dict[str, str] | None = None


class _Spec(Wire):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: ResourceTexts | None = None
    resources: _Resources | None = None
    volumes: list[_Volume] | None = None
    tolerations: list[_Toleration] | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    termination_grace_period_seconds: int | None = None
    node_name: str | None = None


class _Status(Wire):
    qos_class: str | None = None
    phase: str | None = None


class PodDocument(Wire):
    """A v1 Pod, as far as eviction reads it."""

    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec = field(default_factory=_Spec)
    status: _Status | None = None
    kind: str | None = None


class PodListDocument(Wire):
    """What `kubectl get pods -o json` prints: a list, or one pod if it was asked for one."""

    kind: str | None = None
    items: list[PodDocument] | None = None


# A float in a document is an Any, kept as it was written: 0.1 is a fine quantity, its binary neighbour is not.
_POD = msgspec.json.Decoder(PodDocument, float_hook=str)
_POD_LIST = msgspec.json.Decoder(PodListDocument, float_hook=str)


def parse_pods(data: bytes, source: str = "pods") -> list[Pod]:
    """Every pod of a Pod, PodList or List document, in its order."""
    found = decode(_POD_LIST, data, source)
    if found.items is not None:
        return [_pod(item, f"{source}: items[{index}]") for index, item in enumerate(found.items)]
    if found.kind not in (None, "Pod"):
        raise ManifestError(f"{source}: kind is `{found.kind}`, expected Pod, PodList or List")
    return [_pod(decode(_POD, data, source), source)]


def pod_from(document: object, source: str = "pod") -> Pod:
    """The pod in a document that is already decoded."""
    return _pod(convert(document, PodDocument, source), source)


def _pod(document: PodDocument, source: str) -> Pod:
    metadata, spec, status = document.metadata, document.spec, document.status
    annotations = metadata.annotations
    try:
        return Pod(
            metadata.name,
            metadata.namespace or "",
            metadata.uid or f"{metadata.namespace or ''}/{metadata.name}",
            metadata.generation or 0,
            spec.priority,
            spec.priority_class_name or "",
            annotations is not None and annotations.get(CONFIG_SOURCE, "api") != "api",
            annotations is not None and CONFIG_MIRROR in annotations,
            status.qos_class or "" if status else "",
            _containers(spec.containers),
            _containers(spec.init_containers),
            _quantities(spec.overhead),
            _pod_resources(spec.resources),
            _volumes(spec.volumes) if spec.volumes else (),
            spec.termination_grace_period_seconds,
            _tolerations(spec.tolerations) if spec.tolerations else (),
            status.phase or "" if status else "",
            spec.node_name or "",
            annotations.get(CONFIG_MIRROR, "") if annotations else "",
        )
    except QuantityError as error:
        raise ManifestError(f"{source}: pod `{metadata.namespace}/{metadata.name}`: {error}") from error


def _containers(documents: Sequence[_Container] | None) -> tuple[Container, ...]:
    if not documents:
        return ()
    return tuple([_container(document) for document in documents])


def _container(document: _Container) -> Container:
    resources = document.resources
    is_sidecar = document.restart_policy == "Always"
    if resources is None:
        return Container(document.name, is_sidecar=is_sidecar)
    return Container(document.name, _quantities(resources.requests), _quantities(resources.limits), is_sidecar)


def _pod_resources(document: _Resources | None) -> PodResources | None:
    if document is None:
        return None
    return PodResources(_quantities(document.requests), _quantities(document.limits))


def _quantities(texts: ResourceTexts | None) -> dict[str, Quantity]:
    if not texts:
        return {}
    return {name: _quantity(text, name) for name, text in texts.items()}


def _quantity(text: object, name: str) -> Quantity:
    """Kubernetes takes a text or a bare number, and null for nothing."""
    if isinstance(text, str):
        try:
            return parse(text)
        except QuantityError as error:
            raise QuantityError(f"{name} `{shortened(text)}`: {error}") from error
    if text is None:
        return ZERO
    if isinstance(text, int | float) and not isinstance(text, bool):
        return parse(str(text))
    raise QuantityError(f"{name} is a {type(text).__name__}, expected a quantity such as `100Mi`")


def _volumes(documents: Iterable[_Volume]) -> tuple[Volume, ...]:
    return tuple([_volume(document) for document in documents])


def _volume(document: _Volume) -> Volume:
    empty_dir = document.empty_dir
    if empty_dir is not None:
        limit = _quantity(empty_dir.size_limit, "sizeLimit") if empty_dir.size_limit is not None else None
        return Volume(document.name, not empty_dir.medium, limit if limit and limit.sign > 0 else None)
    is_local = not (document.host_path is document.git_repo is document.config_map is None)
    return Volume(document.name, is_local)


def _tolerations(documents: Iterable[_Toleration]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.key or "", each.operator or "", each.value or "", each.effect or "", each.toleration_seconds)
        for each in documents
    )
