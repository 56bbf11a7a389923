"""What a node may touch, one row per rule of Kubernetes' NodeRestriction and Node authorizer, each with a neighbour
that is allowed: the node n1 among pods and nodes that are not its own."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

import pytest

from tests.apiserver.served import APPLY, JSON_PATCH, MERGE, PODS, STRATEGIC, Answer, Json, Served, pod_document

NODES: Final = "/api/v1/nodes"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SET_OWNER: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
TAINT: Final = {"key": "maintenance", "effect": "NoSchedule"}
USER: Final = 'User "system:node:n1"'


def as_node(api: Served, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
    return api(method, path, body, token="node", content_type=kind)


@pytest.fixture
def node(api: Served) -> Json:
    """Its Node, cordoned and tainted by an administrator, and another's."""
    for name in ("n1", "n2"):
        document = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "node-role.kubernetes.io/x": ""}},
            "spec": {"unschedulable": True, "taints": [TAINT]},
        }
        assert api.post(NODES, document).code == 201
    return api.get(f"{NODES}/n1").body


def mirror(node: Json, **changes: Any) -> Json:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"], "controller": True}
    document = pod_document("m-n1", node="n1")
    document["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "u1"}, "ownerReferences": [owner]}
    owner.update(changes.pop("owner", {}))
    document["metadata"].update(changes.pop("metadata", {}))
    document["spec"].update(changes)
    return document


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **more}]}


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


NO_REFERENCE: Final = 'node "n1" can not create pods that reference '
MIRROR_RULES: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "is a mirror": (
        {"metadata": {"annotations": {"other": "x"}}},
        'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
    ),
    "is bound here": ({"nodeName": "n2"}, 'node "n1" can only create pods with spec.nodeName set to itself'),
    "is bound": ({"nodeName": ""}, 'node "n1" can only create pods with spec.nodeName set to itself'),
    "has an owner": (
        {"metadata": {"ownerReferences": []}},
        'node "n1" can only create pods with an owner reference set to itself',
    ),
    "has one owner": (
        {"metadata": {"ownerReferences": [SET_OWNER, SET_OWNER | {"controller": False}]}},
        'node "n1" can only create pods with a single owner reference set to itself',
    ),
    "is not a replica set's": (
        {"metadata": {"ownerReferences": [SET_OWNER]}},
        'node "n1" can only create pods with an owner reference set to itself',
    ),
    "is a Node's": ({"owner": {"kind": "ReplicaSet"}}, 'node "n1" can only create pods with an owner reference set'),
    "is of the core group": ({"owner": {"apiVersion": "x/v1"}}, "can only create pods with an owner reference set"),
    "is this node's": (
        {"owner": {"name": "n2"}},
        'node "n1" can only create pods with an owner reference set to itself',
    ),
    "is controlled": (
        {"owner": {"controller": False}},
        'node "n1" can only create pods with a controller owner reference set to itself',
    ),
    "does not block": (
        {"owner": {"blockOwnerDeletion": True}},
        'node "n1" must not set blockOwnerDeletion on an owner reference',
    ),
    "knows the uid": ({"owner": {"uid": "u"}}, "node n1 UID mismatch: expected u got "),
    "no account": ({"serviceAccountName": "a"}, f"{NO_REFERENCE}serviceaccounts"),
    "no old account": ({"serviceAccount": "a"}, f"{NO_REFERENCE}serviceaccounts"),
    "no pull secret": ({"imagePullSecrets": [{"name": "s"}]}, f"{NO_REFERENCE}secrets"),
    "no secret variable": (
        container(env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
        f"{NO_REFERENCE}secrets",
    ),
    "no secret variables": (container(envFrom=[{"secretRef": {"name": "s"}}]), f"{NO_REFERENCE}secrets"),
    "none of an init container": (
        {"initContainers": container(envFrom=[{"secretRef": {"name": "s"}}])["containers"]},
        f"{NO_REFERENCE}secrets",
    ),
    "no config variable": (
        container(env=[{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}]),
        f"{NO_REFERENCE}configmaps",
    ),
    "no config variables": (container(envFrom=[{"configMapRef": {"name": "s"}}]), f"{NO_REFERENCE}configmaps"),
    "no secret volume": (volume(secret={"secretName": "s"}), f"{NO_REFERENCE}secrets"),
    "no nameless secret": (volume(secret={}), f"{NO_REFERENCE}secrets (via secret volumes)"),
    "no config volume": (volume(configMap={"name": "s"}), f"{NO_REFERENCE}configmaps"),
    "no nameless config": (volume(configMap={}), f"{NO_REFERENCE}configmaps (via configmap volumes)"),
    "no secret of a volume": (
        volume(iscsi={"secretRef": {"name": "s"}, "targetPortal": "t", "iqn": "i", "lun": 1}),
        f"{NO_REFERENCE}secrets",
    ),
    "no claim": (volume(persistentVolumeClaim={"claimName": "c"}), f"{NO_REFERENCE}persistentvolumeclaims"),
    "no claim to be": (volume(ephemeral={}), f"{NO_REFERENCE}persistentvolumeclaims (via ephemeral volumes)"),
    "no driver": (volume(csi={"driver": "d"}), f"{NO_REFERENCE}csidrivers (via CSI volumes)"),
    "no endpoints": (volume(glusterfs={"endpoints": "e", "path": "p"}), f"{NO_REFERENCE}endpoints (via glusterFS"),
    "no share's secret": (volume(azureFile={"shareName": "s"}), f"{NO_REFERENCE}secrets (via azureFile volumes)"),
    "no token": (
        volume(projected={"sources": [{"downwardAPI": {}}, {"serviceAccountToken": {"path": "p"}}]}),
        f"{NO_REFERENCE}serviceaccounts (via projected volumes)",
    ),
    "no projected secret": (volume(projected={"sources": [{"secret": {}}]}), f"{NO_REFERENCE}secrets (via projected"),
    "no projected config": (
        volume(projected={"sources": [{"configMap": {}}]}),
        f"{NO_REFERENCE}configmaps (via projected volumes)",
    ),
    "no trust bundle": (
        volume(projected={"sources": [{"clusterTrustBundle": {"path": "p"}}]}),
        f"{NO_REFERENCE}clustertrustbundles",
    ),
    "no certificate": (volume(projected={"sources": [{"podCertificate": {}}]}), f"{NO_REFERENCE}podcertificates"),
    "no unknown source": (
        volume(projected={"sources": [{}]}),
        'error checking mirror pod for API references: unknown source for projected volume "v"',
    ),
    "no claimed resource": ({"resourceClaims": [{"name": "r"}]}, f"{NO_REFERENCE}resourceclaims"),
}


def test_a_node_shows_only_its_static_pods(api: Served, node: Json) -> None:
    for rule, (changes, expected) in MIRROR_RULES.items():
        refused = as_node(api, "POST", PODS, mirror(node, **deepcopy(changes)))
        assert refused.code == 403, (rule, refused.content)
        assert refused.message.startswith('pods "m-n1" is forbidden: '), rule
        assert expected in refused.message, rule
    for plain in (volume(emptyDir={}), volume(hostPath={"path": "/x"}), volume(), container(env=[{"name": "E"}])):
        assert as_node(api, "POST", PODS, mirror(node, **plain)).code == 201
        assert as_node(api, "DELETE", f"{PODS}/m-n1", {"gracePeriodSeconds": 0}).code == 200
    # Only nodes are held to this.
    assert api.post(PODS, mirror(node, metadata={"ownerReferences": [SET_OWNER]})).code == 201


def test_a_mirror_needs_the_node(api: Served) -> None:
    nobodys = mirror({"metadata": {"uid": "u"}})
    assert as_node(api, "POST", PODS, nobodys).message == 'nodes "n1" not found'


def test_a_node_cannot_make_a_mirror_by_another_verb(api: Served, node: Json) -> None:
    bad = mirror(node, metadata={"ownerReferences": [SET_OWNER]})
    applied = {"apiVersion": "v1", "kind": "Pod", **bad}
    for method, kind, query in (("PUT", "application/json", ""), ("PATCH", APPLY, "fieldManager=x")):
        answer = api(method, f"{PODS}/m-n1", applied, token="node", content_type=kind, query=query)
        assert answer.code == 403, answer.content
    assert api.get(f"{PODS}/m-n1").code == 404


def test_of_a_pod_a_node_writes_the_status_alone(api: Served, node: Json) -> None:
    del node
    before = api.pod("mine", node="n1")
    api.pod("other", node="n2")
    api.pod("free", node="", ready=None, phase="Pending")
    foreign = 'node "n1" can only update pod status for pods with spec.nodeName set to itself'
    for name in ("other", "free"):
        answer = as_node(api, "PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Failed"}}, MERGE)
        assert (answer.code, answer.message) == (403, f'pods "{name}" is forbidden: {foreign}')
    labels = 'node "n1" cannot update labels through pod status'
    only_status = (
        f'{USER} cannot patch {{}} of resource "pods/status" in API group "" in the namespace "default": '
        "only status may be changed"
    )
    for kind, patch, expected in (
        (MERGE, {"metadata": {"labels": {"app": "other"}}}, labels),
        (MERGE, {"metadata": {"labels": None}}, labels),
        (STRATEGIC, {"metadata": {"labels": {"more": "x"}}, "status": {"phase": "Failed"}}, labels),
        (JSON_PATCH, [{"op": "remove", "path": "/metadata/labels/app"}], labels),
        (MERGE, {"metadata": {"annotations": {"a": "b"}}}, only_status.format("metadata.annotations")),
        (MERGE, {"metadata": {"finalizers": ["x/y"]}}, only_status.format("metadata.finalizers")),
        (
            MERGE,
            {"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]}},
            'node "n1" cannot update resource claim statues',
        ),
        (
            MERGE,
            {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}}},
            'node "n1" cannot update extended resource claim status',
        ),
    ):
        answer = as_node(api, "PATCH", f"{PODS}/mine/status", patch, kind)
        assert (answer.code, answer.message) == (403, f'pods "mine" is forbidden: {expected}')
    relabelled = {**before, "metadata": {**before["metadata"], "labels": {"app": "other"}}}
    assert as_node(api, "PUT", f"{PODS}/mine/status", relabelled).code == 403
    # An owner is taken for a mistake of old kubelets and passed over, as upstream does.
    stolen = as_node(api, "PATCH", f"{PODS}/mine/status", {"metadata": {"ownerReferences": [SET_OWNER]}}, MERGE)
    assert (stolen.code, "ownerReferences" in stolen.body["metadata"]) == (200, False)
    assert api.get(f"{PODS}/mine").body == before
    assert as_node(api, "PUT", f"{PODS}/mine/status", {**before, "status": {"phase": "Failed"}}).code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", f"{PODS}/mine", {"metadata": {"labels": {"a": "b"}}}),
        ("PUT", f"{PODS}/mine", {}),
        ("DELETE", PODS, None),
        ("POST", f"{PODS}/mine/binding", {"target": {"name": "n2"}}),
        ("GET", f"{PODS}/mine/log", None),
        ("GET", f"{PODS}/mine/status", None),
        ("DELETE", f"{NODES}/n1", None),
        ("DELETE", NODES, None),
        ("GET", "/api/v1/namespaces", None),
        ("GET", "/apis/policy/v1/poddisruptionbudgets", None),
        ("PATCH", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/pdb/status", {}),
        ("GET", "/apis/apps/v1/replicasets", None),
        ("PATCH", "/apis/apps/v1/namespaces/default/replicasets/web/scale", {"spec": {"replicas": 0}}),
        ("GET", "/apis/scheduling.k8s.io/v1/priorityclasses", None),
        ("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "x"}}),
    ],
)
def test_the_rest_of_the_api_is_not_a_nodes(api: Served, node: Json, method: str, path: str, body: Any) -> None:
    del node
    api.pod("mine", node="n1")
    answer = as_node(api, method, path, body, MERGE if method == "PATCH" else "application/json")
    assert answer.code == 403
    assert f"{USER} cannot " in answer.message


def test_a_node_ends_only_its_own_pods(api: Served, node: Json) -> None:
    del node
    for name, where in (("mine", "n1"), ("too", "n1"), ("other", "n2"), ("free", "")):
        api.pod(name, node=where)
    for name in ("other", "free"):
        answer = as_node(api, "DELETE", f"{PODS}/{name}")
        why = 'node "n1" can only delete pods with spec.nodeName set to itself'
        assert (answer.code, answer.message) == (403, f'pods "{name}" is forbidden: {why}')
        answer = api.evict(name, token="node")
        why = "node n1 can only evict pods with spec.nodeName set to itself"
        assert (answer.code, answer.message) == (403, f'pods "{name}" is forbidden: {why}')
    assert api.evict("gone", token="node").message == 'pods "gone" not found'
    assert api.evict("mine", token="node").code == 201
    assert as_node(api, "DELETE", f"{PODS}/too").code == 200


def test_a_nodes_eviction_asks_the_budget(api: Served, node: Json) -> None:
    del node
    api.pod("mine", node="n1")
    api.budget(minAvailable=1, status={"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1})
    assert api.evict("mine", token="node").code == 429


NODE_RULES: Final[dict[str, tuple[Any, str]]] = {
    "uncordons": ({"spec": {"unschedulable": None}}, 'node "n1" is not allowed to modify spec.unschedulable'),
    "says false": ({"spec": {"unschedulable": False}}, 'node "n1" is not allowed to modify spec.unschedulable'),
    "drops its taints": ({"spec": {"taints": None}}, 'node "n1" is not allowed to modify taints'),
    "adds a taint": (
        {"spec": {"taints": [TAINT, {"key": "x", "effect": "NoExecute"}]}},
        'node "n1" is not allowed to modify taints',
    ),
    "changes a taint": ({"spec": {"taints": [TAINT | {"value": "x"}]}}, 'node "n1" is not allowed to modify taints'),
    "drops its spec": ({"spec": None}, 'node "n1" is not allowed to modify taints'),
    "has a new config": (
        {"spec": {"configSource": {"configMap": {"name": "c"}}}},
        'node "n1" is not allowed to update configSource to a new non-nil configSource',
    ),
    "has an owner": (
        {"metadata": {"ownerReferences": [SET_OWNER]}},
        'node "n1" is not allowed to modify ownerReferences',
    ),
    **{
        f"labels itself {label}={value}": (
            {"metadata": {"labels": {label: value}}},
            f"is not allowed to modify labels: {label}",
        )
        for label, value in (
            ("node-restriction.kubernetes.io/fips", "true"),
            ("sub.node-restriction.kubernetes.io/fips", "true"),
            ("node-role.kubernetes.io/control-plane", ""),
            ("kubernetes.io/anything", "x"),
            ("k8s.io/anything", "x"),
            ("example.k8s.io/anything", "x"),
            ("topology.kubernetes.io/rack", "x"),
            # Taken away, and changed.
            ("node-role.kubernetes.io/x", None),
            ("node-role.kubernetes.io/x", "y"),
        )
    },
    "has a finalizer": (
        {"metadata": {"finalizers": ["x/y"]}},
        f'{USER} cannot patch metadata.finalizers of resource "{{}}" in API group "" at the cluster scope',
    ),
}
OWN_LABELS: Final = (
    *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os"),
    *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"),
    *("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "node.kubernetes.io/x", "team"),
    *("kubelet.kubernetes.io/x", "sub.node.kubernetes.io/x", "sub.kubelet.kubernetes.io/x", "example.com/x"),
    *("notkubernetes.io/x", "xk8s.io/x"),
)


@pytest.mark.parametrize("part", ["nodes", "nodes/status"])
def test_a_node_does_not_change_what_the_cluster_says_of_it(api: Served, node: Json, part: str) -> None:
    path = f"{NODES}/n1{part.removeprefix('nodes')}"
    for rule, (patch, expected) in NODE_RULES.items():
        for kind in (MERGE, STRATEGIC):
            if kind == STRATEGIC and rule in ("adds a taint", "changes a taint"):
                patch = {"spec": {"taints": [{"$patch": "replace"}, *patch["spec"]["taints"]]}}
            answer = as_node(api, "PATCH", path, patch, kind)
            assert answer.code == 403, (rule, answer.content)
            assert answer.message.startswith(f'nodes "n1" is forbidden: {expected.format(part)}'), rule
    changed = {**node, "spec": {}}
    assert (
        as_node(api, "PUT", path, changed).message
        == 'nodes "n1" is forbidden: node "n1" is not allowed to modify taints'
    )
    removal = [{"op": "remove", "path": "/spec/unschedulable"}]
    assert as_node(api, "PATCH", path, removal, JSON_PATCH).code == 403
    assert api.patch(path, removal, JSON_PATCH, token="node", query="dryRun=All").code == 403
    assert api.get(f"{NODES}/n1").body == node
    for label in OWN_LABELS:
        answer = as_node(api, "PATCH", path, {"metadata": {"labels": {label: "x"}}}, MERGE)
        assert answer.code == 200, (label, answer.content)
    assert as_node(api, "PATCH", path, {"metadata": {"annotations": {"a": "b"}}}, MERGE).code == 200
    assert api.get(f"{NODES}/n1").body["spec"] == node["spec"]


def test_a_node_reports_itself_and_no_other(api: Served, node: Json) -> None:
    status = {"status": {"capacity": {"cpu": "1"}}}
    assert as_node(api, "PATCH", f"{NODES}/n1/status", status, MERGE).code == 200
    fresh = api.get(f"{NODES}/n1").body
    assert as_node(api, "PUT", f"{NODES}/n1/status", {**fresh, "status": {}}).code == 200
    why = 'nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"'
    for path, body in ((f"{NODES}/n2/status", status), (f"{NODES}/n2", {"metadata": {"labels": {"a": "b"}}})):
        answer = as_node(api, "PATCH", path, body, MERGE)
        assert (answer.code, answer.message) == (403, why)
    assert fresh["spec"] == node["spec"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"metadata": {"name": "n3"}}, 'nodes "n3" is forbidden: node "n1" is not allowed to modify node "n3"'),
        ({"metadata": {"generateName": "n"}}, 'nodes "n" is forbidden: node "n1" is not allowed to modify node ""'),
        (
            {"metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/y": "", "k8s.io/a": "", "b": ""}}},
            (
                'nodes "n1" is forbidden: node "n1" is not allowed to set the following labels: '
                "k8s.io/a, node-role.kubernetes.io/y"
            ),
        ),
        (
            {"metadata": {"name": "n1"}, "spec": {"configSource": {}}},
            'nodes "n1" is forbidden: node "n1" is not allowed to create pods with a non-nil configSource',
        ),
    ],
)
def test_a_node_registers_itself_alone(api: Served, document: Json, expected: str) -> None:
    answer = as_node(api, "POST", NODES, document)
    assert (answer.code, answer.message) == (403, expected)
    if name := document["metadata"].get("name"):
        applied = json.dumps({"apiVersion": "v1", "kind": "Node", **document}).encode()
        answer = api.patch(f"{NODES}/{name}", applied, APPLY, token="node", query="fieldManager=x")
        assert (answer.code, answer.message) == (403, expected)
    own = {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux", "a": ""}}, "spec": {"taints": [TAINT]}}
    assert as_node(api, "POST", NODES, own).code == 201


def test_a_nodes_lease_is_its_own(api: Served) -> None:
    own = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}}
    assert as_node(api, "POST", LEASES, own).code == 201
    other = as_node(api, "POST", LEASES, {**own, "metadata": {"name": "n2"}})
    named = "can only access node lease with the same name as the requesting node"
    assert (other.code, other.message) == (403, f'leases.coordination.k8s.io "n2" is forbidden: {named}')
    elsewhere = as_node(api, "POST", LEASES.replace("kube-node-lease", "default"), own)
    assert elsewhere.message.endswith(': can only access leases in the "kube-node-lease" system namespace')
    assert as_node(api, "PATCH", f"{LEASES}/n1", {"spec": {"leaseDurationSeconds": 40}}, MERGE).code == 200
    for method in ("GET", "PATCH", "DELETE"):
        answer = as_node(api, method, f"{LEASES}/n2", {} if method == "PATCH" else None, MERGE)
        assert (answer.code, answer.message.endswith(f": {named}")) == (403, True)
    put = {**own, "metadata": {"name": "n2", "namespace": "kube-node-lease"}}
    assert as_node(api, "PUT", f"{LEASES}/n2", put).code == 403
    for query in ("", "watch=1"):
        answer = api.get(LEASES, token="node", query=query)
        assert answer.message.endswith(": can only get, create, update, patch, or delete a node lease")
    assert as_node(api, "GET", f"{LEASES}/n1").code == 200
    assert as_node(api, "DELETE", f"{LEASES}/n1").code == 200


@pytest.mark.parametrize(
    ("path", "query", "reason"),
    [
        (f"{NODES}/n1", "", None),
        (f"{NODES}/n2", "", "node 'n1' cannot read 'n2', only its own Node object"),
        (NODES, "", "node 'n1' cannot read all nodes, only its own Node object"),
        (NODES, "fieldSelector=metadata.name%3Dn1", None),
        (NODES, "fieldSelector=metadata.name%3Dn2", "node 'n1' cannot read 'n2', only its own Node object"),
        (NODES, "fieldSelector=metadata.name!%3Dn1", "node 'n1' cannot read all nodes, only its own Node object"),
        (NODES, "labelSelector=a", "node 'n1' cannot read all nodes, only its own Node object"),
        (f"{PODS}/mine", "", None),
        (f"{PODS}/other", "", "no relationship found between node 'n1' and this object"),
        (f"{PODS}/gone", "", "no relationship found between node 'n1' and this object"),
        ("/api/v1/pods", "fieldSelector=spec.nodeName%3Dn1", None),
        (PODS, "fieldSelector=spec.nodeName%3D%3Dn1,status.phase!%3DFailed", None),
        (PODS, "fieldSelector=metadata.name%3Dmine", None),
        (PODS, "", "can only list/watch pods with spec.nodeName field selector"),
        (PODS, "fieldSelector=spec.nodeName%3Dn2", "can only list/watch pods with spec.nodeName field selector"),
        (PODS, "fieldSelector=spec.nodeName!%3Dn1", "can only list/watch pods with spec.nodeName field selector"),
        (PODS, "fieldSelector=spec.host%3Dn1", "can only list/watch pods with spec.nodeName field selector"),
        (PODS, "fieldSelector=spec.nodeName", "can only list/watch pods with spec.nodeName field selector"),
        (
            PODS,
            "fieldSelector=spec.nodeName%3Dn2&fieldSelector=spec.nodeName%3Dn1",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (PODS, "fieldSelector=metadata.name%3Dother", "no relationship found between node 'n1' and this object"),
        ("/api/v1/namespaces/default/serviceaccounts/used", "", None),
        (
            "/api/v1/namespaces/default/serviceaccounts/unused",
            "",
            "no relationship found between node 'n1' and this object",
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            "",
            "can only create tokens for individual service accounts",
        ),
    ],
)
def test_a_node_reads_what_is_related_to_it(api: Served, node: Json, path: str, query: str, reason: str | None) -> None:
    del node
    api.pod("mine", node="n1", serviceAccountName="used")
    api.pod("other", node="n2", serviceAccountName="unused")
    for name in ("used", "unused"):
        assert api.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}}).code == 201
    answer = api.get(path, token="node", query=query)
    if reason is None:
        assert answer.code == 200
        assert b'"other"' not in answer.content
        return
    assert (answer.code, answer.message.rpartition(": ")[2]) == (403, reason)
    if path in (PODS, NODES):
        watched = api.get(path, token="node", query=f"{query}&watch=1&timeoutSeconds=1")
        assert (watched.code, watched.message.rpartition(": ")[2]) == (403, reason)


def test_a_node_tells_of_events_and_asks_about_others(api: Served, node: Json) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "mine"}
    event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": "r", "message": "m", "count": 1}
    events = "/api/v1/namespaces/default/events"
    assert as_node(api, "POST", events, event).code == 201
    assert as_node(api, "PATCH", f"{events}/e", {"count": 2}, MERGE).code == 200
    question = {"spec": {"user": "viewer", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
    answer = as_node(api, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", question)
    assert (answer.code, answer.body["status"]) == (201, {"allowed": True})
    del node


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/secrets/mine",
        "/api/v1/namespaces/default/configmaps/mine",
        "/api/v1/namespaces/default/serviceaccounts/mine",
    ],
)
def test_what_a_node_may_read_is_found_among_its_own_pods(
    api: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request looked at all pods of the namespace: 18 ms with 1,000 of them, in which no other was answered."""
    for number in range(30):
        api.pod(f"p{number}", node="n1" if number % 10 == 0 else "n2", ready=None, phase="Pending")
    listed: list[int] = []
    all_of = api.store.list

    def noted(*what: Any) -> Any:
        found = all_of(*what)
        listed.append(len(found[0]))
        return found

    monkeypatch.setattr(api.store, "list", noted)
    assert api.get(path, token="node").code == 403
    assert listed == [3]


def test_the_mirrors_of_a_node_do_not_fill_the_memory(api: Served, node: Json) -> None:
    large = container(env=[{"name": "A", "value": "x" * 500_000}])
    api.pod("of-the-cluster", **large)
    codes = []
    for number in range(69):
        made = as_node(api, "POST", PODS, mirror(node, metadata={"name": f"m{number}-n1"}, **large))
        codes.append(made.code)
    # 67 of 500 kB are just below 32 MiB, with what else a pod has just above.
    assert codes == [201] * 67 + [403] * 2
    assert 'node "n1" has mirror pods of more than 33554432 bytes' in made.message
    assert as_node(api, "DELETE", f"{PODS}/m0-n1").code == 200
