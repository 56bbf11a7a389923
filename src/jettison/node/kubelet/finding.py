"""The agent's part: which pod and container a request on the kubelet's port means, and the way into it.

Asked by the process that serves the port, over the agent's own socket. Only what is known to run or to have run here is
found, so no name that a client sends becomes a path. Refusals have the kubelet's words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from jettison import events
from jettison.agent.http.controls import Enter
from jettison.agent.http.server import Answer, Query, Route
from jettison.engine.pods.pod import Pod
from jettison.errors import ApiError
from jettison.membership.mirrors import mirror_name
from jettison.runtimes.protocol import ContainerStatus, PodStatus

_RUNNING: Final = "running"


class NamedContainer(msgspec.Struct, frozen=True):
    """What a log is found by, and whether it is still written."""

    namespace: str
    name: str
    uid: str
    container: str
    is_running: bool
    run: int
    # The name by which it was found: a mirror's, for a static pod.
    asked_name: str = ""

    @property
    def pod(self) -> Pod:
        """As far as directories are named after it."""
        return Pod(self.name, self.namespace, self.uid)


class PodFinder:
    """Of one node. A static pod is asked for by its mirror's name."""

    def __init__(self, node: str, statuses: Callable[[], Sequence[PodStatus]], enter: Enter, emit: events.Emit) -> None:
        self._node = node
        self._statuses = statuses
        self._enter = enter
        self._emit = emit

    def routes(self) -> dict[str, Route]:
        """For the owner of the agent's socket."""
        return {"/orders/find": self.answer_find, "/orders/enter": self.answer_enter}

    def answer_find(self, query: Query) -> Answer:
        """A container that runs or has run."""
        return Answer(msgspec.json.encode(self.find(query)))

    def answer_enter(self, query: Query) -> Answer:
        """The way into a running container; without its name, into any of the pod that runs."""
        status = self._pod(query)
        wanted = query.get("container", "")
        if wanted:
            self._container(status, wanted)
        running = [each.name for each in status.containers if each.state == _RUNNING and wanted in (each.name, "")]
        if not running:
            raise _refusal(
                f'container "{wanted}" of pod "{status.pod.name}" is not running' if wanted else "no container runs"
            )
        way = self._enter(status.pod.uid, running[0])
        self._emit(events.OrderReceived(query.get("purpose", "exec"), status.pod))
        return Answer(way)

    def find(self, query: Query) -> NamedContainer:
        """Raises ApiError."""
        status = self._pod(query)
        found = self._container(status, query.get("container", ""))
        pod = status.pod
        return NamedContainer(
            pod.namespace, pod.name, pod.uid, found.name, found.state == _RUNNING, found.restarts, query.get("pod", "")
        )

    def _pod(self, query: Query) -> PodStatus:
        namespace, name, uid = (query.get(key, "") for key in ("namespace", "pod", "uid"))
        for status in sorted(self._statuses(), key=lambda each: each.pod.is_static):
            if self._is_meant(status.pod, namespace, name, uid):
                return status
        raise ApiError(f'pod "{name}" is not on this node', code=404, reason="NotFound", details={})

    def _is_meant(self, pod: Pod, namespace: str, name: str, uid: str) -> bool:
        """A mirror has another uid than its pod; that no other pod here has its name was checked first."""
        if pod.is_static:
            return (pod.namespace, mirror_name(pod.name, self._node)) == (namespace, name)
        return (pod.namespace, pod.name) == (namespace, name) and uid in (pod.uid, "")

    def _container(self, status: PodStatus, name: str) -> ContainerStatus:
        found = next((each for each in status.containers if each.name == name), None)
        if found is None:
            raise _refusal(f'container "{name}" in pod "{status.pod.name}" has not run')
        return found


def _refusal(message: str) -> ApiError:
    return ApiError(message, code=400, reason="BadRequest", details={})
