"""The one place that reads a v1 Pod for budgets, drains, workload controllers and the scheduler.

A view holds the stored document and reads a field when it is first asked for, once. So the disruption controller pays
for six fields of a pod and the Job controller for its exit codes, and neither has a type of its own.

`PodView(document)` trusts its document, as it may where a server has checked it. `checked_pod` is for a document from
outside: what is no pod becomes a ManifestError that says where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import field

from jettison.engine.numbers.strconv import parse_int64
from jettison.engine.pods.api_pod import ApiPod, ContainerExit
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.engine.workloads.owners import OwnerReference
from jettison.errors import ManifestError
from jettison.manifests.files.decoding import Wire, convert, named
from jettison.manifests.pods import CONFIG_MIRROR
from jettison.manifests.times import parse_time, time_or_none

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX_ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_INT32: Final = 2**31
_SECOND_NS: Final = 10**9

Json = dict[str, Any]

if TYPE_CHECKING:
    from functools import cached_property as read_once
else:

    class read_once:  # noqa: N801  a decorator
        """`functools.cached_property` without its lock, which takes longer than most of these fields take to be read.

        Two threads that ask for a field at the same time both read the same.
        """

        def __init__(self, read):
            self._read = read
            self._name = read.__name__
            self.__doc__ = read.__doc__

        def __get__(self, pod, _):
            if pod is None:
                return self
            found = pod.__dict__[self._name] = self._read(pod)
            return found


def node_name_of(pod: Json) -> str:
    """Where it runs; empty before the scheduler has said so."""
    return (pod.get("spec") or {}).get("nodeName") or ""


def has_ended(pod: Json) -> bool:
    """Whether nothing of it runs any more, one way or the other."""
    return (pod.get("status") or {}).get("phase") in ENDED_PHASES


class PodView(ApiPod):
    """A pod document, and what was read from it so far. The document is shared: no reader may change it."""

    document: Json

    def __init__(self, document: Json) -> None:
        self.__dict__["document"] = document

    @property
    def _metadata(self) -> Json:
        found: Json = self.document["metadata"]
        return found

    @property
    def _spec(self) -> Json:
        return self.document.get("spec") or {}

    @property
    def _status(self) -> Json:
        return self.document.get("status") or {}

    @read_once
    def name(self) -> str:
        return self._metadata.get("name") or ""

    @read_once
    def namespace(self) -> str:
        return self._metadata.get("namespace") or ""

    @read_once
    def uid(self) -> str:
        return self._metadata.get("uid") or ""

    @read_once
    def labels(self) -> Mapping[str, str]:
        return self._metadata.get("labels") or {}

    @read_once
    def controller(self) -> OwnerReference | None:
        return controller_from(self._metadata)

    @read_once
    def node(self) -> str:
        return node_name_of(self.document)

    @read_once
    def phase(self) -> str:
        return self._status.get("phase") or ""

    @read_once
    def is_terminating(self) -> bool:
        return bool(self._metadata.get("deletionTimestamp"))

    @read_once
    def deadline_ns(self) -> int | None:
        text = self._metadata.get("deletionTimestamp")
        return parse_time(text) if text else None

    @read_once
    def is_ready(self) -> bool:
        return self._ready.get("status") == "True"

    @read_once
    def ready_since_ns(self) -> int:
        return time_or_none(self._ready.get("lastTransitionTime")) or 0 if self.is_ready else 0

    @read_once
    def created_ns(self) -> int:
        return time_or_none(self._metadata.get("creationTimestamp")) or 0

    @read_once
    def finished_ns(self) -> int:
        """The latest end, when all containers have said theirs; else when it stopped being Ready, was deleted, was
        made.
        """
        beside = [each for each in self._init_statuses if each.get("name") in self._sidecars]
        ends = [
            time_or_none(((each.get("state") or {}).get("terminated") or {}).get("finishedAt"))
            for each in (*self._container_statuses, *beside)
        ]
        known = [each for each in ends if each is not None]
        if ends and len(known) == len(ends):
            return max(known)
        if self._ready.get("status") == "False":
            changed_ns = time_or_none(self._ready.get("lastTransitionTime"))
            if changed_ns is not None:
                return changed_ns
        deleted_ns = time_or_none(self._metadata.get("deletionTimestamp"))
        if deleted_ns is not None:
            return deleted_ns - (self._metadata.get("deletionGracePeriodSeconds") or 0) * _SECOND_NS
        return self.created_ns

    @read_once
    def conditions(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (each.get("type") or "", each.get("status") or "") for each in self._status.get("conditions") or ()
        )

    @read_once
    def ends(self) -> tuple[ContainerExit, ...]:
        return tuple(self._ends())

    @read_once
    def restarts(self) -> int:
        return sum(each.get("restartCount") or 0 for each in (*self._container_statuses, *self._init_statuses))

    @read_once
    def most_restarts(self) -> tuple[int, int]:
        regular = (each.get("restartCount") or 0 for each in self._container_statuses)
        beside = (each.get("restartCount") or 0 for each in self._init_statuses if each.get("name") in self._sidecars)
        return max(regular, default=0), max(beside, default=0)

    @read_once
    def is_mirror(self) -> bool:
        """Present is enough, whatever it says."""
        return CONFIG_MIRROR in self._annotations

    @read_once
    def has_empty_dir(self) -> bool:
        return any(each.get("emptyDir") is not None for each in self._spec.get("volumes") or ())

    @read_once
    def deletion_cost(self) -> int:
        """32 bits; neither a plus sign nor a leading zero is allowed. A cost that cannot be read is none."""
        text = self._annotations.get(_DELETION_COST) or ""
        cost = parse_int64(text)
        if cost is None or not -_INT32 <= cost < _INT32 or text.startswith("+") or (text[0] == "0" and text != "0"):
            return 0
        return cost

    @read_once
    def index(self) -> int | None:
        text = self._annotations.get(INDEX_ANNOTATION)
        index = None if text is None else parse_int64(text)
        return index if index is not None and index >= 0 else None

    @read_once
    def is_tracked(self) -> bool:
        return TRACKING_FINALIZER in (self._metadata.get("finalizers") or ())

    @read_once
    def started_ns(self) -> int | None:
        """When its node began to run it."""
        return time_or_none(self._status.get("startTime"))

    @read_once
    def scheduler(self) -> str:
        """Which scheduler is to bind it."""
        return self._spec.get("schedulerName") or ""

    @read_once
    def gates(self) -> tuple[str, ...]:
        """What must be removed before it is scheduled."""
        return tuple(each.get("name") or "" for each in self._spec.get("schedulingGates") or ())

    @read_once
    def may_preempt(self) -> bool:
        """Whether pods of lower priority may go for it."""
        return self._spec.get("preemptionPolicy") != "Never"

    @read_once
    def nominated_node(self) -> str:
        """Where other pods are going so that this one can come."""
        return self._status.get("nominatedNodeName") or ""

    @read_once
    def is_preempted(self) -> bool:
        """Terminating because the scheduler wanted its place."""
        conditions = self._status.get("conditions") or ()
        targets = (each for each in conditions if each.get("type") == DISRUPTION_TARGET)
        return self.is_terminating and any(
            each.get("status") == "True" and each.get("reason") == PREEMPTED for each in targets
        )

    @property
    def _annotations(self) -> Json:
        return self._metadata.get("annotations") or {}

    @property
    def _ready(self) -> Json:
        """Of several Ready conditions, which no server writes, the first counts as it does upstream."""
        conditions = self._status.get("conditions") or ()
        return next((each for each in conditions if each.get("type") == "Ready"), {})

    @property
    def _container_statuses(self) -> list[Json]:
        return self._status.get("containerStatuses") or []

    @property
    def _init_statuses(self) -> list[Json]:
        return self._status.get("initContainerStatuses") or []

    @property
    def _sidecars(self) -> set[str]:
        containers = self._spec.get("initContainers") or ()
        return {each.get("name") for each in containers if each.get("restartPolicy") == "Always"}

    def _ends(self) -> Iterator[ContainerExit]:
        for each in (*self._container_statuses, *self._init_statuses):
            terminated = (each.get("state") or {}).get("terminated")
            if terminated is not None:
                yield ContainerExit(each.get("name") or "", terminated.get("exitCode") or 0)


def controller_from(metadata: Json) -> OwnerReference | None:
    """The one owner that says it is the controller."""
    for each in metadata.get("ownerReferences") or ():
        if each.get("controller"):
            texts = (each.get(key) or "" for key in ("apiVersion", "kind", "name", "uid"))
            return OwnerReference(*texts)
    return None


class OwnerWire(Wire):
    """An entry of metadata.ownerReferences."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(Wire):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: list[OwnerWire] | None = None


class _Volume(Wire):
    empty_dir: dict[str, Any] | None = None


class _Container(Wire):
    name: str | None = None
    restart_policy: str | None = None


class _Gate(Wire):
    name: str | None = None


class _Spec(Wire):
    node_name: str | None = None
    volumes: list[_Volume] | None = None
    init_containers: list[_Container] | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[_Gate] | None = None


class _Condition(Wire):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Terminated(Wire):
    exit_code: int | None = None
    finished_at: str | None = None


class _State(Wire):
    terminated: _Terminated | None = None


class _ContainerStatus(Wire):
    name: str | None = None
    restart_count: int | None = None
    state: _State | None = None


class _Status(Wire):
    phase: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Pod(Wire):
    """The shape of everything that a view reads."""

    metadata: _Metadata = field(default_factory=_Metadata)
    spec: _Spec | None = None
    status: _Status | None = None


def checked_pod(document: object) -> PodView:
    """A view of a document that may be anything."""
    convert(document, _Pod, named("pod", document))
    if not isinstance(document, dict) or "metadata" not in document:
        raise ManifestError("pod: has no metadata")
    return PodView(document)
