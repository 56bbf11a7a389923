"""A configuration becomes a policy, or a full list of complaints (spec §1.5, §2.6, §16 example 61)."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.policy import (
    IMPROVED,
    KUBELET,
    PROFILES,
    ContainerCollection,
    ImageCollection,
    Policy,
    build_policy,
    parse_reservation,
    validate,
)
from jettison.engine.node.snapshot import Layout
from jettison.errors import PolicyError
from tests.builders import SECOND_NS, document, resources

ENFORCE = "enforceNodeAllocatable (--enforce-node-allocatable)"
HIGH = "imageGCHighThresholdPercent (--image-gc-high-threshold)"
LOW = "imageGCLowThresholdPercent (--image-gc-low-threshold)"
OPTIONS = (
    'Valid options are "pods", "system-reserved", "system-reserved-compressible", "kube-reserved", '
    '"kube-reserved-compressible" or "none"'
)


def build(*flags: tuple[str, str], **fields: Any) -> Policy:
    return build_policy(assemble(Source("kubelet.yaml", document(**fields)), flags=flags))


def test_the_default_policy() -> None:
    """Five hard thresholds and the copy that guards allocatable memory."""
    policy = build()
    assert [str(each) for each in policy.thresholds] == [
        "imagefs.available<15%",
        "imagefs.inodesFree<5%",
        "memory.available<100Mi",
        "nodefs.available<10%",
        "nodefs.inodesFree<5%",
        "allocatableMemory.available<100Mi",
    ]
    assert policy.switches == KUBELET
    assert policy.transition_ns == 300 * SECOND_NS
    assert policy.max_pod_grace == 0
    assert policy.isolates_local_storage
    assert policy.images == ImageCollection(85, 80, 120 * SECOND_NS, 0)
    assert policy.containers == ContainerCollection(0, 1, -1)


@pytest.mark.parametrize(
    ("flags", "fields", "copies"),
    [
        ([], {}, 1),
        ([], {"enforceNodeAllocatable": ["none"]}, 0),
        ([("experimental-allocatable-ignore-eviction", "true")], {}, 0),
        ([], {"evictionHard": {"memory.available": "0%"}}, 0),
    ],
)
def test_when_allocatable_memory_is_guarded(flags: list[tuple[str, str]], fields: dict[str, Any], copies: int) -> None:
    """Pods must be enforced, eviction not ignored, and there must be a hard memory threshold to copy."""
    found = [each for each in build(*flags, **fields).thresholds if each.signal == "allocatableMemory.available"]
    assert len(found) == copies


def test_reserved_cpus_replace_reservations_of_cpu() -> None:
    """They are deleted from kubeReserved, and the number of CPUs becomes the system's reservation."""
    policy = build(("reserved-cpus", "0-1"), kubeReserved={"cpu": "500m", "memory": "1Gi"}, systemReserved={"cpu": "5"})
    assert policy.kube_reserved == resources(memory="1Gi")
    assert policy.system_reserved == resources(cpu="2")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("memory", "1GB", 'failed to parse quantity "1GB" for "memory" resource: quantities must match'),
        ("memory", "-1Gi", 'resource quantity for "memory" cannot be negative: -1Gi'),
        ("pods", "5", 'cannot reserve "pods" resource'),
        ("hugepages-2Mi", "0", 'cannot reserve "hugepages-2Mi" resource'),
    ],
)
def test_a_bad_reservation(name: str, text: str, complaint: str) -> None:
    """Only cpu, memory, ephemeral-storage and pid can be reserved, and nothing negative."""
    with pytest.raises(PolicyError) as refusal:
        parse_reservation("systemReserved", {name: text})
    (found,) = refusal.value.complaints
    assert found.key == f"systemReserved.{name}"
    assert found.text.startswith(complaint)


def test_all_complaints_of_all_kinds_with_their_source() -> None:
    """Validation, thresholds, reservations and the age of dead containers, in one go."""
    with pytest.raises(PolicyError) as refusal:
        build(
            ("minimum-container-ttl-duration", "-1s"),
            ("system-reserved", "gpu=1"),
            oomScoreAdj=5000,
            evictionHard={"memory.available": "x"},
            evictionSoft={"pid.available": "5%"},
        )
    assert [(each.key, each.origin) for each in refusal.value.complaints] == [
        ("oomScoreAdj", "kubelet.yaml"),
        ("evictionHard.memory.available", "kubelet.yaml"),
        ("evictionSoftGracePeriod.pid.available", ""),
        ("systemReserved.gpu", "--system-reserved"),
        ("minimum-container-ttl-duration", "--minimum-container-ttl-duration"),
    ]
    assert "invalid minimum garbage collection age: -1s" in str(refusal.value)


def test_thresholds_are_derived_for_every_layout_beforehand() -> None:
    """A step only looks them up."""
    policy = build()
    layouts = {Layout(image_fs, split) for image_fs in (False, True) for split in (False, True)}
    assert set(policy.layouts) == layouts
    assert all(derived.first == policy.thresholds for derived in policy.layouts.values())


def test_the_profiles() -> None:
    """`kubelet` has every switch off, `improved` every switch on."""
    assert PROFILES == {"kubelet": KUBELET, "improved": IMPROVED}
    switches = KUBELET.__dataclass_fields__
    assert not any(getattr(KUBELET, name) for name in switches)
    assert all(getattr(IMPROVED, name) for name in switches)


def objections(**fields: Any) -> list[str]:
    return [each.text.removeprefix("invalid configuration: ") for each in validate(_config(fields))]


def _config(fields: dict[str, Any]) -> Any:
    return assemble(Source("file", document(**fields)))


def test_the_defaults_are_valid() -> None:
    """And so is a configuration that says nothing."""
    assert objections() == []


@pytest.mark.parametrize(
    ("fields", "objection"),
    [
        ({"imageGCHighThresholdPercent": 101}, f"{HIGH} 101 must be between 0 and 100, inclusive"),
        ({"imageGCLowThresholdPercent": -1}, f"{LOW} -1 must be between 0 and 100, inclusive"),
        ({"imageGCLowThresholdPercent": 85}, f"{LOW} 85 must be less than {HIGH} 85"),
        ({"imageMinimumGCAge": "-1s"}, "imageMinimumGCAge -1s must not be negative"),
        ({"imageMaximumGCAge": "-1h"}, "imageMaximumGCAge -1h0m0s must not be negative"),
        ({"imageMaximumGCAge": "2m"}, "imageMaximumGCAge 2m0s must be greater than imageMinimumGCAge 2m0s"),
        ({"maxPods": -1}, "maxPods (--max-pods) -1 must not be a negative number"),
        ({"podsPerCore": -1}, "podsPerCore (--pods-per-core) -1 must not be a negative number"),
        ({"oomScoreAdj": 1001}, "oomScoreAdj (--oom-score-adj) 1001 must be between -1000 and 1000, inclusive"),
        ({"nodeStatusMaxImages": -2}, "nodeStatusMaxImages (--node-status-max-images) -2 must be -1 or greater"),
        ({"enforceNodeAllocatable": ["pods", "pods"]}, f'duplicated enforcements "pods" in {ENFORCE}'),
        ({"enforceNodeAllocatable": ["pds"]}, f'option "pds" specified for {ENFORCE}. {OPTIONS}'),
        (
            {"enforceNodeAllocatable": ["none", "pods"]},
            f'{ENFORCE} may not contain additional enforcements when "none" is specified',
        ),
        (
            {"cgroupsPerQOS": False},
            f'cgroupsPerQOS (--cgroups-per-qos) must be set to true when "pods" contained in {ENFORCE}',
        ),
        (
            {"enforceNodeAllocatable": ["system-reserved"]},
            (
                "systemReservedCgroup (--system-reserved-cgroup) must be specified when "
                f'"system-reserved" or "system-reserved-compressible" included in {ENFORCE}'
            ),
        ),
        (
            {"enforceNodeAllocatable": ["kube-reserved-compressible"]},
            (
                "kubeReservedCgroup (--kube-reserved-cgroup) must be specified when "
                f'"kube-reserved" or "kube-reserved-compressible" included in {ENFORCE}'
            ),
        ),
        (
            {
                "enforceNodeAllocatable": ["system-reserved", "system-reserved-compressible"],
                "systemReservedCgroup": "/system.slice",
            },
            f'both "system-reserved" and "system-reserved-compressible" cannot be specified together in {ENFORCE}',
        ),
        (
            {"reservedSystemCPUs": "0-1", "systemReservedCgroup": "/system.slice"},
            (
                "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) "
                "or kubeReservedCgroup (--kube-reserved-cgroup)"
            ),
        ),
        (
            {"reservedSystemCPUs": "3-1"},
            'unable to parse reservedSystemCPUs (--reserved-cpus) 3-1, error: invalid range "3-1" (3 > 1)',
        ),
    ],
)
def test_one_objection_each(fields: dict[str, Any], objection: str) -> None:
    """Everything else about these configurations is fine, so nothing else is said."""
    assert objections(**fields) == [objection]


def test_objections_come_all_and_in_order() -> None:
    """Percentages, ages, numbers, enforcements, CPUs."""
    said = objections(
        imageGCHighThresholdPercent=-1, oomScoreAdj=-2000, enforceNodeAllocatable=["x"], reservedSystemCPUs="a"
    )
    assert [text.split(" ")[0] for text in said] == [
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "oomScoreAdj",
        "option",
        "unable",
    ]


def test_none_needs_no_cgroups_per_qos() -> None:
    """Every other enforcement does."""
    assert objections(cgroupsPerQOS=False, enforceNodeAllocatable=["none"]) == []
