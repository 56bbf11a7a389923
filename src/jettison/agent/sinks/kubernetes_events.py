"""Facts as Kubernetes Events, with the kubelet's reasons and texts (spec §5.8, §9, §10.1, §13).

Events are for people and their tools: `kubectl get events` and every dashboard know these reasons. The newest are kept
in memory, and a server of an API gets each one as it comes. The journal is the record; this is not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jettison import events
from jettison.engine.node import wording
from jettison.engine.node import wording as node_conditions
from jettison.engine.node.event_correlation import Correlator, Recorded, Subject
from jettison.engine.node.facts import ConditionChanged, ReclaimAttempted
from jettison.engine.node.signals import Condition, Reclaimable
from jettison.engine.node.wording import NORMAL, WARNING, Event
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.pod import Pod
from jettison.events import Fact
from jettison.manifests.times import time_text

COMPONENT = "kubelet"
"""The source that dashboards and alerts filter by; we do the kubelet's work and say so in its name."""

CAPACITY = 1000

_COLLECTION_FAILED = {Reclaimable.CONTAINERS: "ContainerGCFailed", Reclaimable.IMAGES: "ImageGCFailed"}

Consumer = Callable[[Recorded], None]


class KubernetesEvents:
    """The sink. `consumer` is told of every event that is new or counts up."""

    def __init__(self, node: str, *, capacity: int = CAPACITY, consumer: Consumer | None = None) -> None:
        self._node = node
        self._capacity = capacity
        self.consumer = consumer
        self._correlator = Correlator()
        self._kept: OrderedDict[str, Recorded] = OrderedDict()
        self._conditions: set[Condition] = set()

    def take(self, fact: Fact, time_ns: int) -> None:
        """Record the events of this fact, if it has any."""
        if isinstance(fact, ConditionChanged):
            for event in self._condition_events(fact, time_ns):
                self._record(event, "", time_ns)
            return
        for event, container in _events_of(fact):
            self._record(event, container, time_ns)

    def say(self, event: Event, time_ns: int) -> None:
        """Record an event that is no fact of the node's own life."""
        self._record(event, "", time_ns)

    def recorded(self) -> list[Recorded]:
        """What is kept, in the order of the last occurrence."""
        return list(self._kept.values())

    def document(self, recorded: Recorded) -> dict[str, Any]:
        """The v1 Event."""
        return event_document(recorded, self._node)

    def _record(self, event: Event, container: str, time_ns: int) -> None:
        subject = Subject("Node", self._node) if event.pod is None else _pod_subject(event.pod, container)
        name, stamp = "", time_ns
        while not name or name in self._kept:  # two facts may share an instant
            name, stamp = f"{subject.name}.{stamp:x}", stamp + 1
        recorded = self._correlator.correlate(
            Recorded(
                name, subject, event.type, event.reason, event.message, time_ns, time_ns, annotations=event.annotations
            )
        )
        if recorded is None:
            return
        self._kept[recorded.name] = recorded
        self._kept.move_to_end(recorded.name)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        if self.consumer is not None:
            self.consumer(recorded)

    def _condition_events(self, fact: ConditionChanged, time_ns: int) -> list[Event]:
        """What the node's status would record for this change; the other conditions are as they were."""
        before = [
            node_conditions.NodeCondition(each.value, "True" if each in self._conditions else "False")
            for each in Condition
            if each is not fact.condition
        ]
        before.append(node_conditions.NodeCondition(fact.condition.value, "False" if fact.is_true else "True"))
        (self._conditions.add if fact.is_true else self._conditions.discard)(fact.condition)
        _, said = node_conditions.report_conditions(before, frozenset(self._conditions), time_ns, self._node)
        return said


def _events_of(fact: Fact) -> Iterator[tuple[Event, str]]:
    """With the container they are about, where it is one."""
    if isinstance(fact, ReclaimAttempted):
        event = wording.event_of(fact)
        if event is not None:
            yield event, ""
    elif isinstance(fact, events.EvictionStarted):
        yield wording.eviction_event(fact.eviction), ""
    elif isinstance(fact, events.EvictionTimedOut):
        message = "Container runtime did not kill the pod within specified grace period."
        yield Event(WARNING, "ExceededGracePeriod", message, fact.eviction.pod), ""
    elif isinstance(fact, events.PodRejected):
        yield Event(WARNING, fact.reason, fact.message, fact.pod), ""
    elif isinstance(fact, events.PodWaiting):
        yield Event(WARNING, fact.event_reason, fact.message, fact.pod), ""
    elif isinstance(fact, events.DeadlineExceeded):
        yield Event(NORMAL, wording.DEADLINE_EXCEEDED, wording.DEADLINE_MESSAGE, fact.pod), ""
    elif isinstance(fact, events.KillFailed):
        where = f"container {fact.container}: " if fact.container else ""
        yield Event(WARNING, "FailedKillPod", f"error killing pod: {where}{fact.why}", fact.pod), ""
    elif isinstance(fact, events.OutOfMemoryKill):
        # A container that hit its own limit has it in its status; only the node's own shortage is an event.
        if fact.pod is None:
            victim = "" if fact.pid is None else f", victim process: {fact.process}, pid: {fact.pid}"
            yield Event(WARNING, "SystemOOM", f"System OOM encountered{victim}"), ""
    else:
        yield from _container_events(fact)
        yield from ((event, "") for event in _node_events(fact))


def _node_events(fact: Fact) -> Iterator[Event]:
    if isinstance(fact, events.LimitsEnforced):
        yield Event(NORMAL, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
    elif isinstance(fact, events.LimitsRefused):
        # A cgroup's name is a list for a kubelet, and Go prints it as one.
        name = " ".join(map(quote, fact.cgroup.split("/")))
        message = f"Failed to update Node Allocatable Limits [{name}]: {fact.why}"
        yield Event(WARNING, "FailedNodeAllocatableEnforcement", message)
    elif isinstance(fact, events.CollectionFailed):
        yield Event(WARNING, fact.event_reason or _COLLECTION_FAILED[fact.what], fact.why)


def _container_events(fact: Fact) -> Iterator[tuple[Event, str]]:
    if isinstance(fact, events.ContainerStarted):
        yield Event(NORMAL, "Started", "Container started", fact.pod), fact.container
    elif isinstance(fact, events.ContainerFinished):
        if fact.reason == events.NOT_STARTED:
            yield Event(WARNING, "Failed", f"Error: {fact.message}", fact.pod), fact.container
    elif isinstance(fact, events.ContainerStopping):
        yield Event(NORMAL, "Killing", f"Stopping container {fact.container}", fact.pod), fact.container
    elif isinstance(fact, events.ContainerBackOff):
        pod = f"{fact.pod.name}_{fact.pod.namespace}({fact.pod.uid})"
        message = f"Back-off restarting failed container {fact.container} in pod {pod}"
        yield Event(WARNING, "BackOff", message, fact.pod), fact.container
    elif isinstance(fact, events.ProbeFailed):
        message = f"{fact.probe.capitalize()} probe failed: {fact.why}"
        yield Event(WARNING, "Unhealthy", message, fact.pod), fact.container
    elif isinstance(fact, events.HookFailed):
        hook = f"{fact.hook[0].upper()}{fact.hook[1:]}Hook"
        yield Event(WARNING, f"Failed{hook}", f"{hook} failed: {fact.why}", fact.pod), fact.container


def _pod_subject(pod: Pod, container: str) -> Subject:
    path = ""
    if container:
        own = {each.name: "containers" for each in pod.containers}
        own |= {each.name: "initContainers" for each in pod.init_containers}
        # What a pod has besides was added for debugging.
        path = f"spec.{own.get(container, 'ephemeralContainers')}{{{container}}}"
    return Subject("Pod", pod.name, pod.namespace, pod.uid, path)


def event_document(recorded: Recorded, node: str) -> dict[str, Any]:
    """A v1 Event. Events about nodes live in the namespace `default`."""
    subject = recorded.subject
    involved = {
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "apiVersion": "v1",
        "fieldPath": subject.field_path,
    }
    metadata: dict[str, Any] = {"name": recorded.name, "namespace": subject.namespace or "default"}
    if recorded.annotations:
        metadata["annotations"] = dict(recorded.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": _filled(involved),
        "reason": recorded.reason,
        "message": recorded.message,
        "source": {"component": COMPONENT, "host": node},
        "firstTimestamp": time_text(recorded.first_ns),
        "lastTimestamp": time_text(recorded.last_ns),
        "count": recorded.count,
        "type": recorded.type,
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
    }


def _filled(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text}
