"""What a pod asks for, its QoS class, and what is critical (spec §8.4, §9.1, §11.1, §16 examples 44, 45 and 53)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import (
    Container,
    Pod,
    PodResources,
    Qos,
    Volume,
    computed_qos,
    integer_request,
    limits,
    ranking_request,
    requests,
)
from tests.builders import MI, container, pod, resources, sidecar


def guaranteed(name: str = "c") -> Container:
    return container(name, {"cpu": "1", "memory": "1Gi"}, cpu="1", memory="1Gi")


MIXED = Pod(
    "mixed",
    containers=(container("app", memory="100Mi"),),
    init_containers=(sidecar("s1", memory="50Mi"), container("i1", memory="200Mi"), sidecar("s2", memory="30Mi")),
    overhead=resources(memory="20Mi"),
)


def test_init_containers_run_with_the_sidecars_before_them() -> None:
    """Together 180Mi, but 250Mi while i1 runs beside s1; then the overhead."""
    assert ranking_request(MIXED, "memory") == parse("270Mi")
    assert requests(MIXED) == resources(memory="270Mi")


@pytest.mark.parametrize(
    ("init", "total"),
    [
        ([], "100Mi"),
        ([container("i", memory="50Mi")], "100Mi"),
        ([container("i", memory="150Mi")], "150Mi"),
        ([sidecar("s", memory="50Mi")], "150Mi"),
        ([container("i", memory="120Mi"), sidecar("s", memory="50Mi")], "150Mi"),
        ([sidecar("s", memory="50Mi"), container("i", memory="120Mi")], "170Mi"),
        ([sidecar("s", memory="50Mi"), sidecar("t", memory="60Mi")], "210Mi"),
    ],
)
def test_the_order_of_init_containers_matters(init: list[Container], total: str) -> None:
    """A sidecar counts for what starts after it."""
    with_init = replace(pod(memory="100Mi"), init_containers=tuple(init))
    assert ranking_request(with_init, "memory") == parse(total)


def test_pod_level_resources_hide_the_containers_from_rankings() -> None:
    """One cpu request on the pod makes its containers' memory and storage count for nothing, though not for nodes."""
    overhead = resources(cpu="100m", memory="10Mi", ephemeral_storage="1Mi")
    whole = replace(
        pod(memory="100Mi", ephemeral_storage="1Gi"), resources=PodResources(resources(cpu="1")), overhead=overhead
    )
    assert whole.has_pod_level_resources
    assert not ranking_request(whole, "memory")
    assert not ranking_request(whole, "ephemeral-storage")
    assert ranking_request(whole, "cpu") == parse("1100m")
    assert requests(whole) == resources(cpu="1100m", memory="110Mi", ephemeral_storage="1025Mi")


@pytest.mark.parametrize(
    ("own", "is_pod_level"),
    [
        (None, False),
        (PodResources(), False),
        (PodResources(resources(ephemeral_storage="1Gi")), False),
        (PodResources(resources(cpu="1")), True),
        (PodResources(limits=resources(memory="1Gi")), True),
        (PodResources({"hugepages-2Mi": parse("2Mi")}), True),
    ],
)
def test_which_resources_count_on_a_pod(own: PodResources | None, is_pod_level: bool) -> None:
    """Only cpu, memory and huge pages; limits alone are enough to hide the containers."""
    found = replace(pod(memory="100Mi"), resources=own)
    assert found.has_pod_level_resources is is_pod_level
    assert bool(found.memory_request) is not is_pod_level


@pytest.mark.parametrize(("spelled", "said"), [("1E3", "1e3"), ("1904E-3", "1904e-3"), ("1500Mi", "1500Mi")])
def test_a_ranking_spells_requests_anew(spelled: str, said: str) -> None:
    """Upstream adds each to an empty sum, which forgets how the manifest spelled it; the node's accounts remember."""
    asking = pod(memory=spelled)
    assert str(ranking_request(asking, "memory")) == said
    assert str(requests(asking)["memory"]) == spelled


def test_overhead_is_added_to_what_is_not_zero() -> None:
    """In rankings zero stays zero; in the node's accounts overhead counts by itself."""
    bare = replace(pod(), overhead=resources(memory="10Mi"))
    assert not ranking_request(bare, "memory")
    assert requests(bare) == resources(memory="10Mi")
    assert limits(bare) == {}


def test_overhead_raises_a_limit_but_does_not_make_one() -> None:
    """And a limit of zero is none."""
    capped = Pod(
        "a", containers=(container("c", {"memory": "1Gi", "cpu": "0"}),), overhead=resources(memory="1Mi", cpu="1")
    )
    assert limits(capped) == {"memory": parse("1025Mi"), "cpu": parse("0")}


@pytest.mark.parametrize(
    ("resource", "value"), [("pods", 1), ("cpu", 1501), ("memory", MI + 1), ("example.com/gpu", 0)]
)
def test_integers_are_rounded_up(resource: str, value: int) -> None:
    """cpu in thousandths; a pod is one pod."""
    assert integer_request(pod(cpu="1.5001", memory="1048576.1"), resource) == value


@pytest.mark.parametrize(("beside", "value"), [("1Ki", 0), ("1.1Ki", -8446744073709551616)])
def test_a_comparison_with_a_big_decimal_leaves_a_big_decimal(beside: str, value: int) -> None:
    """Beyond 64 bits the two forms of a quantity have different integer views."""
    asking = Pod("a", containers=(container("c", memory=beside),), init_containers=(container("i", memory="1e19"),))
    assert integer_request(asking, "memory") == value


@pytest.mark.parametrize(
    ("containers", "init", "qos"),
    [
        ([container()], [], Qos.BEST_EFFORT),
        ([container(cpu="0", memory="0")], [], Qos.BEST_EFFORT),
        ([container(ephemeral_storage="1Gi")], [], Qos.BEST_EFFORT),
        ([container(memory="1Gi")], [], Qos.BURSTABLE),
        ([container("c", {"memory": "1Gi"})], [], Qos.BURSTABLE),
        ([guaranteed()], [], Qos.GUARANTEED),
        ([guaranteed("a"), guaranteed("b")], [], Qos.GUARANTEED),
        ([guaranteed("a"), container("b")], [], Qos.BURSTABLE),
        ([guaranteed()], [container("i")], Qos.BURSTABLE),
        ([guaranteed()], [guaranteed("i")], Qos.GUARANTEED),
        ([container("c", {"cpu": "1", "memory": "1Gi"}, cpu="1", memory="1Mi")], [], Qos.BURSTABLE),
        ([container("c", {"cpu": "1", "memory": "1Gi"})], [], Qos.BURSTABLE),
    ],
)
def test_the_qos_class_of_containers(containers: list[Container], init: list[Container], qos: Qos) -> None:
    """Init containers count; only cpu and memory do, and only what is more than zero. No defaulting happens here."""
    assert computed_qos(Pod("a", containers=tuple(containers), init_containers=tuple(init))) is qos


@pytest.mark.parametrize(
    ("own", "qos"),
    [
        (PodResources(resources(memory="1Gi")), Qos.BURSTABLE),
        (PodResources(resources(cpu="1", memory="1Gi"), resources(cpu="1", memory="1Gi")), Qos.GUARANTEED),
        (PodResources(resources(cpu="1", memory="1Gi"), resources(cpu="1")), Qos.BURSTABLE),
        (PodResources({"hugepages-2Mi": parse("2Mi")}), Qos.BEST_EFFORT),
        (PodResources(), Qos.BEST_EFFORT),
    ],
)
def test_the_qos_class_of_a_pod_with_resources_of_its_own(own: PodResources, qos: Qos) -> None:
    """Even `resources: {}` hides the guaranteed container below it."""
    assert computed_qos(Pod("a", containers=(guaranteed(),), resources=own)) is qos


def test_the_class_in_status_wins() -> None:
    """It was right when the pod was admitted."""
    believed = replace(pod(memory="1Gi"), reported_qos="BestEffort")
    assert believed.qos == Qos.BEST_EFFORT
    assert computed_qos(believed) is Qos.BURSTABLE


@pytest.mark.parametrize(
    ("found", "is_critical", "is_node_critical"),
    [
        (Pod("a"), False, False),
        (Pod("a", priority=1_999_999_999), False, False),
        (Pod("a", priority=2_000_000_000), True, False),
        (Pod("a", is_static=True), True, False),
        (Pod("a", is_mirror=True, priority=-5), True, False),
        (Pod("a", priority_class="system-node-critical"), False, False),
        (Pod("a", priority=2_000_001_000, priority_class="system-node-critical"), True, True),
        (Pod("a", priority=2_000_000_000, priority_class="system-cluster-critical"), True, False),
    ],
)
def test_which_pods_are_critical(found: Pod, is_critical: bool, is_node_critical: bool) -> None:
    """Static and mirror pods whatever their priority; the class alone makes no pod critical."""
    assert (found.is_critical, found.is_node_critical) == (is_critical, is_node_critical)


def test_limits_on_storage() -> None:
    """A sidecar's limit counts for the pod but is never checked alone; zero is no limit for a container."""
    storage = {"ephemeral_storage": "1Gi"}
    limited = Pod(
        "a",
        containers=(container("a", storage), container("b"), container("z", {"ephemeral_storage": "0"})),
        init_containers=(sidecar("s", storage),),
    )
    assert limited.storage_limit == parse("2Gi")
    assert limited.container_storage_limits == {"a": parse("1Gi")}
    assert limited.has_storage_limits
    assert not pod().has_storage_limits
    assert pod(volumes=[Volume("v", size_limit=parse("1"))]).has_storage_limits


def test_of_containers_with_one_name_the_regular_one_counts() -> None:
    """Then the first."""
    double = Pod(
        "a", containers=(container("x", memory="1"), container("x", memory="2")), init_containers=(container("x"),)
    )
    assert double.container_requests("memory") == {"x": (10**9, "1")}


def test_a_pod_is_shown_with_its_namespace() -> None:
    """As kubectl does; the order by name is what decides between equals."""
    assert str(Pod("web", "shop")) == "shop/web"
    assert Pod("b", "a", "1").order < Pod("a", "b", "0").order
