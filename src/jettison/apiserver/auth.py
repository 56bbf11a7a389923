"""Who is asking, and may he? Answers are Kubernetes' own: 401 for a wrong token, 403 with the reason spelled out.

A request without credentials is the user `system:anonymous`, as in Kubernetes, so it is told with 403 what it may not
do; only health and version are open to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jettison.apiserver.roles import Access, covering
from jettison.apiserver.tokens import TokenEntry
from jettison.manifests.pods import CONFIG_MIRROR

NODE_PREFIX = "system:node:"
_LEASE_NAMESPACE = "kube-node-lease"
_OPEN_PATHS = ("/healthz", "/readyz", "/version")
# As Kubernetes writes them in rules: a star at the end is everything below.
_KNOWN_PATHS = (*_OPEN_PATHS, "/livez", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_GROUPS = {"admin": ("system:masters",), "node": ("system:nodes",)}


@dataclass(frozen=True, slots=True)
class User:
    """Somebody the server knows, or `ANONYMOUS`; a `role` that is empty may do nothing."""

    name: str
    groups: tuple[str, ...]
    role: str

    @property
    def node(self) -> str:
        """The node this user speaks for; empty for people."""
        is_node = self.role == "node" and self.name.startswith(NODE_PREFIX)
        return self.name.removeprefix(NODE_PREFIX) if is_node else ""


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",), "")


class Authenticator:
    """The known tokens, by their hashes: a look-up by a secret would tell by its time how much of a guess was right."""

    def __init__(self, entries: Iterable[TokenEntry]) -> None:
        self._users = {_digest(entry.token): _user(entry) for entry in entries}

    def authenticate(self, authorization: str | None) -> User | None:
        """The user behind an Authorization header; None when it carries a token that is nobody's.

        Anything but a bearer token counts as no credentials at all, as it does in Kubernetes.
        """
        scheme, _, rest = (authorization or "").strip().partition(" ")
        token = rest.partition(" ")[0]
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        return self._users.get(_digest(token))

    def named(self, name: str) -> User | None:
        """The user of that name, for reviews of what somebody else may do."""
        return next((user for user in self._users.values() if user.name == name), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _user(entry: TokenEntry) -> User:
    groups = (*_GROUPS.get(entry.role, (f"jettison:{entry.role}s",)), *entry.groups, "system:authenticated")
    return User(entry.user, groups, entry.role)


def is_allowed(user: User, access: Access) -> bool:
    """Whether the role permits it, and the names too where a node speaks. Pods are checked by `node_refusal`."""
    if not access.resource:
        return _may_read_path(user, access)
    return any(not grant.own_only or _is_own(user, access) for grant in covering(user.role, access))


def _may_read_path(user: User, access: Access) -> bool:
    if user.role == "admin":
        return True
    if access.verb not in ("get", "head", "options"):
        return False
    path = access.path.rstrip("/")
    return any(path == each or (each.endswith("*") and path.startswith(each[:-1])) for each in readable_paths(user))


def readable_paths(user: User) -> tuple[str, ...]:
    """The plain paths that the user may read."""
    return _KNOWN_PATHS if user.role else _OPEN_PATHS


def _is_own(user: User, access: Access) -> bool:
    if access.resource == "pods":
        return True
    if access.resource == "leases":
        return access.namespace == _LEASE_NAMESPACE and access.name in (user.node, "")
    # The name of a node to be created stands in the body, `node_refusal` looks at it.
    return access.name == user.node or (access.verb == "create" and not access.name)


def denial(user: User, access: Access) -> str:
    """The sentence after `is forbidden: ` of a 403, or the whole one for a path."""
    if not access.resource:
        return f'User "{user.name}" cannot {access.verb} path "{access.path}"'
    resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    scope = f'in the namespace "{access.namespace}"' if access.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {access.verb} resource "{resource}" in API group "{access.group}" {scope}'


def node_refusal(
    user: User, access: Access, target: Mapping[str, Any], new: Mapping[str, Any] | None = None
) -> str | None:
    """Why a node may not write this object, or None; `target` is the stored object, or the new one for a create.

    A machine that was broken into must not be able to end the pods of another one.
    """
    if not user.node:
        return None
    name = (target.get("metadata") or {}).get("name")
    if access.resource == "nodes" and name != user.node:
        return f'node "{user.node}" is not allowed to modify node "{name}"'
    if access.resource == "leases" and name != user.node:
        return f'node "{user.node}" can only access node lease with the same name as the requesting node'
    if access.resource == "pods" and access.verb not in ("get", "list", "watch"):
        return _pod_refusal(user, access, target, new or target)
    return None


def _pod_refusal(user: User, access: Access, target: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """Nor may it make others believe in pods that nobody wants, or take its own out of their services and budgets."""
    if access.verb == "create" and not access.subresource and CONFIG_MIRROR not in _metadata_map(new, "annotations"):
        return f'pod does not have "{CONFIG_MIRROR}" annotation, node "{user.node}" can only create mirror pods'
    if (target.get("spec") or {}).get("nodeName") != user.node:
        doing = "update pod status for" if access.subresource else access.verb
        return f'node "{user.node}" can only {doing} pods with spec.nodeName set to itself'
    if access.subresource == "status" and _metadata_map(new, "labels") != _metadata_map(target, "labels"):
        return f'node "{user.node}" cannot update labels through pod status'
    return None


def _metadata_map(value: Mapping[str, Any], key: str) -> Mapping[str, str]:
    return (value.get("metadata") or {}).get(key) or {}
