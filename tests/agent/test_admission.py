"""Every pod that wants to start: pressure, fit, place, and room made for critical ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from jettison.agent.admission import Admitter, NodeIdentity
from jettison.agent.agent import Agent
from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, KIND
from jettison.engine.config.policy import build_policy
from jettison.engine.node.signals import Condition
from jettison.engine.scheduling.placement import NO_EXECUTE, Taint
from jettison.errors import ManifestError, StillRunning
from jettison.events import Fact
from jettison.manifests.pods import pod_from
from jettison.runtimes.protocol import PodManifest
from tests.agent.scripted_runtime import Records, ScriptedHost


def manifest(name: str, memory: str | None = None, **spec: Any) -> PodManifest:
    resources = {"requests": {"memory": memory}, "limits": {}} if memory else {}
    document: Mapping[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "main", "resources": resources}], **spec},
    }
    return PodManifest(pod_from(document), document)


class Door:
    """An admitter in front of a scripted node with 4Gi, 100Mi of it under the hard threshold."""

    def __init__(
        self,
        *conditions: Condition,
        taints: tuple[Taint, ...] = (),
        runtime: ScriptedHost | None = None,
        is_dry_run: bool = False,
    ) -> None:
        self.runtime = runtime or ScriptedHost()
        self.said: list[Fact] = []
        document = {"apiVersion": API_VERSION, "kind": KIND, "evictionHard": {"memory.available": "100Mi"}}
        policy = build_policy(assemble(Source("test", document)))
        self.agent = Agent(self.runtime, policy, self.runtime.clock, Records(), self.said.append)
        self.admitter = Admitter(
            self.runtime,
            policy,
            NodeIdentity("node1", {"disk": "ssd", "cores": "8"}, taints),
            lambda: frozenset(conditions),
            self.said.append,
            self.agent.evict,
            self.check,
            is_dry_run=is_dry_run,
        )

    def check(self, manifest: PodManifest) -> None:
        if manifest.pod.name.startswith("impossible"):
            raise ManifestError("no such thing here")

    def names(self) -> list[str]:
        return [type(fact).__name__ for fact in self.said]

    def knock(self, *manifests: PodManifest) -> list[bool]:
        async def all_of_them() -> list[bool]:
            return [await self.admitter.admit(each) for each in manifests]

        return asyncio.run(all_of_them())


def test_what_fits_is_started() -> None:
    """Allocatable is the capacity minus the hard threshold: 3Gi and 900Mi fit into 4Gi − 100Mi, not one byte more."""
    door = Door()
    assert door.knock(manifest("a", "3Gi"), manifest("b", "924Mi"), manifest("c", "1")) == [True, True, False]
    assert door.runtime.rejections[0][1] == "OutOfmemory"
    assert "requested: 1, used:" in door.runtime.rejections[0][2]


def test_memory_pressure_turns_best_effort_pods_away() -> None:
    """The rejection carries the kubelet's words."""
    door = Door(Condition.MEMORY_PRESSURE)
    assert door.knock(manifest("best-effort"), manifest("burstable", "1Mi")) == [False, True]
    assert door.runtime.rejections == [
        ("best-effort", "Evicted", "Pod was rejected: The node had condition: [MemoryPressure]. ")
    ]


def test_a_critical_pod_gets_room() -> None:
    """The smallest sufficient victim is ended, with its own grace period, before the critical pod starts."""
    door = Door()
    door.knock(manifest("big", "2Gi"), manifest("small", "1500Mi"))
    assert door.knock(manifest("critical", "1Gi", priority=2_000_000_000)) == [True]
    assert [(order.pod.name, order.reason, order.grace_seconds) for order in door.runtime.evictions] == [
        ("small", "Preempting", None)
    ]


def test_a_victim_that_does_not_stop_is_said() -> None:
    """The kill goes on; upstream admits the critical pod all the same."""
    door = Door()
    door.knock(manifest("big", "3Gi"))
    door.runtime.refusal = StillRunning("big")
    assert door.knock(manifest("critical", "1Gi", priority=2_000_000_000)) == [True]
    assert "EvictionTimedOut" in door.names()


def test_a_preemption_is_on_record_from_the_order_to_the_clean_up() -> None:
    """Its end has a time, and the clean-up is seen to by the agent's next look."""
    door = Door()
    door.knock(manifest("big", "3Gi"))
    door.runtime.unfinished = {"uid-big"}
    door.knock(manifest("critical", "1Gi", priority=2_000_000_000))
    assert door.names()[-3:] == ["EvictionStarted", "PodEvicted", "PodAdmitted"]
    asyncio.run(door.agent.step())
    assert "PodCleanedUp" not in door.names()
    door.runtime.unfinished.clear()
    asyncio.run(door.agent.step())
    assert "PodCleanedUp" in door.names()


def test_a_dry_run_preempts_no_pod() -> None:
    """The critical pod is turned away and told which pod would have gone."""
    door = Door(is_dry_run=True)
    door.knock(manifest("big", "2Gi"), manifest("small", "1500Mi"))
    assert door.knock(manifest("critical", "1Gi", priority=2_000_000_000)) == [False]
    assert door.runtime.evictions == []
    ((name, reason, message),) = door.runtime.rejections
    assert (name, reason) == ("critical", "OutOfmemory")
    assert message.endswith("; but for the dry run default/small would have made room")


def test_no_pod_makes_room_for_one_that_cannot_run() -> None:
    """It is let in all the same, to wait: a node does not answer Failed for what it cannot run."""
    door = Door()
    door.knock(manifest("big", "3Gi"))
    assert door.knock(manifest("impossible", "1Gi", priority=2_000_000_000)) == [True]
    assert door.runtime.rejections == []
    assert door.names() == ["PodAdmitted", "PodAdmitted"]
    assert door.runtime.evictions == []


def test_what_cannot_run_is_admitted_like_any_other() -> None:
    """A kubelet, too, asks for room before it pulls an image."""
    door = Door()
    door.knock(manifest("big", "3Gi"))
    assert door.knock(manifest("impossible", "3Gi")) == [False]
    assert [rejection[1] for rejection in door.runtime.rejections] == ["OutOfmemory"]


def test_no_pod_to_preempt() -> None:
    """A critical pod that would not fit anyway is told so, and no pod is ended for it."""
    door = Door()
    door.knock(manifest("a", "1Gi"))
    assert door.knock(manifest("critical", "8Gi", priority=2_000_000_000)) == [False]
    assert door.runtime.evictions == []
    assert door.runtime.rejections[0][1] == "UnexpectedAdmissionError"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, None),
        ({"nodeSelector": {"disk": "spinning"}}, "NodeAffinity"),
        ({"nodeName": "elsewhere"}, "NodeName"),
    ],
)
def test_pods_made_for_another_node(spec: dict[str, Any], reason: str | None) -> None:
    """A pod that asks for another node is turned away with the check's name."""
    door = Door()
    assert door.knock(manifest("a", **spec)) == [reason is None]
    assert [each[1] for each in door.runtime.rejections] == ([] if reason is None else [reason])


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["ssd", "nvme"], True),
        ("NotIn", ["ssd"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Sideways", [], False),
    ],
)
def test_required_node_affinity(operator: str, values: list[str], fits: bool) -> None:
    """Terms are alternatives; an unknown operator matches nothing and says so."""
    term = {"matchExpressions": [{"key": "disk", "operator": operator, "values": values}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    assert Door().knock(manifest("a", affinity=affinity)) == [fits]


@pytest.mark.parametrize(("name", "fits"), [("node1", True), ("node2", False)])
def test_a_daemons_pod_is_for_the_node_of_that_name(name: str, fits: bool) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    assert Door().knock(manifest("a", affinity=affinity)) == [fits]


def test_a_no_execute_taint_keeps_pods_out() -> None:
    """Unless they tolerate it."""
    door = Door(taints=(Taint("maintenance", "", NO_EXECUTE),))
    tolerant = manifest("tolerant", tolerations=[{"key": "maintenance", "operator": "Exists"}])
    assert door.knock(manifest("a"), tolerant) == [False, True]
    said = "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    assert [each[1:] for each in door.runtime.rejections] == [("TaintToleration", said)]


def test_a_pod_that_runs_already_is_not_asked_again() -> None:
    """Its record is lost: it was admitted once, and pressure is no reason to end what runs."""
    door = Door(Condition.MEMORY_PRESSURE)
    door.runtime.found = {"uid-a"}

    assert asyncio.run(door.admitter.admit(manifest("a")))

    assert [status.pod.name for status in door.runtime.running] == ["a"]
    assert door.said == []
