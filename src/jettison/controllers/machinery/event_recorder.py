"""Kubernetes Events of controllers: what people see with `kubectl describe`. No reconcile waits for them.

They are folded and limited as Kubernetes' own event client does it.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

from jettison.clock import Clock
from jettison.engine.node.event_correlation import Correlator, Recorded, Subject
from jettison.manifests.times import time_text
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.event_posts import EventPosts

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_API_VERSIONS: Final = {
    "PodDisruptionBudget": "policy/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "Job": "batch/v1",
}


def subject_of(kind: str, document: Document) -> Subject:
    """An object as events name it; lists do not carry its kind."""
    metadata = document["metadata"]
    return Subject(kind, metadata["name"], metadata.get("namespace") or "", metadata.get("uid") or "")


class EventRecorder:
    """Shared by all controllers; each names itself as the source."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._posts = EventPosts(client)
        self._clock = clock
        self._correlators: dict[str, Correlator] = {}
        self._numbers = itertools.count()

    def tell(self, source: str, subject: Subject, reason: str, message: str, event_type: str = NORMAL) -> None:
        """Say it, if it is worth it and the server keeps up."""
        now_ns = self._clock.now_ns()
        # Several events may share an instant, even an object.
        name = f"{subject.name}.{now_ns + next(self._numbers):x}"
        correlator = self._correlators.setdefault(source, Correlator())
        recorded = correlator.correlate(Recorded(name, subject, event_type, reason, message, now_ns, now_ns))
        if recorded is not None:
            self._posts.post(_document(source, recorded))

    async def run(self) -> None:
        """Send events until cancelled."""
        await self._posts.run()


def _document(source: str, recorded: Recorded) -> dict[str, Any]:
    """A v1 Event. Those about nodes live in the namespace `default`."""
    subject = recorded.subject
    involved = {
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "apiVersion": _API_VERSIONS.get(subject.kind, "v1"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": recorded.name, "namespace": subject.namespace or "default"},
        "involvedObject": {key: value for key, value in involved.items() if value},
        "reason": recorded.reason,
        "message": recorded.message,
        "source": {"component": source},
        "firstTimestamp": time_text(recorded.first_ns),
        "lastTimestamp": time_text(recorded.last_ns),
        "count": recorded.count,
        "type": recorded.type,
        "reportingComponent": source,
        "reportingInstance": "",
    }
