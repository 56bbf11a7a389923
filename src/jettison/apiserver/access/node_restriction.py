"""What a node may touch: itself, its lease, and the pods that are bound to it.

A compromised machine must not reach the others. These are the rules of Kubernetes' Node authorizer
(`objection`) and of its admission plugin NodeRestriction (`refusal`), with their words, for what this API serves. One
is ours: a node does not lift its own cordon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from jettison.apiserver.access.roles import Access
from jettison.apiserver.http.statuses import not_found
from jettison.apiserver.objects.resources import NODES, PODS, Resource
from jettison.apiserver.storage.indexes import Lookup
from jettison.apiserver.storage.stored import Stored
from jettison.engine.labels.syntax import is_administrators_label
from jettison.engine.numbers.strconv import quote
from jettison.manifests.pods import CONFIG_MIRROR, is_mirror

Json = Mapping[str, Any]

_LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASES: Final = "leases.coordination.k8s.io"
_LEASE_VERBS: Final = ("get", "create", "update", "patch", "delete")
_ELSEWHERE: Final = f"can only access leases in the {quote(_LEASE_NAMESPACE)} system namespace"
_ANOTHERS: Final = "can only access node lease with the same name as the requesting node"

_PLAIN_VOLUMES: Final = (
    *("awsElasticBlockStore", "azureDisk", "cephfs", "cinder", "downwardAPI", "emptyDir", "fc", "flexVolume"),
    *("flocker", "gcePersistentDisk", "gitRepo", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk"),
    *("portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
_REFERRING_VOLUMES: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_REFERRING_SOURCES: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
# Bytes of the mirrors of one node, a rule of ours: 16,000 of usual size. Without it a node's token fills the memory.
_MOST_MIRRORED: Final = 32 * 1024 * 1024
# The same that lists with this field selector have.
_BY_NODE: Final = "field spec.nodeName"


class StoredObjects(Protocol):
    """As much of a store as is needed here."""

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """One object."""

    def list(
        self, resource: Resource, namespace: str | None = None, lookup: Lookup | None = None
    ) -> tuple[list[Stored], int]:
        """All of a namespace that satisfy the lookup."""

    def is_set_aside(self, resource: Resource, namespace: str, name: str) -> bool:
        """Whether it is there, and damaged."""


class NodeRestriction:
    """The rules. Each answers with the reason against, or with an empty text."""

    def __init__(self, objects: StoredObjects) -> None:
        self._objects = objects

    def objection(self, node: str, access: Access) -> str:
        """Why this node may not use the name or the selector of a request; verbs are checked by the role."""
        match access.qualified:
            case "pods" if not access.subresource:
                return self._pod_objection(node, access)
            case "nodes" if not access.subresource and access.verb in ("get", "list", "watch"):
                if not access.name:
                    return f"node '{node}' cannot read all nodes, only its own Node object"
                if access.name != node:
                    return f"node '{node}' cannot read '{access.name}', only its own Node object"
            case "serviceaccounts":
                return self._account_objection(node, access)
            case "secrets" | "configmaps":
                return self._configuration_objection(node, access)
            case _ if access.qualified == _LEASES:
                return _lease_objection(node, access)
        return ""

    def _pod_objection(self, node: str, access: Access) -> str:
        is_collection = access.verb in ("list", "watch")
        if access.verb != "get" and not is_collection:
            return ""
        if is_collection and any(
            term.field == "spec.nodeName" and term.value == node and not term.is_negated
            for term in access.selector.terms
        ):
            return ""
        if not access.name:
            return "can only list/watch pods with spec.nodeName field selector" if is_collection else _NAMELESS
        if self._objects.is_set_aside(PODS, access.namespace, access.name):
            # Its node is unknown. The node that runs it must be told that it is damaged, not that it is gone.
            return ""
        found = self._objects.get(PODS, access.namespace, access.name)
        return "" if found is not None and _node_of(found.object) == node else _unrelated(node)

    def _account_objection(self, node: str, access: Access) -> str:
        if access.verb == "get" and not access.subresource:
            if not access.namespace:
                return "can only read namespaced object of this type"
            if not access.name:
                return _NAMELESS
        elif access.verb != "create" or not access.name:
            return "can only create tokens for individual service accounts"
        elif access.subresource != "token":
            return "can only create token subresource of serviceaccount"
        is_used = any(
            pod["spec"].get("serviceAccountName") == access.name for pod in self._pods_of(node, access.namespace)
        )
        return "" if is_used else _unrelated(node)

    def _configuration_objection(self, node: str, access: Access) -> str:
        """A node reads, by their names, the secrets and config maps that its pods refer to."""
        if access.verb not in ("get", "list", "watch"):
            return "can only read resources of this type"
        if access.subresource:
            return "cannot read subresource"
        if not access.namespace:
            return "can only read namespaced object of this type"
        if not access.name:
            return _NAMELESS
        kind = "secret" if access.resource == "secrets" else "configMap"
        is_used = any(access.name in referred_names(pod["spec"], kind) for pod in self._pods_of(node, access.namespace))
        return "" if is_used else _unrelated(node)

    def _pods_of(self, node: str, namespace: str) -> Iterator[Json]:
        """Without mirrors: the node writes them itself, and could grant itself any account or secret.

        By the index of lists: to look at all pods took 18 ms of every such request with 1,000 pods, and 30 clients of
        one node held up all others for half a second.
        """
        pods, _ = self._objects.list(PODS, namespace, Lookup(_BY_NODE, _node_of, node))
        return (each.object for each in pods if not is_mirror(each.object))

    def token_refusal(self, node: str, user: str, namespace: str, spec: Json) -> str:
        """Why the node may not have this token: it must be for a pod of its own, and for an audience of that pod."""
        reference = spec.get("boundObjectRef") or {}
        if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
            return "node requested token not bound to a pod"
        uid = reference.get("uid", "")
        if not uid:
            return "node requested token with a pod binding without a uid"
        found = self._objects.get(PODS, namespace, reference["name"])
        if found is None:
            raise not_found(PODS, reference["name"])
        if uid != found.metadata["uid"]:
            why = f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            return f"{why}The object might have been deleted and then recreated"
        if _node_of(found.object) != node:
            return "node requested token bound to a pod scheduled on a different node"
        audiences = spec.get("audiences") or [""]
        if len(audiences) > 1:
            return "node may only request 0 or 1 audiences"
        if audiences[0] not in _token_audiences(found.object["spec"]):
            return f"{user} is not authorized to request tokens for audience {quote(audiences[0])}"
        return ""

    def refusal(self, node: str, access: Access, old: Json | None, new: Json | None) -> str:
        """Why the node may not write this. Without `old` it creates the object, without `new` it deletes it."""
        match access.qualified:
            case "pods":
                return self._pod_refusal(node, access, old, new)
            case "nodes":
                return _node_refusal(node, old, new)
            case _ if access.qualified == _LEASES:
                if access.namespace != _LEASE_NAMESPACE:
                    return _ELSEWHERE
                return "" if _name(old or new) == node else _ANOTHERS
        return ""

    def eviction_refusal(self, node: str, pod: Json) -> str:
        """Why the node may not evict this pod."""
        return "" if _node_of(pod) == node else f"node {node} can only evict pods with spec.nodeName set to itself"

    def _pod_refusal(self, node: str, access: Access, old: Json | None, new: Json | None) -> str:
        if access.subresource == "status" and old is not None and new is not None:
            return _status_refusal(node, old, new)
        if access.subresource:
            shown = quote(access.subresource)
            return f"unexpected pod subresource {shown}, only 'status' and 'eviction' are allowed"
        if old is None:
            return self._mirror_refusal(node, new or {})
        if new is not None:
            return f'unexpected operation "UPDATE", node {quote(node)} can only create and delete mirror pods'
        if _node_of(old) != node:
            return f"node {quote(node)} can only delete pods with spec.nodeName set to itself"
        return ""

    def _mirror_refusal(self, node: str, pod: Json) -> str:
        """A controller that owned a mirror would count it among its pods, and end another one for it."""
        this = f"node {quote(node)}"
        if not is_mirror(pod):
            return f"pod does not have {quote(CONFIG_MIRROR)} annotation, {this} can only create mirror pods"
        if _node_of(pod) != node:
            return f"{this} can only create pods with spec.nodeName set to itself"
        owners = pod["metadata"].get("ownerReferences") or ()
        if len(owners) > 1:
            return f"{this} can only create pods with a single owner reference set to itself"
        owner = owners[0] if owners else {}
        if [owner.get(key) for key in ("apiVersion", "kind", "name")] != ["v1", "Node", node]:
            return f"{this} can only create pods with an owner reference set to itself"
        if not owner.get("controller"):
            return f"{this} can only create pods with a controller owner reference set to itself"
        if owner.get("blockOwnerDeletion"):
            return f"{this} must not set blockOwnerDeletion on an owner reference"
        found = self._objects.get(NODES, "", node)
        if found is None:
            raise not_found(NODES, node)
        if owner.get("uid") != found.metadata["uid"]:
            return f"node {node} UID mismatch: expected {owner.get('uid', '')} got {found.metadata['uid']}"
        if problem := _unknown_source(pod["spec"]):
            return f"error checking mirror pod for API references: {problem}"
        if referred := next(_referred(pod["spec"]), ""):
            return f"{this} can not create pods that reference {referred}"
        pods, _ = self._objects.list(PODS, None, Lookup(_BY_NODE, _node_of, node))
        if sum(each.size for each in pods if is_mirror(each.object)) > _MOST_MIRRORED:
            return f"{this} has mirror pods of more than {_MOST_MIRRORED} bytes"
        return ""


_NAMELESS: Final = "No Object name found"


def _unrelated(node: str) -> str:
    return f"no relationship found between node '{node}' and this object"


def _lease_objection(node: str, access: Access) -> str:
    if access.verb not in _LEASE_VERBS:
        return "can only get, create, update, patch, or delete a node lease"
    if access.namespace != _LEASE_NAMESPACE:
        return _ELSEWHERE
    # The name of a lease to be created stands in the body: `refusal` looks at it.
    return "" if access.verb == "create" or access.name == node else _ANOTHERS


def _status_refusal(node: str, old: Json, new: Json) -> str:
    this = f"node {quote(node)}"
    if _node_of(old) != node:
        return f"{this} can only update pod status for pods with spec.nodeName set to itself"  # noqa: S608  no SQL
    if _part(new, "labels") != _part(old, "labels"):
        return f"{this} cannot update labels through pod status"
    status, former = new.get("status") or {}, old.get("status") or {}
    if (status.get("resourceClaimStatuses") or []) != (former.get("resourceClaimStatuses") or []):
        return f"{this} cannot update resource claim statues"
    if status.get("extendedResourceClaimStatus") != former.get("extendedResourceClaimStatus"):
        return f"{this} cannot update extended resource claim status"
    return ""


def _node_refusal(node: str, old: Json | None, new: Json | None) -> str:
    this, name = f"node {quote(node)}", _name(old or new)
    if name != node:
        return f"{this} is not allowed to modify node {quote(name)}"
    if new is None:
        return ""
    spec, former = new.get("spec") or {}, (old or {}).get("spec") or {}
    config = spec.get("configSource")
    labels = sorted(_forbidden_labels(_part(new, "labels"), _part(old or {}, "labels")))
    if old is None:
        if config is not None:
            return f"{this} is not allowed to create pods with a non-nil configSource"
        return f"{this} is not allowed to set the following labels: {', '.join(labels)}" if labels else ""
    if config is not None and config != former.get("configSource"):
        return f"{this} is not allowed to update configSource to a new non-nil configSource"
    if (spec.get("taints") or []) != (former.get("taints") or []):
        return f"{this} is not allowed to modify taints"
    if bool(spec.get("unschedulable")) != bool(former.get("unschedulable")):
        return f"{this} is not allowed to modify spec.unschedulable"
    if _owners(new) != _owners(old):
        return f"{this} is not allowed to modify ownerReferences"
    return f"is not allowed to modify labels: {', '.join(labels)}" if labels else ""


def _forbidden_labels(new: Json, old: Json) -> Iterator[str]:
    """Changed labels by which administrators choose nodes for pods."""
    changed = (label for label in {*new, *old} if new.get(label) != old.get(label))
    return (label for label in changed if is_administrators_label(label))


def _unknown_source(spec: Json) -> str:
    for volume in spec.get("volumes") or ():
        kinds = {key for key, value in volume.items() if key != "name" and value is not None}
        if not kinds <= {*_PLAIN_VOLUMES, *_REFERRING_VOLUMES, "projected"}:
            return f"unknown volume type for volume  {quote(volume.get('name', ''))}"
        for source in (volume.get("projected") or {}).get("sources") or ():
            if not {*_REFERRING_SOURCES, "downwardAPI"} & {key for key, value in source.items() if value is not None}:
                return f"unknown source for projected volume {quote(volume.get('name', ''))}"
    return ""


def _referred(spec: Json) -> Iterator[str]:
    """The kinds of objects that the pod refers to: a node may read those, so it must not choose them."""
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        yield "serviceaccounts"
    volumes = spec.get("volumes") or ()
    if any(each.get("name") for each in spec.get("imagePullSecrets") or ()) or _has_variables(spec, "secret"):
        yield "secrets"
    if any(_secret_of(key, source) for each in volumes for key, source in each.items() if isinstance(source, Mapping)):
        yield "secrets"
    if _has_variables(spec, "configMap") or any((each.get("configMap") or {}).get("name") for each in volumes):
        yield "configmaps"
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for volume in volumes:
        yield from (what for key, what in _REFERRING_VOLUMES.items() if volume.get(key) is not None)
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from (what for key, what in _REFERRING_SOURCES.items() if source.get(key) is not None)


def referred_names(spec: Json, kind: str) -> set[str]:
    """The names of all objects of this kind, `secret` or `configMap`, that a pod is to be given."""
    names = {each.get("name") for each in spec.get("imagePullSecrets") or ()} if kind == "secret" else set()
    for volume in spec.get("volumes") or ():
        if kind == "configMap":
            names.add((volume.get("configMap") or {}).get("name"))
        else:
            names |= {_secret_of(key, source) for key, source in volume.items() if isinstance(source, Mapping)}
        sources = (volume.get("projected") or {}).get("sources") or ()
        names |= {(each.get(kind) or {}).get("name") for each in sources}
    for container in (each for part in _CONTAINERS for each in spec.get(part) or ()):
        names |= {(each.get(f"{kind}Ref") or {}).get("name") for each in container.get("envFrom") or ()}
        variables = ((each.get("valueFrom") or {}) for each in container.get("env") or ())
        names |= {(each.get(f"{kind}KeyRef") or {}).get("name") for each in variables}
    return {name for name in names if name}


def _token_audiences(spec: Json) -> set[str]:
    """Of the tokens that the pod's volumes ask for; empty where it is the server's own."""
    sources = (
        each for volume in spec.get("volumes") or () for each in (volume.get("projected") or {}).get("sources") or ()
    )
    tokens = [each["serviceAccountToken"] for each in sources if each.get("serviceAccountToken") is not None]
    return {each.get("audience", "") for each in tokens}


def _has_variables(spec: Json, kind: str) -> bool:
    for container in (each for part in _CONTAINERS for each in spec.get(part) or ()):
        if any((each.get(f"{kind}Ref") or {}).get("name") for each in container.get("envFrom") or ()):
            return True
        sources = ((each.get("valueFrom") or {}).get(f"{kind}KeyRef") for each in container.get("env") or ())
        if any((source or {}).get("name") for source in sources):
            return True
    return False


def _secret_of(kind: str, source: Json) -> str:
    """The name of the secret with which a volume is mounted."""
    reference = source.get("nodePublishSecretRef" if kind == "csi" else "secretRef") or {}
    found: str = source.get("secretName") or reference.get("name") or ""
    return found


def _owners(value: Json) -> list[Any]:
    return value["metadata"].get("ownerReferences") or []


def _part(value: Json, key: str) -> Mapping[str, str]:
    return (value.get("metadata") or {}).get(key) or {}


def _name(value: Json | None) -> str:
    name: str = ((value or {}).get("metadata") or {}).get("name") or ""
    return name


def _node_of(pod: Json) -> str:
    node: str = (pod.get("spec") or {}).get("nodeName") or ""
    return node
