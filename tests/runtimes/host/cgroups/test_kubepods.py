from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.engine.config.allocatable import MachineCapacity
from jettison.engine.pods.pod import Container, Pod, PodResources
from jettison.errors import InputError
from jettison.runtimes.host.cgroups.kubepods import burstable_limits, container_limits, kubepods_limits, pod_limits
from jettison.runtimes.host.cgroups.places import CgroupPlace
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import UNLIMITED, Limits
from jettison.runtimes.linux.cgroups.names import CgroupNames
from jettison.runtimes.linux.cgroups.usage import UsageReader
from tests.builders import GI, MI, container, pod, policy, resources
from tests.runtimes.host.nodes import PLAIN, SLEEPS, needs_memory_events, needs_root, node, python, running, settings

GUARANTEED = replace(
    pod("g"), containers=(Container("c", resources(cpu="100m", memory="16Mi"), resources(cpu="100m", memory="16Mi")),)
)
BURSTABLE = replace(pod("b"), containers=(container("c", None, cpu="500m"),))
BEST_EFFORT = pod("e")

BOTH = {"cpu": "500m", "memory": "64Mi"}


@needs_root
def test_pods_lie_where_the_kubelet_puts_them(tmp_path: Path) -> None:
    with node(settings(tmp_path)) as made:
        top = f"{made.settings.node_cgroup}/kubepods"
        assert made.kubepods.pod_cgroup(GUARANTEED) == f"{top}/podg"
        assert made.kubepods.pod_cgroup(BURSTABLE) == f"{top}/burstable/podb"
        assert made.kubepods.pod_cgroup(BEST_EFFORT) == f"{top}/besteffort/pode"
        assert made.kubepods.pod_cgroup(replace(BEST_EFFORT, reported_qos="../..")) == f"{top}/besteffort/pode"
        assert made.kubepods.container_cgroup(GUARANTEED, "tasks") == f"{top}/podg/container-tasks"
        with pytest.raises(InputError):
            made.kubepods.of_pod(replace(BEST_EFFORT, uid="../x"))


@needs_root
def test_with_systemd_pods_lie_in_its_slices(tmp_path: Path) -> None:
    """Where a runtime has systemd make scopes: made, limited, found again and removed under the kubelet's names."""
    chosen = settings(tmp_path, uses_slices=True)
    with node(chosen) as made:
        kubepods = made.kubepods
        top = CgroupNames(are_slices=True).top(chosen.node_cgroup)
        last = top.rpartition("/")[2].removesuffix(".slice")
        pod_cgroup = kubepods.pod_cgroup(replace(BURSTABLE, uid="a-b"))
        qos = f"{top}/{last}-kubepods.slice/{last}-kubepods-burstable.slice"
        assert pod_cgroup == f"{qos}/{last}-kubepods-burstable-poda_b.slice"
        place = kubepods.of_box(replace(BURSTABLE, uid="a-b"), "c", "cri-containerd-0123.scope")
        assert place.name == f"{pod_cgroup}/cri-containerd-0123.scope"
        kubepods.of_pod(replace(BURSTABLE, uid="a-b")).create()
        assert set(kubepods.found()) == {"a-b"}
        assert Cgroup(made.cgroup_parent.mounts, pod_cgroup).remove()


@needs_root
def test_node_kubepods_pod_and_container_are_limited(tmp_path: Path) -> None:
    reserving = policy({"memory.available": "32Mi"}, guards_allocatable=True, kubeReserved={"memory": "28Mi"})

    async def scenario() -> None:
        with node(settings(tmp_path, node_pids=64), reserving) as made:
            assert made.missing == ()
            assert made.kubepods.enforce() == ()
            made.kubepods.of_pod(GUARANTEED).create()
            made.kubepods.of_container(GUARANTEED, "c").create()
            reader = UsageReader(made.cgroup_parent.mounts)
            limits = [
                reader.memory_limit(name)
                for name in (
                    made.kubepods.node,
                    made.kubepods.name,
                    f"{made.kubepods.name}/burstable",
                    made.kubepods.pod_cgroup(GUARANTEED),
                    made.kubepods.container_cgroup(GUARANTEED, "c"),
                )
            ]
            assert limits == [128 * MI, 100 * MI, None, 16 * MI, 16 * MI]
            pids = Cgroup(made.cgroup_parent.mounts, made.kubepods.node).directory("pids")
            assert pids is not None
            assert (pids / "pids.max").read_text() == "64\n"
            assert (pids / "kubepods/pids.max").read_text() == "64\n"
            made.oom.close()

    asyncio.run(scenario())


@needs_root
def test_without_enforcement_the_pods_may_have_the_whole_node(tmp_path: Path) -> None:
    lenient = policy({"memory.available": "32Mi"}, kubeReserved={"memory": "28Mi"})
    with node(settings(tmp_path), lenient) as made:
        assert UsageReader(made.cgroup_parent.mounts).memory_limit(made.kubepods.name) == 128 * MI


@needs_root
@needs_memory_events
def test_a_limit_below_what_is_in_use_is_reported_and_set_as_soon_as_it_can_be(tmp_path: Path) -> None:
    with node(settings(tmp_path)) as made:
        place = CgroupPlace(Cgroup(made.cgroup_parent.mounts, f"{made.kubepods.name}/podx"), Limits())
        place.create()
        reader = UsageReader(made.cgroup_parent.mounts)
        with running(place, python("kept = b'x' * 40_000_000")):
            smaller = replace(made.settings, node_memory=8 * MI)
            assert made.kubepods.create(smaller, measure_capacity(smaller, made.host), PLAIN) == ()
            made.kubepods.share([BURSTABLE])
            refused = made.kubepods.enforce()
            assert len(refused) == 2
            assert all("device or resource busy" in line for line in refused)
            assert reader.memory_limit(made.kubepods.name) == 128 * MI
        assert made.kubepods.enforce() == ()
        assert [reader.memory_limit(name) for name in (made.kubepods.node, made.kubepods.name)] == [8 * MI, 8 * MI]
        shares = Cgroup(made.cgroup_parent.mounts, f"{made.kubepods.name}/burstable").directory("cpu")
        assert shares is not None
        assert (shares / "cpu.shares").read_text() == "512\n", "what the pods weigh is not what is enforced"


@needs_root
def test_what_is_on_the_machine_is_found_by_uid(tmp_path: Path) -> None:
    async def scenario() -> None:
        with node(settings(tmp_path)) as made:
            for each in (GUARANTEED, BURSTABLE, BEST_EFFORT):
                made.kubepods.of_pod(each).create()
            place = made.kubepods.of_container(BURSTABLE, "c")
            place.create()
            found = made.kubepods.found()
            assert found.keys() == {"g", "b", "e"}
            with running(place, SLEEPS) as pid:
                assert found["b"].processes() == {pid}
                assert not made.kubepods.remove()
            made.oom.close()

    asyncio.run(scenario())


@needs_root
def test_an_empty_node_leaves_nothing_behind(tmp_path: Path) -> None:
    own = settings(tmp_path)
    nested = replace(own, cgroup_name=f"{own.cgroup_name}/deep/node")
    with node(nested) as made:
        assert made.kubepods.remove()
        for tree in made.cgroup_parent.mounts.used:
            assert not (tree.mount_point / own.cgroup_name).exists()


@needs_root
def test_burstable_pods_are_weighed_together(tmp_path: Path) -> None:
    with node(settings(tmp_path)) as made:
        made.kubepods.share([BURSTABLE, BURSTABLE, GUARANTEED])
        directory = Cgroup(made.cgroup_parent.mounts, f"{made.kubepods.name}/burstable").directory("cpu")
        assert directory is not None
        words = "cpu.shares" if (directory / "cpu.shares").exists() else "cpu.weight"
        assert (directory / words).read_text() == {"cpu.shares": "1024\n", "cpu.weight": "100\n"}[words]


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
