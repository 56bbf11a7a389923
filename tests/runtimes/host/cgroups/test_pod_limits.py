from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.pods.pod import Container, Pod, PodResources
from jettison.runtimes.host.cgroups.pod_limits import burstable_limits, container_limits, kubepods_limits, pod_limits
from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits
from tests.builders import GI, MI, container, pod, policy, resources

BOTH = {"cpu": "500m", "memory": "64Mi"}


def of(*containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    return Pod("p", uid="p", containers=containers, init_containers=init)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (container(), Limits(UNLIMITED, 2, UNLIMITED)),
        (container(cpu="250m"), Limits(UNLIMITED, 256, UNLIMITED)),
        # Only a limit: asked for as much.
        (container(limits=BOTH), Limits(64 * MI, 512, 50_000)),
        (container(limits=BOTH, cpu="100m"), Limits(64 * MI, 102, 50_000)),
        (container(limits={"memory": "0"}), Limits(UNLIMITED, 2, UNLIMITED)),
        (container(limits={"cpu": "1m"}), Limits(UNLIMITED, 2, 100)),
    ],
)
def test_a_container_is_held_to_its_own_limits(given: Container, expected: Limits) -> None:
    assert container_limits(given) == expected


def test_a_pod_is_capped_only_when_all_of_its_containers_are() -> None:
    capped = container("a", BOTH)
    assert pod_limits(of(capped, container("b", BOTH)), -1) == Limits(128 * MI, 2, 100_000, pids=UNLIMITED)
    assert pod_limits(of(capped, container("b")), -1) == Limits(UNLIMITED, 2, UNLIMITED, pids=UNLIMITED)
    assert pod_limits(of(capped, init=(container("i"),)), -1).memory == UNLIMITED
    # An init container runs alone, so the larger of the two is what the pod may need.
    assert pod_limits(of(capped, init=(container("i", {"memory": "1Gi"}),)), -1).memory == GI


def test_a_pod_that_sets_a_limit_itself_is_capped_whatever_its_containers_say() -> None:
    given = replace(of(container("a")), resources=PodResources({}, resources(memory="96Mi")))
    assert pod_limits(given, -1).memory == 96 * MI


def test_a_best_effort_pod_has_the_least_weight_and_pids_as_the_policy_says() -> None:
    assert pod_limits(pod(), 100) == Limits(UNLIMITED, 2, UNLIMITED, pids=100)
    assert pod_limits(pod(cpu="2"), 0) == Limits(UNLIMITED, 2048, UNLIMITED, pids=UNLIMITED)


def test_burstable_pods_weigh_as_much_as_they_ask_for_together() -> None:
    guaranteed = of(Container("a", resources(**BOTH), resources(**BOTH)))
    assert burstable_limits([pod(cpu="1"), pod(cpu="500m"), pod(), guaranteed]) == Limits(cpu_shares=1536)
    assert burstable_limits([]) == Limits(cpu_shares=2)


def test_what_is_reserved_is_kept_from_the_pods_only_when_that_is_enforced() -> None:
    machine = MachineCapacity(cores=4, memory=8 * GI, pids=1000)
    reserved = {"memory": "1Gi", "cpu": "1", "pid": "100"}
    # The hard threshold is not subtracted: the room above allocatable is where eviction works.
    enforced = policy({"memory.available": "100Mi"}, guards_allocatable=True, kubeReserved=reserved)
    assert kubepods_limits(machine, enforced) == Limits(7 * GI, 3072, pids=900)
    assert kubepods_limits(machine, policy(kubeReserved=reserved)) == Limits(8 * GI, 4096, pids=1000)
