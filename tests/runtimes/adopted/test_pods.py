"""Workloads become pods that the engine ranks as the kubelet would."""

from __future__ import annotations

from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Qos
from jettison.runtimes.adopted.pods import AdoptedPod, adopt
from jettison.runtimes.adopted.rules import GuardRules, Stop
from jettison.runtimes.adopted.rules_file import parse_rules, shipped_rules
from jettison.runtimes.workloads import AdoptedWorkload

MI = 2**20


def adopted(*workloads: AdoptedWorkload, rules: str = "") -> list[AdoptedPod]:
    return adopt(workloads, parse_rules(rules, "r"), shipped_rules())


def container(name: str = "web", labels: dict[str, str] | None = None, **more: int) -> AdoptedWorkload:
    return AdoptedWorkload("docker", f"id-of-{name}", name, f"docker/{name}", labels or {}, **more)  # type: ignore[arg-type]


def test_a_container_that_says_nothing_is_best_effort() -> None:
    """And goes by its usage alone."""
    [found] = adopted(container())
    assert (str(found.pod), found.pod.uid, found.pod.qos) == ("docker/web", "id-of-web", Qos.BEST_EFFORT)
    assert (found.way, found.is_protected, found.pod.is_critical) == (Stop.CONTAINER, False, False)


def test_a_limit_is_a_request_unless_there_is_a_smaller_one() -> None:
    """As in Kubernetes; Docker calls the smaller one a reservation."""
    [capped] = adopted(container(memory_limit=64 * MI))
    [reserved] = adopted(container(memory_limit=64 * MI, memory_request=16 * MI))
    assert (capped.pod.memory_request, capped.pod.qos) == (parse("64Mi"), Qos.BURSTABLE)
    assert reserved.pod.memory_request == parse("16Mi")
    [both] = adopted(container(memory_limit=64 * MI, cpu_limit_milli=500))
    assert both.pod.qos == Qos.GUARANTEED


def test_the_operator_outranks_labels_and_labels_outrank_limits() -> None:
    """A container cannot label itself out of what the operator decided."""
    labels = {"jettison.dev/protect": "true", "jettison.dev/memory-request": "32Mi", "jettison.dev/priority": "9"}
    workload = container(labels=labels, memory_limit=64 * MI)
    [by_itself] = adopted(workload)
    assert (by_itself.is_protected, by_itself.pod.is_critical, by_itself.pod.memory_request) == (
        True,
        True,
        parse("32Mi"),
    )
    [decided] = adopted(workload, rules="rules: [{match: {name: web}, protect: false, requests: {memory: 1Mi}}]")
    assert (decided.is_protected, decided.pod.effective_priority) == (False, 9)
    assert decided.pod.memory_request == parse("1Mi")


def test_what_a_source_knows_of_a_pod_counts_where_nothing_else_is_said() -> None:
    """A static pod is critical, as for a kubelet; of several containers the most important one decides."""
    labels = {"io.kubernetes.pod.uid": "u"}
    [found] = adopted(container("a", labels, priority=5), container("b", labels, priority=9), container("c", labels))
    assert (found.pod.priority, found.pod.is_critical) == (9, False)
    [ruled] = adopted(container("a", labels, priority=5), rules="rules: [{match: {name: a}, priority: -3}]")
    assert ruled.pod.priority == -3
    [static] = adopted(container("a", labels, is_static=True), container("b", labels))
    assert (static.pod.is_critical, static.is_protected) == (True, False)


def test_services_of_a_composition_stand_together() -> None:
    """The project is their namespace."""
    labels = {"com.docker.compose.project": "shop", "com.docker.compose.service": "db"}
    [found] = adopted(container("shop-db-1", labels))
    assert (str(found.pod), found.pod.containers[0].name) == ("shop/shop-db-1", "db")


def test_containers_of_a_kubernetes_pod_are_one_pod() -> None:
    """With the sum of their requests, ended together."""
    pod = {"io.kubernetes.pod.uid": "u1", "io.kubernetes.pod.name": "web-1", "io.kubernetes.pod.namespace": "shop"}
    workloads = [
        container("k8s_app", {**pod, "io.kubernetes.container.name": "app"}, memory_limit=10 * MI),
        container("k8s_proxy", {**pod, "io.kubernetes.container.name": "proxy"}, memory_limit=20 * MI),
        container("alone"),
    ]
    first, second = adopted(*workloads)
    assert (str(first.pod), first.pod.uid, first.pod.memory_request) == ("shop/web-1", "u1", parse("30Mi"))
    assert [each.name for each in first.pod.containers] == ["app", "proxy"]
    assert str(second.pod) == "docker/alone"


def test_a_hostile_name_is_shortened_and_kept() -> None:
    """It is shown, never acted on: the engine's id is."""
    [found] = adopted(container("x" * 9999, {"com.docker.compose.project": "\x1b[31m" * 999}))
    assert (len(found.pod.name), len(found.pod.namespace)) == (253, 253)


def test_a_spared_pod_is_ranked_as_critical() -> None:
    """The engine passes it over, and everything else about it stays."""
    [found] = adopt([container(memory_limit=MI)], GuardRules(), GuardRules())
    assert found.spared().pod.is_critical
    assert found.spared().pod.memory_request == found.pod.memory_request
