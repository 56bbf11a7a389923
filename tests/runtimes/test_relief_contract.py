"""The contract of runtimes, taken by that of `jettison relieve`: a real API, real cgroups, and a stand-in kubelet."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import pytest

from jettison.clock import Clock, SystemClock
from jettison.engine.pods.pod import Pod
from jettison.errors import ApiError, EvictionRefused, ManifestError, PodGone
from jettison.relief.runtime import KubeletNode, ReliefRuntime
from jettison.runtimes.adopted.back_off import MOST_A_MINUTE
from jettison.runtimes.kube.cache import RESYNC_SECONDS, Cache, Change
from jettison.runtimes.kube.client import DeleteOptions, Document, KubeClient, PatchType
from jettison.runtimes.kube.kinds import BUDGETS, PODS
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import CgroupMounts, discover
from jettison.runtimes.protocol import Hosting
from tests.builders import MI
from tests.janitor import fresh_name
from tests.live.served import Served, serving
from tests.membership.joined import client_of
from tests.runtimes.test_contract import GUARDING_CONTRACT, RULES, Behaviour, eviction, phase_of, until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make cgroups"),
    pytest.mark.skipif(discover().holding("memory") is None, reason="needs the memory controller of cgroups"),
]

PATIENCE: Final = 60.0
# Of a node whose pods are left to the kubelet. The clauses of runtimes that start pods are not among the guarding ones.
LEFT_OUT: Final[Mapping[str, str]] = {
    "test_the_disk_of_a_node_can_be_observed": "relief knows memory and process ids; disks are the kubelet's",
    "test_the_memory_of_a_node_is_that_of_its_machine": "it takes no pods, so it does not say what a machine has",
    "test_the_containers_of_a_pod_are_measured": "an eviction takes whole pods, whose cgroups are enough",
    "test_an_evicted_pod_stays_for_all_to_see": "the Eviction API deletes it; the journal tells of it",
    "test_a_pod_that_was_told_to_end_can_be_told_to_hurry": "a pod that relief evicts has its own grace period",
    "test_a_second_eviction_shortens_the_grace_of_the_first": "a pod that relief evicts has its own grace period",
}
KEPT: Final = [name for name in GUARDING_CONTRACT if name not in LEFT_OUT]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("relief") / "state", "--controllers=-") as server:
        yield server


@dataclass
class StandIn:
    """What a kubelet does to a pod: its cgroup, its process, its status; and its end when the API asks for that."""

    client: KubeClient
    mounts: CgroupMounts
    # Of the pods of this node that take no part in guarantees.
    place: str
    _processes: dict[str, Process] = field(default_factory=dict)
    _ends: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self, document: Document, command: list[str]) -> None:
        uid = document["metadata"]["uid"]
        box = Cgroup(self.mounts, f"{self.place}/pod{uid}/c")
        box.create()
        # All that it ever takes is charged to its cgroup.
        words = ["sh", "-c", 'read _; exec "$@"', "sh", *command]
        process = self._processes[uid] = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        assert box.move(process.pid)
        process.stdin.write(b"\n")
        await process.stdout.readline()
        await self.tell(document["metadata"]["name"], "Running")

    async def tell(self, name: str, phase: str) -> None:
        status = {"status": {"phase": phase}}
        await self.client.patch(PODS, name, status, "default", how=PatchType.MERGE, subresource="status")

    def pod_changed(self, change: Change) -> None:
        metadata = change.newest["metadata"]
        uid = metadata["uid"]
        if change.new is not None and metadata.get("deletionTimestamp") and uid not in self._ends:
            self._ends[uid] = asyncio.create_task(self._end(metadata))

    async def _end(self, metadata: Document) -> None:
        await self.stop(metadata["uid"], metadata["deletionGracePeriodSeconds"])
        await self.client.delete(PODS, metadata["name"], "default", DeleteOptions(0, metadata["uid"]))

    async def stop(self, uid: str, grace_seconds: float) -> None:
        process = self._processes.get(uid)
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), grace_seconds)
            except TimeoutError:
                process.kill()
                await process.wait()
        await self._remove(f"{self.place}/pod{uid}")

    async def _remove(self, name: str) -> None:
        while not Cgroup(self.mounts, name).remove():
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """All of it goes, also what has its grace period."""
        for task in self._ends.values():
            task.cancel()
        await asyncio.gather(*self._ends.values(), return_exceptions=True)
        for uid in self._processes:
            await self.stop(uid, 0)
        await self._remove(self.place.partition("/")[0])
        for each in (await self.client.list(PODS, "default")).items:
            await self.client.delete(PODS, each["metadata"]["name"], "default", DeleteOptions(0))


@dataclass
class RelievedSubject:
    """A node of 128 MiB of an API; a part of this machine."""

    served: Served
    patience: float = PATIENCE

    @asynccontextmanager
    async def opened(self, tmp_path: Path) -> AsyncIterator[Hosting]:
        self._node, mounts = fresh_name(), discover()
        root = f"jettison-{self._node}"
        place = f"{root}/kubepods/besteffort"
        Cgroup(mounts, place).create()
        async with client_of(self.served) as client:
            self.kubelet = StandIn(client, mounts, place)
            pods = Cache(client, PODS, "", SystemClock(), RESYNC_SECONDS, f"spec.nodeName={self._node}")
            pods.listen(self.kubelet.pod_changed)
            node = KubeletNode(self._node, 128 * MI, root, root)
            runtime = ReliefRuntime(node, RULES, client, pods, SystemClock(), lambda _fact: None, MOST_A_MINUTE)
            self._pods = pods
            self.hear()
            try:
                await pods.listed()
                # It starts nothing, so it takes only that part of the contract that asks for no start.
                yield cast("Hosting", runtime)
            finally:
                await self.hear_nothing()
                await runtime.close()
                await self.kubelet.close()

    async def run(self, runtime: Hosting, name: str, behaviour: Behaviour) -> Pod:
        commands = {
            Behaviour.CALM: ["sh", "-c", "echo; exec sleep 600"],
            Behaviour.DEAF: ["sh", "-c", "trap '' TERM; echo; exec sleep 600"],
            # The line comes first: the alarm may ring before all of it is taken.
            Behaviour.HUNGRY: [
                str(Path(sys.executable).resolve()),
                *("-I", "-S", "-c"),
                "import time; print(flush=True); held = bytearray(b'x') * (104 << 20); time.sleep(600)",
            ],
        }
        document = await self.create(name)
        await self.kubelet.run(document, commands[behaviour])
        wanted = Pod(name, "default", document["metadata"]["uid"])
        # Not within the subject's patience, which may be short for what is known not to come.
        async with asyncio.timeout(PATIENCE):
            while phase_of(runtime, wanted) != "Running":
                await asyncio.sleep(0.01)
        return next(each.pod for each in runtime.statuses() if each.pod.uid == wanted.uid)

    def hear(self) -> None:
        """List the pods of the API, and watch them."""
        self._following = asyncio.create_task(self._pods.run())

    async def hear_nothing(self) -> None:
        self._following.cancel()
        await asyncio.wait([self._following])

    async def create(self, name: str) -> Document:
        container = {"name": "c", "image": "registry.example/none:1"}
        spec = {"nodeName": self._node, "terminationGracePeriodSeconds": 600, "containers": [container]}
        return await self.kubelet.client.create(
            PODS, {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}, "default"
        )

    def clock(self, runtime: Hosting) -> Clock:
        return SystemClock()


@pytest.mark.parametrize("name", KEPT)
def test_relief_keeps_the_contract(name: str, served: Served, tmp_path: Path) -> None:
    """And leaves nothing to the next clause: the API is the same."""
    GUARDING_CONTRACT[name](RelievedSubject(served), tmp_path)
    assert served.call("GET", "/api/v1/pods")[1]["items"] == []


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_relief_leaves_out_it_cannot_keep(name: str, served: Served, tmp_path: Path) -> None:
    """One that it comes to keep is left out no longer."""
    clause = GUARDING_CONTRACT[name]
    with pytest.raises((AssertionError, AttributeError, KeyError, TimeoutError)):
        clause(RelievedSubject(served, patience=0.3), tmp_path)


def relieved(scenario: Callable[[RelievedSubject, ReliefRuntime], Awaitable[None]], served: Served, path: Path) -> None:
    """What relief promises besides the contract."""

    async def on_a_node() -> None:
        subject = RelievedSubject(served)
        async with subject.opened(path) as runtime:
            await scenario(subject, cast("ReliefRuntime", runtime))

    asyncio.run(on_a_node())


def test_a_pod_that_has_ended_is_not_deleted_by_an_eviction(served: Served, tmp_path: Path) -> None:
    """The kubelet may be faster, and what it says of the pod in the API is all that is left to read of it."""

    async def scenario(subject: RelievedSubject, runtime: ReliefRuntime) -> None:
        hosting = cast("Hosting", runtime)
        pod = await subject.run(hosting, "a", Behaviour.CALM)
        await subject.kubelet.tell("a", "Failed")
        await until(subject, lambda: phase_of(hosting, pod) == "Failed")
        with pytest.raises(PodGone):
            runtime.end(eviction(pod))

    relieved(scenario, served, tmp_path)


def test_an_eviction_that_a_budget_refuses_returns_at_once(served: Served, tmp_path: Path) -> None:
    """And not after one and a half times the pod's grace period, which is a quarter of an hour here."""

    async def scenario(subject: RelievedSubject, runtime: ReliefRuntime) -> None:
        client = subject.kubelet.client
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
        await client.create(BUDGETS, {"metadata": {"name": "a"}, "spec": spec}, "default")
        try:
            pod = await subject.run(cast("Hosting", runtime), "a", Behaviour.CALM)
            async with asyncio.timeout(subject.patience):
                with pytest.raises(
                    EvictionRefused, match=r"a budget refuses it: .*budget a .*[^.]; it is no candidate"
                ):
                    await runtime.evict(eviction(pod))
            assert not runtime.is_finished(pod.uid)
        finally:
            await client.delete(BUDGETS, "a", "default")

    relieved(scenario, served, tmp_path)


def test_the_first_look_waits_for_the_pods(served: Served, tmp_path: Path) -> None:
    """Under pressure it would say that there is no pod to evict."""

    async def scenario(subject: RelievedSubject, runtime: ReliefRuntime) -> None:
        pod = await subject.run(cast("Hosting", runtime), "a", Behaviour.CALM)
        pods = Cache(runtime._client, PODS, "", SystemClock(), RESYNC_SECONDS, f"spec.nodeName={runtime._node.name}")
        late = ReliefRuntime(
            runtime._node, RULES, runtime._client, pods, SystemClock(), lambda _fact: None, MOST_A_MINUTE
        )
        looking = asyncio.create_task(late.observe())
        await asyncio.sleep(0.1)
        assert not looking.done()
        following = asyncio.create_task(pods.run())
        async with asyncio.timeout(PATIENCE):
            assert [each.uid for each in (await looking).pods] == [pod.uid]
        following.cancel()
        await asyncio.wait([following])
        await late.close()

    relieved(scenario, served, tmp_path)


def test_an_answer_that_makes_no_sense_is_a_refusal(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eviction would stay under way, and no other pod be taken."""

    async def answer(*_: object, **__: object) -> None:
        raise ManifestError("POST /: the server sends no JSON")

    async def scenario(subject: RelievedSubject, runtime: ReliefRuntime) -> None:
        pod = await subject.run(cast("Hosting", runtime), "a", Behaviour.CALM)
        monkeypatch.setattr(KubeClient, "evict", answer)
        with pytest.raises(EvictionRefused, match="the server sends no JSON"):
            await runtime.evict(eviction(pod))
        monkeypatch.undo()

    relieved(scenario, served, tmp_path)


def test_no_other_pod_goes_because_the_server_has_failed(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leak would stay, and the pod beside it be evicted as soon as the server is back."""

    async def fail(*_: object, **__: object) -> None:
        raise ApiError("etcdserver: leader changed")

    async def scenario(subject: RelievedSubject, runtime: ReliefRuntime) -> None:
        hosting = cast("Hosting", runtime)
        pods = {(await subject.run(hosting, name, Behaviour.CALM)).uid: name for name in ("a", "b")}
        first = next(each.pod for each in runtime.statuses() if pods[each.pod.uid] == "a")
        with monkeypatch.context() as broken:
            broken.setattr(KubeClient, "evict", fail)
            with pytest.raises(EvictionRefused, match="leader changed; nothing is asked of the API for 5 s"):
                await runtime.evict(eviction(first))
        assert not (await runtime.observe()).pods
        async with asyncio.timeout(PATIENCE):
            while {each.uid for each in (await runtime.observe()).pods} != pods.keys():
                await asyncio.sleep(0.1)

    relieved(scenario, served, tmp_path)


def test_a_pod_that_was_created_anew_unheard_is_another_one(served: Served, tmp_path: Path) -> None:
    """As those of a StatefulSet are. The first one would stay a candidate, and its eviction without an end."""

    async def scenario(subject: RelievedSubject, runtime: ReliefRuntime) -> None:
        hosting = cast("Hosting", runtime)
        first = await subject.run(hosting, "a", Behaviour.DEAF)
        runtime.end(eviction(first))
        await subject.hear_nothing()
        await subject.kubelet.client.delete(PODS, "a", "default", DeleteOptions(0))
        await subject.create("a")
        subject.hear()
        await until(subject, lambda: runtime.is_finished(first.uid))
        (found,) = runtime.endings()
        assert found.stopped_ns is not None
        assert [each.pod.uid == first.uid for each in runtime.statuses()] == [False]

    relieved(scenario, served, tmp_path)
