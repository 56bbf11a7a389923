"""v1 Pods, one or a list of them, to `engine.pods.Pod`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec import field

from jettison.engine.config.suggestions import quantity_advice
from jettison.engine.numbers.quantity import ZERO, Quantity, parse, parse_field
from jettison.engine.pods.pod import NO_RESOURCES, Container, Pod, PodResources, Resources, Volume
from jettison.engine.scheduling.placement import Toleration
from jettison.errors import ManifestError, QuantityError, kind_in_words
from jettison.manifests.files.decoding import Wire, convert, decode, shortened

CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_MIRROR = "kubernetes.io/config.mirror"

ResourceTexts = dict[str, Any]
T = TypeVar("T")


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
        stranger = next((item.kind for item in found.items if item.kind not in (None, "Pod")), None)
        if stranger is not None:
            # `kubectl get all`: a Service would look like a pod without statistics, and those are evicted first.
            raise ManifestError(f"{source}: the list holds a `{stranger}`, expected only pods")
        return [_pod(item, f"{source}: items[{index}]") for index, item in enumerate(found.items)]
    if found.kind not in (None, "Pod"):
        raise ManifestError(f"{source}: kind is `{found.kind}`, expected Pod, PodList or List")
    return [_pod(decode(_POD, data, source), source)]


def pod_from(document: object, source: str = "pod") -> Pod:
    """The pod in a document that is already decoded."""
    return _pod(convert(document, PodDocument, source), source).read_all()


def is_mirror(document: Mapping[str, Any]) -> bool:
    """Whether a pod of an API only shows what a node runs by itself."""
    return CONFIG_MIRROR in ((document.get("metadata") or {}).get("annotations") or {})


class _DecodedPod(Pod):
    """A pod that reads its spec when it is first asked for a part of it, and once.

    A pod list of 10,000 is decoded anew at every look, but most looks need a few parts of a few pods. A quantity that
    makes no sense is therefore found when it is needed, as the same ManifestError that `pod_from` raises at once.
    """

    document: PodDocument
    source: str

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        return self._read(lambda spec: tuple([_container(each) for each in spec.containers or ()]))

    @cached_property
    def init_containers(self) -> tuple[Container, ...]:
        return self._read(lambda spec: tuple([_container(each) for each in spec.init_containers or ()]))

    @cached_property
    def overhead(self) -> Resources:
        return self._read(lambda spec: _quantities(spec.overhead))

    @cached_property
    def resources(self) -> PodResources | None:
        return self._read(lambda spec: None if spec.resources is None else _pod_resources(spec.resources))

    @cached_property
    def volumes(self) -> tuple[Volume, ...]:
        return self._read(lambda spec: tuple([_volume(each) for each in spec.volumes or ()]))

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        return tuple([_toleration(each) for each in self.document.spec.tolerations or ()])

    def _read(self, part: Callable[[_Spec], T]) -> T:
        try:
            return part(self.document.spec)
        except QuantityError as error:
            raise ManifestError(f"{self.source}: pod `{self}`: {error}") from error

    def read_all(self) -> Pod:
        """Find every mistake now. What comes of it stays for months, so it leaves the document behind: 1 KB."""
        return Pod(**{each.name: getattr(self, each.name) for each in fields(Pod)})


def _pod(document: PodDocument, source: str) -> _DecodedPod:
    metadata, spec, status = document.metadata, document.spec, document.status
    annotations = metadata.annotations
    namespace = metadata.namespace or ""
    pod = _DecodedPod.__new__(_DecodedPod)
    # Not through the constructor: a frozen dataclass sets its fields one slow call at a time.
    pod.__dict__.update(
        document=document,
        source=source,
        name=metadata.name,
        namespace=namespace,
        uid=metadata.uid or f"{namespace}/{metadata.name}",
        generation=metadata.generation or 0,
        priority=spec.priority,
        priority_class=spec.priority_class_name or "",
        grace_seconds=spec.termination_grace_period_seconds,
        node_name=spec.node_name or "",
        reported_qos=(status.qos_class or "") if status else "",
        phase=(status.phase or "") if status else "",
    )
    if annotations:
        pod.__dict__.update(_annotated(annotations))
    return pod


def _pod_resources(document: _Resources) -> PodResources:
    return PodResources(_quantities(document.requests), _quantities(document.limits))


def _annotated(annotations: dict[str, str]) -> dict[str, Any]:
    """Where the kubelet got the pod from is written in its annotations; from the API is the normal case."""
    return {
        "is_static": annotations.get(CONFIG_SOURCE, "api") != "api",
        "is_mirror": CONFIG_MIRROR in annotations,
        "static_uid": annotations.get(CONFIG_MIRROR, ""),
    }


def _container(document: _Container) -> Container:
    resources = document.resources
    is_sidecar = document.restart_policy == "Always"
    if resources is None:
        return Container(document.name, is_sidecar=is_sidecar)
    return Container(document.name, _quantities(resources.requests), _quantities(resources.limits), is_sidecar)


def _quantities(texts: ResourceTexts | None) -> Resources:
    if not texts:
        return NO_RESOURCES
    try:
        return {name: parse(text) for name, text in texts.items()}
    except (QuantityError, TypeError):
        # Not all are bare texts: once more, slowly, to take numbers and spaces as well, or to name the culprit.
        return {name: _quantity(text, name) for name, text in texts.items()}


def _quantity(text: object, name: str) -> Quantity:
    """Kubernetes takes a text or a bare number, and null for nothing."""
    if text is None:
        return ZERO
    if not isinstance(text, str | int | float) or isinstance(text, bool):
        raise QuantityError(f"{name} is {kind_in_words(text)}, expected a quantity such as `100Mi`")
    try:
        written = str(text)
    except ValueError as error:  # an integer that Python does not print
        raise QuantityError(f"{name} has more than 4300 digits") from error
    try:
        return parse_field(written)
    except QuantityError as error:
        raise QuantityError(f"{name} `{shortened(written)}`: {quantity_advice(str(error), written)}") from error


def _volume(document: _Volume) -> Volume:
    empty_dir = document.empty_dir
    if empty_dir is not None:
        limit = _quantity(empty_dir.size_limit, "sizeLimit") if empty_dir.size_limit is not None else None
        return Volume(document.name, not empty_dir.medium, limit if limit and limit.sign > 0 else None)
    is_local = not (document.host_path is document.git_repo is document.config_map is None)
    return Volume(document.name, is_local)


def _toleration(document: _Toleration) -> Toleration:
    return Toleration(
        document.key or "",
        document.operator or "",
        document.value or "",
        document.effect or "",
        document.toleration_seconds,
    )
