"""How pods are kept here, and the kill path: it works, leaves nothing behind, and says so where it would not work."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from jettison.clock import SystemClock
from jettison.engine.config.policy import Policy
from jettison.engine.pods.pod import Pod
from jettison.errors import SignalError
from jettison.runtimes.host.cgroups.containment import Builder, Containment, rehearse_kill
from jettison.runtimes.host.cgroups.places import Place, ProcessGroups
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.host.measure.meter import ProcessMeter
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.cgroups.limits import Limits
from jettison.runtimes.linux.proc import Machine
from jettison.runtimes.linux.processes import lowest_oom_score_adj
from tests.builders import MI, policy
from tests.runtimes.host.nodes import needs_memory_events, needs_root, node, settings

RULES = policy({"memory.available": "32Mi"}, guards_allocatable=True, kubeReserved={"memory": "28Mi"})


def build(own: HostSettings, rules: Policy = RULES) -> Containment:
    host = Machine()
    machine = measure_capacity(own, host)
    return Builder(own, rules, machine, host, SystemClock(), lambda _fact: None, lambda: None).build()


def remove(containment: Containment) -> None:
    containment.meter.close()
    assert containment.kubepods is not None
    assert containment.kubepods.remove()


@needs_root
@needs_memory_events
def test_with_cgroups_the_pods_and_the_node_are_watched(tmp_path: Path) -> None:
    containment = build(settings(tmp_path))
    assert containment.kubepods is not None
    assert containment.places is containment.kubepods
    assert containment.oom is not None
    assert containment.watched.node is not None
    assert containment.watched.pods == containment.watched.node / "kubepods"
    assert containment.watched.node.name == containment.kubepods.node
    remove(containment)


@needs_root
@needs_memory_events
def test_a_node_that_is_the_machine_is_watched_at_the_root(tmp_path: Path) -> None:
    containment = build(settings(tmp_path, node_memory=None))
    assert containment.watched.node is not None
    assert (containment.watched.node / "memory.usage_in_bytes").exists()
    assert containment.watched.node.parent == Path("/sys/fs/cgroup")
    remove(containment)


@needs_root
@needs_memory_events
@pytest.mark.parametrize(("wish", "is_lacking"), [(None, False), (True, False), (False, True)])
def test_killing_all_at_once_cannot_be_had_on_version_1(tmp_path: Path, wish: bool | None, is_lacking: bool) -> None:
    more: dict[str, Any] = {} if wish is None else {"singleProcessOOMKill": wish}
    containment = build(settings(tmp_path), policy({"memory.available": "32Mi"}, **more))
    said = [line for line in containment.lacks if line.startswith("singleProcessOOMKill: false takes cgroup v2")]
    assert bool(said) is is_lacking
    remove(containment)


def test_without_cgroups_there_is_one_line_that_says_what_that_means(tmp_path: Path) -> None:
    containment = build(settings(tmp_path, uses_cgroups=False))
    assert isinstance(containment.places, ProcessGroups)
    assert isinstance(containment.meter, ProcessMeter)
    assert (containment.kubepods, containment.oom, containment.watched.pods) == (None, None, None)
    assert containment.lacks[0].startswith("no cgroups (the settings say not to): pods are process groups")
    memory = containment.meter.memory()
    assert memory.pods is not None
    assert memory.pods.available == 100 * MI, "what is reserved is kept from the pods here too"
    containment.meter.close()


def test_what_the_kernel_cannot_be_told_to_spare_is_said(tmp_path: Path) -> None:
    containment = build(settings(tmp_path, uses_cgroups=False))
    lowest = lowest_oom_score_adj()
    assert any("oom_score_adj" in line for line in containment.lacks) is (lowest is None or lowest > -997)
    containment.meter.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may make cgroups")
def test_without_the_right_to_make_cgroups_there_are_families(tmp_path: Path) -> None:
    containment = build(settings(tmp_path))
    assert containment.kubepods is None
    assert "permission denied" in containment.lacks[0]
    containment.meter.close()


class Immortal:
    """A place whose processes do not die, on a machine that would not let us kill."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __getattr__(self, name: str) -> object:
        return getattr(self._place, name)

    async def empty(self, timeout: float) -> frozenset[int]:
        await self._place.empty(timeout)
        return frozenset({4242})


@needs_root
def test_nothing_is_left_of_the_rehearsal(tmp_path: Path) -> None:
    """Its place is gone afterwards, as after an eviction."""
    with node(settings(tmp_path)) as small:
        asyncio.run(rehearse_kill(small.kubepods))
        assert not small.kubepods.found()


@needs_root
def test_a_machine_that_does_not_let_us_kill_is_refused(tmp_path: Path) -> None:
    """Better no agent than one that cannot do its one job."""
    with node(settings(tmp_path)) as small:
        kubepods = small.kubepods

        class Stubborn:
            def of_pod(self, pod: Pod) -> Place:
                return kubepods.of_pod(pod)

            def of_container(self, pod: Pod, container: str) -> Place:
                return Immortal(kubepods.of_container(pod, container))  # type: ignore[return-value]

            def of_box(self, pod: Pod, container: str, cgroup: str) -> Place:
                return kubepods.of_box(pod, container, cgroup)

            def container_limits(self, pod: Pod, container: str) -> tuple[Limits, int | None]:
                return kubepods.container_limits(pod, container)

            def found(self) -> dict[str, Place]:
                return {}

        with pytest.raises(SignalError, match="survive SIGKILL"):
            asyncio.run(rehearse_kill(Stubborn()))
