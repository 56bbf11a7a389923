"""Pods that fail as soon as they are made: how soon the next ones come, and how many."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jettison.controllers.machinery.quick_failures import QuickFailures
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.quick_failures import LONGEST_NS, QUICK_NS
from jettison.runtimes.kube.client import PatchType
from jettison.runtimes.kube.kinds import PODS, STATEFUL_SETS
from tests.controllers.staging import Json, StandingClock, controlled, until, until_told
from tests.controllers.workloads import alive, replica_set, template
from tests.maintenance.playground import Playground, play

SECOND_NS = 10**9


class Owner:
    """Makes what it may, as a controller does, on a clock that stands still."""

    def __init__(self, replicas: int = 1) -> None:
        self.clock = StandingClock()
        self.failures = QuickFailures(self.clock)
        self.document: Json = {"metadata": {"name": "rs", "namespace": "default", "uid": "u", "generation": 1}}
        self.replicas = replicas
        self.pods: dict[str, str] = {}

    def values(self) -> list[ApiPod]:
        return [ApiPod(uid, uid=uid, phase=phase) for uid, phase in self.pods.items()]

    def reconcile(self) -> float:
        """How many seconds it is told to wait."""
        allowance = self.failures.allow(self.document, self.values())
        missing = self.replicas - sum(phase != "Failed" for phase in self.pods.values())
        count = missing if allowance.most is None else min(missing, allowance.most)
        if count:
            self.failures.begin(self.document)
            for _ in range(count):
                uid = f"pod-{len(self.pods)}"
                self.pods[uid] = "Pending"
                self.failures.made(self.document, uid)
        return allowance.wait_ns / SECOND_NS

    def become(self, phase: str, only: Sequence[str] = ()) -> None:
        self.pods = {
            uid: phase if old != "Failed" and (not only or uid in only) else old for uid, old in self.pods.items()
        }

    def counts(self) -> tuple[int, int]:
        """All that were ever made, and those that have not failed."""
        return len(self.pods), sum(phase != "Failed" for phase in self.pods.values())


def test_the_first_replacement_comes_at_once_and_each_further_one_later() -> None:
    owner, waits = Owner(), []
    owner.reconcile()
    for _ in range(12):
        owner.become("Failed")
        waits.append(owner.reconcile())
        assert owner.counts()[1] == (0 if waits[-1] else 1)
        owner.clock.forward(waits[-1])
        owner.reconcile()
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST_NS / SECOND_NS, LONGEST_NS / SECOND_NS]


def test_of_many_that_fail_one_is_tried_and_the_rest_follows_when_it_lives() -> None:
    owner = Owner(replicas=100)
    owner.reconcile()
    owner.become("Failed")
    assert owner.reconcile() == 0
    assert owner.counts() == (200, 100)
    owner.become("Failed")
    assert owner.reconcile() == 1
    owner.clock.forward(1)
    owner.reconcile()
    assert owner.counts() == (201, 1)
    assert owner.reconcile() == QUICK_NS / SECOND_NS
    owner.become("Running")
    # Exactly as long as it was told to wait: where time is virtual no moment comes a little later.
    owner.clock.forward(QUICK_NS / SECOND_NS)
    assert owner.reconcile() == 0
    assert owner.counts() == (300, 100)
    owner.become("Failed", only=["pod-299"])
    assert owner.reconcile() == 0
    assert owner.counts() == (301, 100)


def test_pods_that_fail_one_after_another_in_one_round_count_once() -> None:
    """A node that is slow to reject them is no worse than one that is quick."""
    owner = Owner(replicas=3)
    owner.reconcile()
    for uid in ("pod-0", "pod-1", "pod-2"):
        owner.become("Failed", only=[uid])
        assert owner.reconcile() == 0
        owner.clock.forward(0.1)
    assert owner.counts() == (6, 3)


def test_what_had_lived_is_replaced_at_once_however_often() -> None:
    """Evictions, drains and deletions are no reason to wait."""
    owner = Owner()
    for number in range(1, 20):
        owner.reconcile()
        assert owner.counts() == (number, 1)
        owner.clock.forward(10.1)
        owner.become("Failed")


def test_a_changed_owner_another_of_its_name_and_a_new_process_begin_anew() -> None:
    for change in ({"generation": 2}, {"uid": "other"}):
        owner = Owner()
        owner.reconcile()
        for _ in range(3):
            owner.become("Failed")
            owner.clock.forward(owner.reconcile())
            owner.reconcile()
        owner.become("Failed")
        assert owner.reconcile() > 0
        owner.document["metadata"] |= change
        assert owner.reconcile() == 0
        assert owner.counts()[1] == 1
    later = QuickFailures(StandingClock())
    assert later.allow(owner.document, owner.values()).most is None


async def _stateful_set(ground: Playground, replicas: int) -> Json:
    spec: dict[str, Any] = {"replicas": replicas, "podManagementPolicy": "Parallel", "serviceName": "rs"}
    spec |= {"selector": {"matchLabels": {"app": "web"}}, "template": template()}
    whole = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "rs"}, "spec": spec}
    return await ground.client.create(STATEFUL_SETS, whole, ground.namespace)


@pytest.mark.parametrize("make", [replica_set, _stateful_set])
def test_a_node_that_rejects_every_pod_causes_no_storm(kubeconfig: Path, make: Any) -> None:
    """Three replicas: three pods, up to three at once instead, then one after a second and one after two more."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        seen: set[str] = set()
        rejects = True

        async def reject() -> None:
            for pod in await ground.pods():
                seen.add(pod["metadata"]["uid"])
                if rejects and pod["status"]["phase"] == "Pending":
                    status = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
                    await client.patch(
                        PODS, pod["metadata"]["name"], status, space, how=PatchType.MERGE, subresource="status"
                    )

        await make(ground, 3)
        before = time.monotonic()
        async with controlled(client, "replicaset-controller", "statefulset-controller"), ground.busy(reject):
            message = "Back-off creating pods: they fail as soon as they are created; the next one is created in 1s"
            await until_told(client, "rs", space, ("Warning", "BackOff", message))
            told_of = len(seen)
            await until(lambda: _has(seen, told_of + 1))
            assert len(seen) <= 7 + math.log2(1 + time.monotonic() - before)
            rejects = False
            await until(lambda: _lives(ground))

    play(kubeconfig, scene)


async def _has(seen: set[str], count: int) -> bool:
    return len(seen) >= count


async def _lives(ground: Playground) -> bool:
    return bool(alive(await ground.pods()))
