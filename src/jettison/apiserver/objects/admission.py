"""Checks and defaults that depend on other objects: namespaces, priority classes, what must not be deleted."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from jettison.apiserver.http.statuses import forbidden, not_found
from jettison.apiserver.objects.pod_security import (
    check_namespace_labels,
    check_pod,
    is_significant,
    policy_of,
    warn_of,
    warn_of_pods,
)
from jettison.apiserver.objects.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Resource,
)
from jettison.apiserver.objects.runtime_classes import check_overhead, give_class
from jettison.apiserver.objects.validation.metadata import path_segment_name
from jettison.apiserver.objects.validation.pod.old_annotations import give_app_armor
from jettison.apiserver.storage.store import Store
from jettison.clock import Clock
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, InputError
from jettison.manifests.files.documents import SYSTEM_CLASSES
from jettison.manifests.pods import is_mirror

Json = dict[str, Any]

IMMORTAL_NAMESPACES: Final = ("default", "kube-public", "kube-system")
SYSTEM_NAMESPACES: Final = (*IMMORTAL_NAMESPACES, "kube-node-lease")
_TOLERATED_SECONDS: Final = 300
_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DEFAULT_POLICY: Final = "PreemptLowerPriority"
_DEFAULT_ACCOUNT: Final = "default"
_TOKEN_VOLUME: Final = "kube-api-access-"  # noqa: S105  a volume's name
TOKEN_DIRECTORY: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  a path
"""Where programs look for the token of their pod."""
# As Kubernetes asks for these; the odd seven tell them from others.
_TOKEN_SECONDS: Final = 3607


# Of a pod: what changes which containers it has, or what they are.
_CHECKED_PARTS: Final = ("", "ephemeralcontainers", "resize")
_TEMPLATED: Final = (REPLICATION_CONTROLLERS, REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS)


class Admission:
    """The rules that need the store."""

    def __init__(self, store: Store, clock: Clock, *, has_accounts: bool = False) -> None:
        self._store = store
        self._clock = clock
        # Whether a controller gives every namespace a `default` account. Without it no pod could have one.
        self._has_accounts = has_accounts

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

    def admit_new(self, resource: Resource, value: Json, name: str) -> list[str]:
        """Fill in what a new object gets from others, or refuse it by this name. What to warn of, whatever follows."""
        if resource is PODS:
            if self._has_accounts and not is_mirror(value):
                self._give_account(value, name)
            self._give_priority(value, name)
            add_default_tolerations(value["spec"])
            self._give_runtime_class(value["spec"], name)
            return give_app_armor(value)
        if resource is NODES:
            _taint_not_ready(value["spec"])
        elif resource is PRIORITY_CLASSES:
            self._check_default_class(value, name)
        return []

    def check_new(self, resource: Resource, value: Json, name: str, empties: Collection[str]) -> list[str]:
        """Refuse an object that is right in itself, or say what to warn of. `empties`: what its document had empty."""
        warnings = self._check_security(resource, value, None, "")
        if resource is PODS:
            with _forbidding(name):
                is_given = value["spec"].get("overhead") is not None or "spec.overhead" in empties
                check_overhead(value["spec"], self._runtime_class(value["spec"], name), is_given=is_given)
        return warnings

    def check_changed(self, resource: Resource, value: Json, old: Json, part: str) -> list[str]:
        """As above, for an object that is changed, or a part of it."""
        return self._check_security(resource, value, old, part)

    def _check_security(self, resource: Resource, value: Json, old: Json | None, part: str) -> list[str]:
        metadata = value["metadata"]
        if resource is NAMESPACES:
            level = check_namespace_labels(value, old) if not part else None
            if level is None:
                return []
            pods, _ = self._store.list(PODS, metadata["name"])
            return warn_of_pods(metadata["name"], level, [each.object for each in pods], self._clock)
        is_pod = resource is PODS and part in _CHECKED_PARTS
        template = (value.get("spec") or {}).get("template") if resource in _TEMPLATED and not part else None
        if not is_pod and template is None:
            return []
        found = self._store.head(NAMESPACES, "", metadata["namespace"])
        policy = policy_of(None if found is None else found.metadata.get("labels"))
        if not is_pod:
            return warn_of(policy, template or {})
        return check_pod(policy, value) if old is None or is_significant(value, old) else []

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

    def _give_runtime_class(self, spec: Json, name: str) -> None:
        if (found := self._runtime_class(spec, name)) is not None:
            with _forbidding(name):
                give_class(spec, found)

    def _runtime_class(self, spec: Json, name: str) -> Json | None:
        class_name = spec.get("runtimeClassName")
        if class_name is None:
            return None
        if not class_name:
            raise ApiError("resource name may not be empty")
        if wrong := list(path_segment_name(class_name)):
            # Upstream asks itself for the class, and this is no path to ask for.
            raise ApiError(f"invalid resource name {quote(class_name)}: [{' '.join(wrong)}]")
        found = self._store.head(RUNTIME_CLASSES, "", class_name)
        if found is None:
            raise forbidden(PODS, name, f"pod rejected: RuntimeClass {quote(class_name)} not found")
        return found.object

    def _give_account(self, pod: Json, name: str) -> None:
        """Kubernetes refuses a pod whose account is missing, also where the controller is about to make it; here
        `default` may still come: what needs a token of it waits on the node.
        """
        spec, namespace = pod["spec"], pod["metadata"]["namespace"]
        account = spec.setdefault("serviceAccountName", _DEFAULT_ACCOUNT)
        spec.setdefault("serviceAccount", account)
        found = self._store.head(SERVICE_ACCOUNTS, namespace, account)
        if found is None and account != _DEFAULT_ACCOUNT:
            why = f"serviceaccount {quote(account)} not found"
            raise forbidden(PODS, name, f"error looking up service account {namespace}/{account}: {why}")
        value = {} if found is None else found.object
        if value.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each["name"]} for each in value["imagePullSecrets"] if "name" in each]
        if spec.get("automountServiceAccountToken", value.get("automountServiceAccountToken", False)):
            _mount_token(spec)

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


@contextmanager
def _forbidding(name: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise forbidden(PODS, name, str(error)) from error


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


def _mount_token(spec: Json) -> None:
    """Show every container a token of the pod's account, in the volume that Kubernetes adds to every pod."""
    volumes = spec.get("volumes") or []
    known = (each["name"] for each in volumes if each["name"].startswith(_TOKEN_VOLUME))
    volume = next(known, "") or f"{_TOKEN_VOLUME}{secrets.token_hex(3)[:5]}"
    mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_DIRECTORY}
    is_needed = False
    for part in ("initContainers", "containers"):
        for container in spec.get(part) or ():
            mounts = container.get("volumeMounts") or []
            if not any(each.get("mountPath") == TOKEN_DIRECTORY for each in mounts):
                container["volumeMounts"] = [*mounts, mount]
                is_needed = True
    if is_needed and not any(each["name"] == volume for each in volumes):
        spec["volumes"] = [*volumes, {"name": volume, "projected": _token_source()}]


def _token_source() -> Json:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
        "defaultMode": 0o644,
    }


def _taint_not_ready(spec: Json) -> None:
    """Nothing is scheduled to a new node before the node lifecycle controller has seen it ready."""
    taints = spec.get("taints") or []
    if not any((each.get("key"), each.get("effect")) == (_NODE_TAINTS[0], "NoSchedule") for each in taints):
        spec["taints"] = [*taints, {"key": _NODE_TAINTS[0], "effect": "NoSchedule"}]


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
