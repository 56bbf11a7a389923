from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.engine.pods.pod import Container
from jettison.errors import InputError
from jettison.runtimes.host.cgroups.places import CgroupPlace
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.cgroups.usage import UsageReader
from tests.builders import MI, container, pod, policy, resources
from tests.runtimes.host.nodes import PLAIN, SLEEPS, needs_memory_events, needs_root, node, python, running, settings

pytestmark = needs_root

GUARANTEED = replace(
    pod("g"), containers=(Container("c", resources(cpu="100m", memory="16Mi"), resources(cpu="100m", memory="16Mi")),)
)
BURSTABLE = replace(pod("b"), containers=(container("c", None, cpu="500m"),))
BEST_EFFORT = pod("e")


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


def test_without_enforcement_the_pods_may_have_the_whole_node(tmp_path: Path) -> None:
    lenient = policy({"memory.available": "32Mi"}, kubeReserved={"memory": "28Mi"})
    with node(settings(tmp_path), lenient) as made:
        assert UsageReader(made.cgroup_parent.mounts).memory_limit(made.kubepods.name) == 128 * MI


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


def test_an_empty_node_leaves_nothing_behind(tmp_path: Path) -> None:
    own = settings(tmp_path)
    nested = replace(own, cgroup_name=f"{own.cgroup_name}/deep/node")
    with node(nested) as made:
        assert made.kubepods.remove()
        for tree in made.cgroup_parent.mounts.used:
            assert not (tree.mount_point / own.cgroup_name).exists()


def test_burstable_pods_are_weighed_together(tmp_path: Path) -> None:
    with node(settings(tmp_path)) as made:
        made.kubepods.share([BURSTABLE, BURSTABLE, GUARANTEED])
        directory = Cgroup(made.cgroup_parent.mounts, f"{made.kubepods.name}/burstable").directory("cpu")
        assert directory is not None
        words = "cpu.shares" if (directory / "cpu.shares").exists() else "cpu.weight"
        assert (directory / words).read_text() == {"cpu.shares": "1024\n", "cpu.weight": "100\n"}[words]
