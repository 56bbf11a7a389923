"""Checks and defaults that depend on other objects: namespaces, priority classes, what must not be deleted."""

from __future__ import annotations

from typing import Any, Final

from jettison.apiserver.http.statuses import forbidden, not_found
from jettison.apiserver.objects.resources import NAMESPACES, PODS, PRIORITY_CLASSES, Resource
from jettison.apiserver.storage.store import Store
from jettison.manifests.files.documents import SYSTEM_CLASSES

Json = dict[str, Any]

IMMORTAL_NAMESPACES: Final = ("default", "kube-public", "kube-system")
SYSTEM_NAMESPACES: Final = (*IMMORTAL_NAMESPACES, "kube-node-lease")
_TOLERATED_SECONDS: Final = 300
_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_POLICY: Final = "PreemptLowerPriority"


class Admission:
    """The rules that need the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        """Nothing is created in a namespace that does not exist, or is being deleted."""
        found = self._store.head(NAMESPACES, "", namespace)
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if "deletionTimestamp" in found.metadata:
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource, name, why, [cause])

    def admit_new(self, resource: Resource, value: Json, name: str) -> None:
        """Fill in what a new object gets from others, or refuse it by this name."""
        if resource is PODS:
            self._give_priority(value, name)
            add_default_tolerations(value["spec"])
        elif resource is PRIORITY_CLASSES:
            self._check_default_class(value, name)

    def admit_change(self, resource: Resource, value: Json, old: Json) -> None:
        """As above, for an object that is changed."""
        if resource is PODS:
            for key in ("priority", "preemptionPolicy"):
                if key not in value["spec"] and key in old["spec"]:
                    value["spec"][key] = old["spec"][key]
            add_default_tolerations(value["spec"])
        elif resource is PRIORITY_CLASSES:
            self._check_default_class(value, old["metadata"]["name"])

    def _give_priority(self, pod: Json, name: str) -> None:
        spec = pod["spec"]
        class_name = spec.get("priorityClassName", "")
        if class_name:
            found = self._store.head(PRIORITY_CLASSES, "", class_name)
            if found is None:
                raise forbidden(PODS, name, f"no PriorityClass with name {class_name} was found")
            chosen: Json | None = found.object
        else:
            chosen = self._default_class()
        priority, policy = 0, _DEFAULT_POLICY
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
            priority, policy = chosen["value"], chosen.get("preemptionPolicy", _DEFAULT_POLICY)
        if spec.get("priority", priority) != priority:
            raise forbidden(PODS, name, _surplus("integer value of priority", spec["priority"], priority))
        if spec.get("preemptionPolicy", policy) != policy:
            raise forbidden(PODS, name, _surplus("string value of PreemptionPolicy", spec["preemptionPolicy"], policy))
        spec["priority"], spec["preemptionPolicy"] = priority, policy

    def _default_class(self) -> Json | None:
        """Of two defaults, which only a race can make, the lower one."""
        classes, _ = self._store.list(PRIORITY_CLASSES)
        defaults = [each.object for each in classes if each.object.get("globalDefault")]
        return min(defaults, key=lambda each: int(each["value"]), default=None)

    def _check_default_class(self, value: Json, name: str) -> None:
        if not value.get("globalDefault"):
            return
        for each in self._store.list(PRIORITY_CLASSES)[0]:
            if each.object.get("globalDefault") and each.key[1] != name:
                why = f"PriorityClass {each.key[1]} is already marked as default. Only one default can exist"
                raise forbidden(PRIORITY_CLASSES, name, why)


def check_namespace_deletion(resource: Resource, name: str) -> None:
    """A cluster needs these namespaces."""
    if resource is NAMESPACES and name in IMMORTAL_NAMESPACES:
        raise forbidden(resource, name, "this namespace may not be deleted")


def check_class_deletion(resource: Resource, name: str) -> None:
    """A cluster needs these classes. Kubernetes checks this first, before the preconditions of the deletion."""
    if resource is PRIORITY_CLASSES and name in SYSTEM_CLASSES:
        raise forbidden(resource, name, "this is a system priority class and cannot be deleted")


def _surplus(what: str, given: object, computed: object) -> str:
    return (
        f"the {what} ({given}) must not be provided in pod spec; priority admission controller computed {computed} "
        "from the given PriorityClass name"
    )


def add_default_tolerations(spec: Json) -> None:
    """Five minutes on a node that is not ready or not reachable, unless the pod has such a toleration itself."""
    tolerations = spec.get("tolerations") or []
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
        for taint in _NODE_TAINTS
        if not any(
            each.get("key", "") in ("", taint) and each.get("effect", "") in ("", "NoExecute") for each in tolerations
        )
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]
