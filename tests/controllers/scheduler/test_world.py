"""What the scheduler reckons with while it binds a pod: its own decision, then what the server says of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jettison.clock import SystemClock
from jettison.controllers.scheduler.queue import SchedulingQueue
from jettison.controllers.scheduler.world import World
from jettison.engine.scheduling.nodes import NodeLoad
from jettison.manifests.scheduling import placeable_pod_from
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import NODES, PODS
from jettison.runtimes.kube.kubeconfig import Access

Json = dict[str, Any]
KEY = ("s", "a")


class _Told:
    """A world, told of two nodes and of one pod as a watch tells of them."""

    def __init__(self) -> None:
        client = KubeClient(Access("https://127.0.0.1:1"))
        self.pods, self.nodes = (Cache(client, kind, "", SystemClock(), 45.0) for kind in (PODS, NODES))
        self.queue = SchedulingQueue()
        self.world = World(self.pods, self.nodes, self.queue)
        for name in ("n1", "n2"):
            room = {"cpu": "4", "memory": "4Gi", "pods": "110"}
            self.nodes._store(("", name), Change(None, {"metadata": {"name": name}, "status": {"allocatable": room}}))

    def tell(self, pod: Json) -> None:
        self.pods._store(KEY, Change(self.pods.get(KEY), pod))

    def load(self, name: str) -> NodeLoad:
        found = self.world.cluster.load(name)
        assert found is not None
        return found

    def assume(self, node: str) -> None:
        pod = self.world.waiting(KEY)
        assert pod is not None
        self.world.assume(pod, node)
        assert self.world.waiting(KEY) is None


def _pod(node: str = "", cpu: str = "1", app: str = "web", uid: str = "u", **status: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec: Json = {"containers": [container], "schedulerName": "default-scheduler"}
    if node:
        spec["nodeName"] = node
    metadata = {"name": "a", "namespace": "s", "uid": uid, "labels": {"app": app}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", **status}}


def _in_a_loop(scene: Callable[[_Told], None]) -> None:
    async def run() -> None:
        scene(_Told())

    asyncio.run(run())


def test_a_binding_that_was_assumed_changes_no_sum_when_it_comes() -> None:
    """It counts from the decision on, and once; a list of nodes that was made for its like has nothing to ask."""

    def scene(told: _Told) -> None:
        told.tell(_pod())
        told.assume("n1")
        assert told.load("n1").tally.cpu == 1000
        changes = told.world.cluster.note_changes()
        told.tell(_pod("n1"))
        assert told.load("n1").tally.cpu == 1000
        assert not changes.names
        assert not told.world.pending
        # It is settled: what is refused now is another binding of it.
        told.world.forget(placeable_pod_from(_pod()))
        assert told.load("n1").tally.pods == 1

    _in_a_loop(scene)


def test_a_pod_that_was_bound_elsewhere_counts_there() -> None:
    """Another scheduler was faster."""

    def scene(told: _Told) -> None:
        told.tell(_pod())
        told.assume("n1")
        told.tell(_pod("n2"))
        assert (told.load("n1").tally.pods, told.load("n2").tally.pods) == (0, 1)

    _in_a_loop(scene)


def test_a_pod_that_changes_while_it_is_bound_counts_as_it_is_now() -> None:
    """Before the binding comes, with it, and after it."""

    def scene(told: _Told) -> None:
        told.tell(_pod())
        told.assume("n1")
        told.tell(_pod(cpu="2"))
        assert told.load("n1").tally.cpu == 2000
        assert told.world.waiting(KEY) is None
        told.tell(_pod("n1", cpu="2"))
        assert told.load("n1").tally.cpu == 2000
        told.tell(_pod("n1", cpu="3"))
        assert told.load("n1").tally.cpu == 3000

    _in_a_loop(scene)


def test_labels_and_status_of_a_bound_pod_are_those_that_came_with_its_binding() -> None:
    """A binding may carry labels; a start is news of the status."""

    def scene(told: _Told) -> None:
        told.tell(_pod())
        told.assume("n1")
        told.tell(_pod("n1", app="shop"))
        assert told.load("n1").pods[KEY].labels == {"app": "shop"}
        told.tell(_pod("n1", app="shop", startTime="1970-01-01T00:00:01Z"))
        assert told.load("n1").pods[KEY].started_ns == 10**9

    _in_a_loop(scene)


def test_a_successor_of_the_same_name_is_another_pod() -> None:
    """What was assumed of the first one is not said of it."""

    def scene(told: _Told) -> None:
        told.tell(_pod())
        told.assume("n1")
        told.tell(_pod(uid="v"))
        assert told.load("n1").tally.pods == 0
        assert told.world.waiting(KEY) is not None

    _in_a_loop(scene)
