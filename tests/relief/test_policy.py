"""Relief acts above the kubelet's hard thresholds, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jettison.engine.config.policy import Policy
from jettison.engine.node.evictions import soft_grace
from jettison.engine.node.signals import Signal
from jettison.engine.pods.pod import Pod
from jettison.errors import InputError
from jettison.relief.policy import relief_policy

GI, MI = 2**30, 2**20
CAPACITY = {Signal.MEMORY_AVAILABLE: 8 * GI, Signal.PID_AVAILABLE: 10_000}


def kubelet(hard: dict[str, str]) -> Policy:
    return Policy.of({"evictionHard": hard})


@pytest.mark.parametrize(
    ("hard", "at", "expected"),
    [
        ({"memory.available": "100Mi"}, {}, {"memory.available": 200 * MI}),
        ({"memory.available": "5%"}, {}, {"memory.available": 2 * (8 * GI * 5 // 100)}),
        ({"memory.available": "100Mi"}, {"memory.available": "10%"}, {"memory.available": 8 * GI // 10}),
        ({"memory.available": "100Mi"}, {"pid.available": "500"}, {"pid.available": 500}),
        ({}, {"memory.available": "1Gi"}, {"memory.available": GI}),
    ],
)
def test_a_threshold_of_its_own(hard: dict[str, str], at: dict[str, str], expected: dict[str, int]) -> None:
    found = relief_policy(kubelet(hard or {"nodefs.available": "1%"}), CAPACITY, at)
    amounts = {each.signal.value: each.quantity(CAPACITY[each.signal]).value for each in found.thresholds}
    assert {name: pytest.approx(amount, rel=1e-6) for name, amount in expected.items()} == amounts
    # A hard one would give a pod a second.
    assert not any(each.is_hard for each in found.thresholds)
    assert soft_grace(Pod("p", grace_seconds=3_600), found.max_pod_grace) == 3_600


def test_the_usual_threshold_reads_as_operators_write_it() -> None:
    """It is in the first lines that the command prints: `209715200` tells nothing."""
    (found,) = relief_policy(kubelet({"memory.available": "100Mi"}), CAPACITY, {}).thresholds
    assert str(found) == "memory.available<200Mi for 1ms"


@pytest.mark.parametrize(
    ("hard", "at", "why"),
    [
        ({"memory.available": "500Mi"}, {"memory.available": "500Mi"}, "not above the kubelet's own hard threshold"),
        ({"memory.available": "10%"}, {"memory.available": "500Mi"}, "the kubelet would act first"),
        ({"memory.available": "500Mi"}, {"nodefs.available": "20%"}, "a kubelet frees images first"),
        ({"memory.available": "500Mi"}, {"memory": "1Gi"}, "relief knows memory.available and pid.available"),
        ({"memory.available": "500Mi"}, {"memory.available": "much"}, "--at: "),
        (
            {"memory.available": "500Mi"},
            {"memory.available": "8Gi"},
            "is not below the 8Gi that there are: pods would go",
        ),
        ({"memory.available": "500Mi"}, {"memory.available": "99Gi"}, "`memory.available<99Gi` is not below the 8Gi"),
        ({"memory.available": "500Mi"}, {"memory.available": "0%"}, "0% and 100% are no threshold"),
        ({"nodefs.available": "10%"}, {}, "say at which one to relieve with --at"),
    ],
)
def test_what_cannot_relieve_is_refused(hard: dict[str, str], at: dict[str, str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        relief_policy(kubelet(hard), CAPACITY, at)


def test_the_example_grants_what_is_used_and_no_more() -> None:
    """Every request of `relieve` is in tests/live/test_relieve.py; a right that none of them needs is one too many."""
    text = (Path(__file__).parents[2] / "docs/examples/relieve/relieve.yaml").read_text()
    documents = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}
    granted = {
        (group, resource): sorted(rule["verbs"])
        for kind in ("ClusterRole", "Role")
        for rule in documents[kind, "jettison-relieve"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {
        ("", "nodes"): ["get"],
        ("", "nodes/proxy"): ["get"],
        ("", "pods"): ["list", "watch"],
        ("", "pods/eviction"): ["create"],
        ("coordination.k8s.io", "leases"): ["create", "get", "update"],
    }
    pod = documents["DaemonSet", "jettison-relieve"]["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    leases = documents["Role", "jettison-relieve"]["metadata"]["namespace"]
    assert arguments[arguments.index("--lease-namespace") + 1] == leases
    assert leases != "kube-system", "there are the leases by which the controllers of a cluster are elected"
    assert ("Namespace", leases) in documents
