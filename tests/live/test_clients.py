"""The official Python client and lightkube: create, read, change, watch, evict and delete, as programs do it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import lightkube
import pytest
from kubernetes import client as official
from kubernetes import config as official_config
from kubernetes import dynamic
from kubernetes import watch as official_watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError
from lightkube.core.exceptions import ApiError
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import DeleteOptions, LabelSelector, ObjectMeta
from lightkube.models.policy_v1 import PodDisruptionBudgetSpec
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace, Node, Pod
from lightkube.resources.policy_v1 import PodDisruptionBudget
from lightkube.types import PatchType

from tests.live.served import Served

pytestmark = pytest.mark.timeout(300)

IMAGE = "registry.example/web:1"


@pytest.fixture
def namespace(served: Served) -> str:
    name = f"t{time.monotonic_ns()}"
    assert served.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    return name


# The official client's models are generated with every field optional, and its functions take plain dicts too, which
# its types deny: here it is Any.


@pytest.fixture
def api(served: Served) -> Iterator[Any]:
    make: Any = official_config.new_client_from_config
    with make(str(served.kubeconfig())) as found:
        yield found


@pytest.fixture
def core(api: Any) -> Any:
    return official.CoreV1Api(api)


def pod(name: str, **labels: str) -> dict[str, Any]:
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": IMAGE}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def test_official_create_read_change_delete(core: Any, namespace: str) -> None:
    made = core.create_namespaced_pod(namespace, pod("a", app="web"))
    assert made.spec.termination_grace_period_seconds == 30
    assert core.read_namespaced_pod("a", namespace).metadata.uid == made.metadata.uid
    core.patch_namespaced_pod("a", namespace, {"metadata": {"labels": {"tier": "front"}}})
    core.patch_namespaced_pod("a", namespace, [{"op": "remove", "path": "/metadata/labels/app"}])
    found = core.list_namespaced_pod(namespace, label_selector="tier=front", field_selector="spec.nodeName=n1")
    assert [each.metadata.labels for each in found.items] == [{"tier": "front"}]
    changed = found.items[0]
    changed.metadata.annotations = {"x": "y"}
    assert core.replace_namespaced_pod("a", namespace, changed).metadata.annotations == {"x": "y"}
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_pod("a", namespace, changed)
    assert conflict.value.status == 409
    core.patch_namespaced_pod_status("a", namespace, {"status": {"phase": "Running"}})
    assert core.read_namespaced_pod_status("a", namespace).status.phase == "Running"
    core.delete_namespaced_pod("a", namespace, grace_period_seconds=0)
    with pytest.raises(ApiException) as gone:
        core.read_namespaced_pod("a", namespace)
    assert gone.value.status == 404


def test_official_workloads_and_scale(api: Any, namespace: str) -> None:
    apps: Any = official.AppsV1Api(api)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    apps.create_namespaced_deployment(namespace, {"metadata": {"name": "web"}, "spec": spec})
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=web")
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 4}})
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 4


def test_official_eviction_with_and_without_a_budget(api: Any, core: Any, namespace: str) -> None:
    policy: Any = official.PolicyV1Api(api)
    for name in ("free", "guarded"):
        core.create_namespaced_pod(namespace, pod(name, app=name))
        core.patch_namespaced_pod_status(
            name, namespace, {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        )
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}}
    policy.create_namespaced_pod_disruption_budget(namespace, budget)
    counts = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    policy.patch_namespaced_pod_disruption_budget_status("b", namespace, {"status": {**counts, "expectedPods": 1}})
    answer = core.create_namespaced_pod_eviction("free", namespace, {"metadata": {"name": "free"}})
    assert answer.kind == "Status"
    assert core.read_namespaced_pod("free", namespace).metadata.deletion_timestamp is not None
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("guarded", namespace, {"metadata": {"name": "guarded"}})
    assert refused.value.status == 429
    assert "disruption budget" in str(refused.value.body)


def test_official_watch_sees_everything_in_order(core: Any, namespace: str) -> None:
    since = core.list_namespaced_pod(namespace).metadata.resource_version

    def work() -> None:
        core.create_namespaced_pod(namespace, pod("a"))
        core.patch_namespaced_pod("a", namespace, {"metadata": {"labels": {"x": "y"}}})
        core.delete_namespaced_pod("a", namespace, grace_period_seconds=0)

    thread = threading.Thread(target=work)
    thread.start()
    seen = []
    make: Any = official_watch.Watch
    watcher = make()
    for event in watcher.stream(core.list_namespaced_pod, namespace, resource_version=since, timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.labels))
        if event["type"] == "DELETED":
            watcher.stop()
    thread.join()
    assert seen[0] == ("ADDED", None)
    assert seen[1] == ("MODIFIED", {"x": "y"})
    assert seen[-1] == ("DELETED", {"x": "y"})


def test_official_dynamic_client(api: Any, namespace: str) -> None:
    """It discovers everything by itself."""
    make: Any = dynamic.DynamicClient
    found = make(api)
    budgets = found.resources.get(api_version="policy/v1", kind="PodDisruptionBudget")
    body = {"metadata": {"name": "b"}, "spec": {"maxUnavailable": "30%", "selector": {"matchLabels": {"a": "b"}}}}
    budgets.create(body=body, namespace=namespace)
    assert budgets.get(name="b", namespace=namespace).spec.maxUnavailable == "30%"
    applied = {**body, "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"maxUnavailable": 2}}
    # Another client has set the field.
    with pytest.raises(ConflictError, match="Apply failed with 1 conflict"):
        budgets.server_side_apply(body=applied, name="b", namespace=namespace, field_manager="test")
    budgets.server_side_apply(
        body=applied, name="b", namespace=namespace, field_manager="test", force_conflicts=True
    )  # fmt: skip
    assert budgets.get(name="b", namespace=namespace).spec.maxUnavailable == 2
    budgets.delete(name="b", namespace=namespace)
    assert budgets.get(namespace=namespace).items == []


def test_official_viewer_is_refused(served: Served, namespace: str) -> None:
    make: Any = official_config.new_client_from_config
    with make(str(served.kubeconfig("viewer"))) as viewer:
        core: Any = official.CoreV1Api(viewer)
        assert core.list_namespaced_pod(namespace).items == []
        with pytest.raises(ApiException) as refused:
            core.create_namespaced_pod(namespace, pod("a"))
    assert refused.value.status == 403
    assert "cannot create resource" in str(refused.value.body)


@pytest.fixture
def light(served: Served, namespace: str) -> Iterator[lightkube.Client]:
    config = lightkube.KubeConfig.from_file(served.kubeconfig())
    client = lightkube.Client(config=config, namespace=namespace, field_manager="test")
    with closing(client):
        yield client


def light_pod(name: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, labels={"app": name}),
        spec=PodSpec(containers=[Container(name="main", image=IMAGE)], nodeName="n1"),
    )


def test_lightkube_create_read_change_delete(light: lightkube.Client) -> None:
    light.create(light_pod("a"))
    light.patch(Pod, "a", {"metadata": {"labels": {"tier": "front"}}})
    light.patch(Pod, "a", {"metadata": {"labels": {"app": None}}}, patch_type=PatchType.MERGE)
    found = light.get(Pod, "a")
    assert found.metadata is not None
    assert found.metadata.labels == {"tier": "front"}
    found.metadata.annotations = {"x": "y"}
    light.replace(found)
    assert [each.metadata.name for each in light.list(Pod, labels={"tier": "front"}) if each.metadata] == ["a"]
    light.delete(Pod, "a", grace_period=0)
    with pytest.raises(ApiError) as gone:
        light.get(Pod, "a")
    assert gone.value.status.code == 404
    assert [each.metadata.name for each in light.list(Node) if each.metadata] == ["n1"]


def test_lightkube_lists_in_chunks(light: lightkube.Client) -> None:
    for index in range(7):
        light.create(light_pod(f"p{index}"))
    names = [each.metadata.name for each in light.list(Pod, chunk_size=3) if each.metadata]
    assert names == [f"p{index}" for index in range(7)]


def test_lightkube_applies(light: lightkube.Client) -> None:
    def budget(count: int) -> PodDisruptionBudget:
        spec = PodDisruptionBudgetSpec(minAvailable=count, selector=LabelSelector(matchLabels={"a": "b"}))
        return PodDisruptionBudget(metadata=ObjectMeta(name="b"), spec=spec)

    light.apply(budget(1))
    light.apply(budget(2))
    spec = light.get(PodDisruptionBudget, "b").spec
    assert spec is not None
    assert spec.minAvailable == 2


def test_lightkube_watches_and_evicts(light: lightkube.Client, namespace: str) -> None:
    light.create(light_pod("a"))
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    light.patch(Pod.Status, "a", ready)
    events = light.watch(Pod, server_timeout=20)
    operation, first = next(events)
    assert (operation, first.metadata and first.metadata.name) == ("ADDED", "a")
    eviction = Pod.Eviction(
        metadata=ObjectMeta(name="a", namespace=namespace), deleteOptions=DeleteOptions(gracePeriodSeconds=0)
    )
    light.create(eviction, "a")
    assert "DELETED" in (operation for operation, _ in events)


def test_lightkube_sees_errors_as_kubernetes_tells_them(light: lightkube.Client) -> None:
    with pytest.raises(ApiError, match=r'deployments\.apps "nope" not found'):
        light.get(Deployment, "nope")
    with pytest.raises(ApiError, match="already exists"):
        light.create(Namespace(metadata=ObjectMeta(name="default")))
