"""The status of budgets follows the pods, the workloads and the budgets themselves, and is never more than true."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.controllers.disruption import (
    BURST_NS,
    LONGEST_REST_NS,
    REST,
    REST_OF_ALL,
    SHORTEST_REST_NS,
    DisruptionController,
    GuardedPods,
    Pace,
)
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.machinery.objects import condition_of
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.controllers.settings import ControllerSettings
from jettison.engine.budgets.budget import Budget, BudgetStatus
from jettison.engine.labels.selectors import SelectorObject, select
from jettison.engine.numbers.durations import SECOND_NS
from jettison.manifests.times import time_text
from jettison.runtimes.kube.cache import Caches, Change
from jettison.runtimes.kube.client import DeleteOptions, Document, KubeClient, PatchType
from jettison.runtimes.kube.kinds import BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Kind
from jettison.runtimes.kube.kubeconfig import Access
from tests.controllers.staging import DeafClient, Json, StandingClock, controlled, told, until, until_status
from tests.maintenance.playground import Playground, play

DISRUPTION = "disruption-controller"
NOW = DeleteOptions(grace_seconds=0)


def test_the_status_follows_pods(kubeconfig: Path) -> None:
    """Ready, not ready, relabelled, terminating, gone: each shows, within moments."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        for name in "abcd":
            await ground.pod(name, node)
        await ground.budget(minAvailable=2)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, currentHealthy=4, disruptionsAllowed=2, expectedPods=4)
            await ground.become("a", "Running", ready=False)
            await until_status(client, BUDGETS, "web", space, currentHealthy=3, disruptionsAllowed=1, expectedPods=4)
            labels = {"metadata": {"labels": {"app": "other"}}}
            await client.patch(PODS, "b", labels, space, how=PatchType.MERGE)
            await until_status(client, BUDGETS, "web", space, currentHealthy=2, disruptionsAllowed=0, expectedPods=3)
            await client.delete(PODS, "c", space)
            await until_status(client, BUDGETS, "web", space, currentHealthy=1, disruptionsAllowed=0, expectedPods=3)
            await client.delete(PODS, "c", space, NOW)
            status = await until_status(client, BUDGETS, "web", space, currentHealthy=1, expectedPods=2)
            assert status["conditions"][0]["reason"] == "InsufficientPods"

    play(kubeconfig, scene)


@pytest.mark.parametrize(
    ("kind", "name"), [(REPLICA_SETS, "ReplicaSet"), (REPLICATION_CONTROLLERS, "ReplicationController")]
)
def test_a_changed_size_of_the_workload_wakes_the_budget(kubeconfig: Path, kind: Kind, name: str) -> None:
    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        owner = await ground.workload(name, "rs", 4)
        for each in "abcd":
            await ground.pod(each, node, owner=owner)
        await ground.budget(maxUnavailable="25%")
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, expectedPods=4, desiredHealthy=3, disruptionsAllowed=1)
            await client.patch(kind, "rs", {"spec": {"replicas": 2}}, space, how=PatchType.MERGE)
            await until_status(client, BUDGETS, "web", space, expectedPods=2, desiredHealthy=1, disruptionsAllowed=3)

    play(kubeconfig, scene)


def test_it_goes_on_where_another_one_ended(kubeconfig: Path) -> None:
    """Everything that happened without a controller is found from the API alone."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("a", node)
        await ground.budget(minAvailable=1)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, currentHealthy=1)
        await ground.pod("b", node)
        await client.patch(BUDGETS, "web", {"spec": {"minAvailable": 0}}, space, how=PatchType.MERGE)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, observedGeneration=2, disruptionsAllowed=2)

    play(kubeconfig, scene)


def test_an_eviction_that_was_granted_counts_until_the_pod_is_gone(kubeconfig: Path) -> None:
    """And the entry of a pod that is on its way out is taken off the list."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        for name in "abc":
            await ground.pod(name, node)
        await ground.budget(minAvailable=1)
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "web", space, disruptionsAllowed=2)
            await client.evict("a", space)
            await until_status(client, BUDGETS, "web", space, disruptionsAllowed=1, disruptedPods=None)
            await client.evict("b", space, NOW)
            await until_status(client, BUDGETS, "web", space, disruptionsAllowed=0, disruptedPods=None)

    play(kubeconfig, scene)


def test_a_grant_that_came_to_nothing_is_dropped_after_two_minutes(kubeconfig: Path) -> None:
    """Entries younger than that keep their pods from counting, entries of unknown pods are forgotten."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        for name in "abc":
            await ground.pod(name, node)
        await ground.budget(minAvailable=1)
        now_ns = time.time_ns()
        grants = {"a": now_ns - 30 * SECOND_NS, "b": now_ns - 150 * SECOND_NS, "ghost": now_ns - 30 * SECOND_NS}
        status = {"disruptedPods": {name: time_text(at) for name, at in grants.items()}}
        await client.patch(BUDGETS, "web", {"status": status}, space, how=PatchType.MERGE, subresource="status")
        async with controlled(client, DISRUPTION):
            found = await until_status(client, BUDGETS, "web", space, currentHealthy=2, disruptionsAllowed=1)
            assert set(found["disruptedPods"]) == {"a"}

            async def said() -> bool:
                return ("Warning", "NotDeleted") in {each[:2] for each in await told(client, "b", space)}

            await until(said)

    play(kubeconfig, scene)


def test_an_announcement_without_a_deed_is_taken_back(kubeconfig: Path) -> None:
    """After two minutes DisruptionTarget becomes False; one by a kubelet, or of a pod that goes, stays."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        old, young = (time_text(time.time_ns() - seconds * SECOND_NS) for seconds in (121, 60))
        for name, reason, at in (
            ("stale", "EvictionByEvictionAPI", old),
            ("fresh", "EvictionByEvictionAPI", young),
            ("kubelet", "TerminationByKubelet", old),
            ("going", "EvictionByEvictionAPI", old),
        ):
            await ground.pod(name, node)
            said = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}
            body = {"status": {"conditions": [{**said, "lastTransitionTime": at}]}}
            await client.patch(PODS, name, body, space, subresource="status")
        await client.delete(PODS, "going", space)

        async def condition(name: str) -> Json:
            found = condition_of(await client.get(PODS, name, space), "DisruptionTarget")
            assert found is not None
            return found

        async def is_taken_back() -> bool:
            return bool((await condition("stale"))["status"] == "False")

        async with controlled(client, DISRUPTION):
            await until(is_taken_back)
            taken_back = await condition("stale")
            assert (taken_back.get("reason", ""), taken_back.get("message", "")) == ("", "")
            assert taken_back["observedGeneration"] == 1
            assert taken_back["lastTransitionTime"] > old
            for name in ("fresh", "kubelet", "going"):
                assert (await condition(name))["status"] == "True", name

    play(kubeconfig, scene)


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        ("v1", "ReplicationController", 'found no controllers for pod "p"'),
        ("batch/v1", "CronJob", "cronjobs.batch does not implement the scale subresource"),
        ("batch/v9", "CronJob", 'no matches for kind "CronJob" in version "batch/v9"'),
        ("apps/v1", "ReplicaSet", 'found no controllers for pod "p"'),
    ],
)
def test_an_owner_that_is_not_there(kubeconfig: Path, version: str, kind: str, why: str) -> None:
    """Said as Kubernetes says it, which serves more kinds than we."""

    async def scene(ground: Playground) -> None:
        owner = {"apiVersion": version, "kind": kind, "name": "gone", "uid": "u", "controller": True}
        await ground.pod("p", await ground.node("n"), owner=owner)
        await ground.budget(maxUnavailable=1)

        async def failure() -> Json | None:
            return condition_of(await ground.client.get(BUDGETS, "web", ground.namespace), "DisruptionAllowed")

        async with controlled(ground.client, DISRUPTION):
            failed = await until(failure)
        assert failed is not None
        assert (failed["reason"], failed["message"]) == ("SyncFailed", why)

    play(kubeconfig, scene)


def test_what_people_are_told(kubeconfig: Path) -> None:
    """The events of the specification's table, each with its words."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await ground.pod("bare", node)
        owner = await ground.workload("DaemonSet", "ds", labels={"app": "daemon"})
        await ground.pod("daemon", node, owner=owner, labels={"app": "daemon"})
        await ground.budget("empty", app="nobody", minAvailable=1)
        await ground.budget("unmanaged", maxUnavailable=1)
        await ground.budget("second", minAvailable=1)
        await ground.budget("failing", app="daemon", maxUnavailable=1)
        why = "daemonsets.apps does not implement the scale subresource"
        async with controlled(client, DISRUPTION):
            await until_status(client, BUDGETS, "empty", space, observedGeneration=1, disruptionsAllowed=0)

            async def failure() -> Json | None:
                return condition_of(await client.get(BUDGETS, "failing", space), "DisruptionAllowed")

            failed = await until(failure)
            assert failed is not None
            assert (failed["status"], failed["reason"], failed["message"]) == ("False", "SyncFailed", why)
            await ground.become("bare", "Running", ready=False)
            for name, expected in {
                "empty": ("Normal", "NoPods", "No matching pods found"),
                "failing": (
                    "Warning",
                    "CalculateExpectedPodCountFailed",
                    f"Failed to calculate the number of expected pods: {why}",
                ),
            }.items():

                async def said(name: str = name, expected: tuple[str, str, str] = expected) -> bool:
                    return expected in await told(client, name, space)

                await until(said)

            async def all_said() -> bool:
                reasons = {each[1] for name in ("unmanaged", "bare") for each in await told(client, name, space)}
                return reasons >= {"UnmanagedPods", "MultiplePodDisruptionBudgets"}

            await until(all_said)

    play(kubeconfig, scene)


def test_a_budget_that_has_changed_is_counted_again_at_once(kubeconfig: Path) -> None:
    """Not when the cache has heard of it, which here it never does: under evictions it is behind all the time."""

    async def scene(ground: Playground) -> None:
        space = ground.namespace
        node = await ground.node("n")
        await ground.budget(minAvailable=1)
        async with DeafClient(ground.client.access, BUDGETS) as client, controlled(client, DISRUPTION):
            await client.is_deaf.wait()
            await client.patch(BUDGETS, "web", {"spec": {"minAvailable": 0}}, space, how=PatchType.MERGE)
            await ground.pod("a", node)
            await until_status(client, BUDGETS, "web", space, observedGeneration=2, disruptionsAllowed=1)

    play(kubeconfig, scene)


def test_a_budget_that_is_counted_again_and_again_is_left_alone_for_a_moment(kubeconfig: Path) -> None:
    """But for its turn another one need not wait, and it comes when the moment is over."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await ground.pod("a", await ground.node("n"))
        await ground.budget(minAvailable=0)
        clock = StandingClock()
        async with controlled(client, DISRUPTION, clock=clock):
            await until_status(client, BUDGETS, "web", space, currentHealthy=1)
            for turn in range(20):
                healthy = turn % 2
                await ground.become("a", "Running", ready=bool(healthy))
                await ground.budget(f"another-{turn}", minAvailable=0)
                await until_status(
                    client, BUDGETS, f"another-{turn}", space, observedGeneration=1, currentHealthy=healthy
                )
                if (await client.get(BUDGETS, "web", space))["status"]["currentHealthy"] != healthy:
                    break
            else:
                pytest.fail("it never has a rest")
            clock.forward(1)
            await until_status(client, BUDGETS, "web", space, currentHealthy=healthy)

    play(kubeconfig, scene)


SECONDS_AGO = [
    ("seen", 0, False),
    ("departed", 0, False),
    ("unheard", 0, True),
    ("unheard", 2, True),
    # A pod that is not there by now never will be.
    ("unheard", 5, False),
]


@pytest.mark.parametrize(("pod", "seconds_ago", "is_behind"), SECONDS_AGO)
def test_a_grant_for_a_pod_unheard_of_is_waited_for(pod: str, seconds_ago: int, is_behind: bool) -> None:
    """Budgets and pods come by two watches: forgetting the grant would make the budget larger for a moment."""
    client, clock = KubeClient(Access("https://127.0.0.1:1")), SystemClock()
    caches = Caches(client, clock)
    around = Surroundings(client, caches, EventRecorder(client, clock), clock, ControllerSettings())
    controller = DisruptionController(around)
    pods = caches.of(PODS)
    for name in ("seen", "departed"):
        pods._store(("s", name), Change(None, _document(name)))
    pods._store(("s", "departed"), Change(_document("departed"), None))
    now_ns = clock.now_ns()
    status = BudgetStatus(disrupted_pods={pod: now_ns - seconds_ago * SECOND_NS})
    budget = Budget("b", "s", status=status)
    assert controller._is_behind(budget, now_ns) is is_behind
    # What was granted before the last list is in it, or gone.
    pods.listed_ns = now_ns + SECOND_NS
    assert not controller._is_behind(budget, now_ns)


def _document(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "s", "uid": name, "resourceVersion": "1"}}


WEB = select(SelectorObject({"app": "web"}))
ALL = select(SelectorObject())


def _pod(name: str, namespace: str = "a", **labels: str) -> Document:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {}}


def test_pods_move_between_shelves() -> None:
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)

    def names(namespace: str = "a") -> tuple[list[str], list[str]]:
        web, everything = (guarded.matching(namespace, each) for each in (WEB, ALL))
        return sorted(web.staying), sorted(everything.staying)

    one, two, three = _pod("1", app="web", tier="x"), _pod("2", app="web"), _pod("3")
    bare = {"metadata": {"name": "4", "namespace": "a"}}
    for each in (one, two, three, bare, _pod("5", "b", app="web")):
        cache._store((each["metadata"]["namespace"], each["metadata"]["name"]), Change(None, each))
    assert names() == (["1", "2"], ["1", "2", "3", "4"])
    assert names("b") == (["5"], ["5"])
    assert names("c") == ([], [])
    moved = _pod("1", app="db")
    cache._store(("a", "1"), Change(one, moved))
    cache._store(("a", "2"), Change(two, None))
    assert names() == ([], ["1", "3", "4"])
    cache._store(("a", "1"), Change(moved, one))
    assert names() == (["1"], ["1", "3", "4"])


def test_a_mirror_counts_for_no_budget() -> None:
    """Or else a node that was broken into makes a hundred of them, and every budget has room."""
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)
    mirror = _pod("m", app="web")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "u"}
    for name, pod in (("m", mirror), ("1", _pod("1", app="web")), ("2", _pod("2"))):
        cache._store(("a", name), Change(None, pod))
    assert guarded.matching("a", WEB).staying == {"1"}
    assert guarded.matching("a", ALL).staying == {"1", "2"}
    cache._store(("a", "1"), Change(_pod("1", app="web"), None))
    cache._store(("a", "2"), Change(_pod("2"), None))
    cache._store(("a", "m"), Change(mirror, None))
    assert (guarded.matching("a", ALL).total, guarded._shelves) == (0, {})


def test_what_goes_leaves_nothing_behind_whatever_its_last_words_are() -> None:
    """Every Job has labels of its own, and a pod may lose its finalizer and change its labels in one breath."""
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)
    for number in range(100):
        pod = _pod("p", app="web", run=str(number))
        cache._store(("a", "p"), Change(None, pod))
        cache._store(("a", "p"), Change(_pod("p", app="other"), None))
    assert (guarded.matching("a", ALL).total, guarded._shelves) == (0, {})


def test_only_changed_pods_are_counted_again_and_what_was_handed_out_stays() -> None:
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)
    ready, dead = (_pod("1", app="web"), _pod("1", app="web"))
    ready["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    dead["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cache._store(("a", "1"), Change(None, ready))
    cache._store(("a", "2"), Change(None, _pod("2", app="web")))
    before = guarded.matching("a", WEB)
    cache._store(("a", "1"), Change(ready, dead))
    after = guarded.matching("a", WEB)
    assert (before.total, before.staying, before.healthy) == (2, {"1", "2"}, {"1"})
    assert (after.total, after.staying, after.healthy) == (2, {"2"}, set())
    cache._store(("a", "1"), Change(dead, None))
    assert guarded.matching("a", WEB).total == 1


def test_one_pod_that_cannot_be_read_hides_no_other() -> None:
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)
    broken = {**_pod("1", app="web"), "status": {"conditions": "?"}}
    cache._store(("a", "1"), Change(None, broken))
    cache._store(("a", "2"), Change(None, _pod("2", app="web")))
    assert guarded.matching("a", WEB).staying == {"2"}
    mended = _pod("1", app="web")
    cache._store(("a", "1"), Change(broken, mended))
    assert guarded.matching("a", WEB).staying == {"1", "2"}


MS = 10**6


class StoppedClock(SystemClock):
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 5 * 10**9

    def monotonic_ns(self) -> int:
        return self.now


class Worker:
    def __init__(self) -> None:
        self.clock = StoppedClock()
        self.pace: Pace[str] = Pace(self.clock)

    def work(self, key: str, duration_ns: int) -> None:
        with self.pace.working(key):
            self.clock.now += duration_ns

    def wait_ms(self, key: str) -> float:
        return self.pace.wait_seconds(key) * 1e3


@pytest.mark.parametrize(
    ("duration_ns", "rest_ns"),
    [(1, SHORTEST_REST_NS), (20 * MS, REST * 20 * MS)],
)
def test_rest_follows_work_that_goes_on(duration_ns: int, rest_ns: int) -> None:
    """A few times in a row no key waits; then every piece of work is followed by its rest."""
    worker = Worker()
    for _ in range(BURST_NS // rest_ns):
        assert worker.wait_ms("a") <= 0
        worker.work("a", duration_ns)
    while worker.wait_ms("a") <= 0:
        worker.work("a", duration_ns)
    for _ in range(3):
        worker.clock.now += round(worker.wait_ms("a") * MS)
        worker.work("a", duration_ns)
        assert worker.wait_ms("a") == pytest.approx((rest_ns - duration_ns) / MS)


def test_a_burst_that_is_ended_puts_off_no_rest() -> None:
    """Each count that met evictions has kept them waiting."""
    worker = Worker()
    assert worker.wait_ms("a") <= 0
    worker.pace.end_burst("a")
    worker.work("a", MS)
    assert worker.wait_ms("a") == pytest.approx(SHORTEST_REST_NS / MS, abs=1)
    assert worker.wait_ms("b") <= 0


def test_no_worker_rests_for_longer_than_a_second() -> None:
    worker = Worker()
    worker.work("a", 10**9)
    assert worker.wait_ms("a") == LONGEST_REST_NS / MS


def test_many_keys_share_a_quarter_of_the_time() -> None:
    worker = Worker()
    keys = [str(number) for number in range(100)]
    for key in keys:
        assert worker.wait_ms(key) <= 0, "one that was left alone does not wait"
        worker.work(key, 4 * MS)
    assert worker.wait_ms("0") == 4 + REST_OF_ALL * 400 - 400 - BURST_NS / MS
    worker.clock.now += 10**9
    assert all(worker.wait_ms(key) <= 0 for key in keys)


def test_what_is_no_more_is_forgotten() -> None:
    worker = Worker()
    worker.work("a", 200 * MS)
    assert worker.wait_ms("a") > 0
    worker.pace.forget("a")
    assert worker.wait_ms("a") <= 0
