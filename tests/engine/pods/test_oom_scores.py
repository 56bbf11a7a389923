"""oom_score_adj: which process the kernel takes first (spec §11.2, §16 examples 54 and 55)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.pods.oom_scores import oom_score, oom_score_adjustments
from jettison.engine.pods.pod import Pod, PodResources, Resources
from tests.builders import GI, container, pod, resources, sidecar

NODE = 8 * GI
ALL_OF_IT = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("request_", "score"),
    [
        ("1Gi", 875),
        ("1Mi", 999),
        ("1", 999),
        ("8180Mi", 3),
        ("8Gi", 3),
        ("16Gi", 3),
        ("4Gi", 500),
        # Go multiplies by 1000 in 64 bits: these wrap around once and twice.
        ("8589935Gi", 1073742773),
        ("17179870Gi", 898),
    ],
)
def test_burstable_by_what_it_asked_for(request_: str, score: int) -> None:
    """Strictly between Guaranteed and BestEffort: never below 3, never 1000."""
    assert oom_score_adjustments(pod(memory=request_), NODE) == {"c": score}


def test_the_subtraction_wraps_around_as_well() -> None:
    """1000 minus the smallest integers is not a score of 2⁶³."""
    assert oom_score_adjustments(pod(memory="7Ei"), 1) == {"c": 3}


@pytest.mark.parametrize(
    ("found", "score"),
    [
        (pod(), 1000),
        (pod(cpu="1"), 999),
        (Pod("a", containers=(container("c", ALL_OF_IT, **ALL_OF_IT),)), -997),
        (replace(pod(), priority=2_000_001_000, priority_class="system-node-critical"), -997),
        (replace(pod(), priority=2_000_000_000, priority_class="system-cluster-critical"), 1000),
        (replace(pod(), is_static=True), 1000),
        (replace(pod(), reported_qos="Guaranteed"), -997),
    ],
)
def test_the_class_decides_first(found: Pod, score: int) -> None:
    """Critical alone protects from eviction, not from the kernel; the node-critical class does both."""
    assert oom_score_adjustments(found, NODE) == {"c": score}


@pytest.mark.parametrize(("request_", "score"), [("100Mi", 875), ("3Gi", 625)])
def test_a_sidecar_outlives_the_container_it_serves(request_: str, score: int) -> None:
    """It is treated as if it had asked for as much as the smallest regular container, if that helps it."""
    served = Pod(
        "a",
        containers=(container("big", memory="2Gi"), container("small", memory="1Gi")),
        init_containers=(sidecar("proxy", memory=request_),),
    )
    assert oom_score_adjustments(served, NODE) == {"big": 750, "small": 875, "proxy": score}


def test_what_the_pod_asked_for_beyond_its_containers_is_shared() -> None:
    """3Gi for the pod and 1Gi for one of two containers leave 1Gi for each."""
    whole = Pod(
        "a", containers=(container("a", memory="1Gi"), container("b")), resources=PodResources(resources(memory="3Gi"))
    )
    assert oom_score_adjustments(whole, NODE) == {"a": 750, "b": 875}


def test_init_containers_share_as_well() -> None:
    """4Gi for the pod and 1Gi for one of three leave 1Gi for each; the sidecar is as safe as the regular one."""
    whole = Pod(
        "a",
        containers=(container("app", memory="1Gi"),),
        init_containers=(container("setup"), sidecar("proxy")),
        resources=PodResources(resources(memory="4Gi")),
    )
    assert oom_score_adjustments(whole, NODE) == {"app": 750, "setup": 875, "proxy": 750}


@pytest.mark.parametrize("own", [resources(cpu="1"), resources(ephemeral_storage="1Gi"), {}])
def test_nothing_is_shared_without_a_memory_request_of_the_pod(own: Resources) -> None:
    """Each container counts for itself then."""
    whole = replace(pod(memory="1Gi"), resources=PodResources(own), reported_qos="Burstable")
    assert oom_score_adjustments(whole, NODE) == {"c": 875}


def test_a_sidecar_without_a_container_to_serve() -> None:
    """A pod of init containers alone."""
    alone = Pod("a", init_containers=(sidecar("proxy", memory="1Gi"),))
    assert oom_score_adjustments(alone, NODE) == {"proxy": 875}


def test_shares_are_rounded_towards_zero() -> None:
    """Three bytes too few for two containers are one for each; the result may even lie above 1000."""
    whole = Pod(
        "a", containers=(container("a", memory="5"), container("b")), resources=PodResources(resources(memory="2"))
    )
    assert oom_score_adjustments(whole, 10) == {"a": 600, "b": 1100}


def test_a_share_may_be_negative() -> None:
    """Where containers ask for more than their pod; Go's division rounds towards zero."""
    whole = Pod("a", containers=(container("a", memory="3Gi"),), resources=PodResources(resources(memory="1Gi")))
    assert oom_score_adjustments(whole, NODE) == {"a": 875}


def test_a_node_without_memory_divides_by_nothing() -> None:
    """Upstream crashes here."""
    assert oom_score_adjustments(pod(memory="1Gi"), 0) == {"c": 999}


@pytest.mark.parametrize(
    ("found", "score"),
    [
        (pod(), 1000),
        (pod(memory="4Gi"), 999),
        (Pod("a", containers=(container("c", ALL_OF_IT, **ALL_OF_IT),)), -997),
    ],
)
def test_a_container_for_debugging_asks_for_nothing(found: Pod, score: int) -> None:
    """It has the class of its pod; the pod's own containers are as they were."""
    assert oom_score(found, "debugger", NODE) == score
    for name, own in oom_score_adjustments(found, NODE).items():
        assert oom_score(found, name, NODE) == own
