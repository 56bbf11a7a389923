"""What Kubernetes objects to, word for word (spec §1.5)."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.validation import validate
from tests.builders import document

ENFORCE = "enforceNodeAllocatable (--enforce-node-allocatable)"
HIGH = "imageGCHighThresholdPercent (--image-gc-high-threshold)"
LOW = "imageGCLowThresholdPercent (--image-gc-low-threshold)"
OPTIONS = (
    'Valid options are "pods", "system-reserved", "system-reserved-compressible", "kube-reserved", '
    '"kube-reserved-compressible" or "none"'
)


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
