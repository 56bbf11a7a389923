"""May this user do that? 403 with the reason spelled out, in Kubernetes' words.

Two questions, as in Kubernetes. Before the body is read: does the role cover the verb on this resource (`judge`)? And
when the object is known: may this user change it in this way (`check_write`)?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final, NamedTuple

from jettison.apiserver.access.auth import User
from jettison.apiserver.access.node_restriction import NodeRestriction, StoredObjects
from jettison.apiserver.access.roles import Access, Grant, grants
from jettison.apiserver.http.statuses import refused
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError

Json = Mapping[str, Any]
Path = tuple[str, ...]

_OPEN_PATHS: Final = ("/livez", "/healthz", "/readyz", "/version")
# As Kubernetes writes them in rules: a star at the end is everything below.
_KNOWN_PATHS: Final = (
    *_OPEN_PATHS,
    "/livez/*",
    "/readyz/*",
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
)
# What the server writes itself whenever an object changes, or shows without keeping it.
_SERVERS: Final = frozenset(
    (("apiVersion",), ("kind",), *(("metadata", key) for key in ("resourceVersion", "generation", "managedFields")))
)
_DEEPEST_NAMED: Final = 2
_MOST_NAMED: Final = 10
_ABSENT: Final = object()


class Verdict(NamedTuple):
    """`reason` is why it is refused, or which part is allowed; it may be empty."""

    is_allowed: bool
    reason: str = ""


class Authorizer:
    """The roles, and the rules for nodes, which need to know the objects."""

    def __init__(self, objects: StoredObjects) -> None:
        self._nodes = NodeRestriction(objects)

    def judge(self, user: User, access: Access) -> Verdict:
        """Whether the role permits it and, for a node, whether the object is the node's own."""
        if not access.resource:
            return Verdict(_may_read_path(user, access))
        reason = ""
        if user.role == "node":
            reason = self._nodes.objection(user.node, access) if user.node else f"unknown node for user {_quoted(user)}"
        covering = [grant for grant in _covering(user, access) if not (reason and grant.own_only)]
        if not covering:
            return Verdict(False, reason)
        fields = _changeable(covering)
        return Verdict(True, f"only {', '.join(fields)} may be changed" if fields else "")

    def check(self, user: User, access: Access) -> None:
        """Raise the 403 of what `judge` does not permit."""
        verdict = self.judge(user, access)
        if not verdict.is_allowed:
            raise denied(user, access, verdict.reason)

    def check_write(self, user: User, access: Access, name: str, old: Json | None, new: Json | None) -> None:
        """403 where NodeRestriction forbids it. Without `old` the object is created, without `new` deleted."""
        if user.node and (why := self._nodes.refusal(user.node, access, old, new)):
            raise refused(access.group, access.resource, name, why)

    def check_eviction(self, user: User, access: Access, pod: Json) -> None:
        """As `check_write`, for a pod that is to be evicted."""
        if user.node and (why := self._nodes.eviction_refusal(user.node, pod)):
            raise refused(access.group, access.resource, access.name, why)

    def check_fields(self, user: User, access: Access, old: Json, new: Json) -> None:
        """403 where the role names fields and something else has changed. `new` is what is going to be stored.

        What counts is the object that comes out, so that it does not matter by which kind of patch it was made.
        """
        fields = _changeable(_covering(user, access))
        if not fields:
            return
        allowed = frozenset(tuple(field.split(".")) for field in fields)
        if changed := list(_changed((), old, new, allowed)):
            shown = ", ".join(changed[:_MOST_NAMED]) + (", …" if len(changed) > _MOST_NAMED else "")
            what = f"User {_quoted(user)} cannot {access.verb} {shown} of resource {_named(access)}"
            raise refused(
                access.group, access.resource, access.name, f"{what}: only {', '.join(fields)} may be changed"
            )


def _covering(user: User, access: Access) -> Iterator[Grant]:
    return (grant for grant in granted(user) if grant.covers(access))


def granted(user: User) -> tuple[Grant, ...]:
    """The grants of a user; one that is anonymous has none."""
    return grants(user.role) if user.is_known else ()


def _changeable(covering: Iterator[Grant] | list[Grant]) -> tuple[str, ...]:
    """The fields that may change; empty if all may, because one grant is for the whole object."""
    fields: tuple[str, ...] = ()
    for grant in covering:
        if not grant.fields:
            return ()
        fields += grant.fields
    return fields


def _changed(path: Path, old: Any, new: Any, fields: frozenset[Path]) -> Iterator[str]:
    """The paths that differ though they may not, named as far as `metadata.labels`.

    A path is its steps, because a key may have a dot in it.
    """
    if path in fields or path in _SERVERS or old == new:
        return
    leads_to_field = any(field[: len(path)] == path for field in fields)
    is_opened = leads_to_field or len(path) < _DEEPEST_NAMED
    found = [each for each in (old, new) if each is not _ABSENT]
    # An absent object counts as an empty one, but an empty object in its place is a change.
    if is_opened and all(isinstance(each, Mapping) for each in found) and (any(found) or leads_to_field):
        before, after = ({} if each is _ABSENT else each for each in (old, new))
        for key in sorted({*before, *after}):
            yield from _changed((*path, key), before.get(key, _ABSENT), after.get(key, _ABSENT), fields)
    else:
        yield ".".join(path)


def _may_read_path(user: User, access: Access) -> bool:
    if user.role == "admin":
        return True
    if access.verb not in ("get", "head", "options"):
        return False
    path = access.path.rstrip("/")
    return any(path == each or (each.endswith("*") and path.startswith(each[:-1])) for each in readable_paths(user))


def readable_paths(user: User) -> tuple[str, ...]:
    """The plain paths that the user may read. A viewer may scrape metrics, as Kubernetes' `system:monitoring` may."""
    if user.role == "viewer":
        return (*_KNOWN_PATHS, "/metrics")
    return _KNOWN_PATHS if user.is_known else _OPEN_PATHS


def denied(user: User, access: Access, reason: str = "") -> ApiError:
    """403 with what the user cannot do, and why."""
    why = f"{_denial(user, access)}: {reason}" if reason else _denial(user, access)
    if not access.resource:
        return ApiError(f"forbidden: {why}", code=403, reason="Forbidden", details={})
    return refused(access.group, access.resource, access.name, why)


def _denial(user: User, access: Access) -> str:
    if not access.resource:
        return escape(f"User {_quoted(user)} cannot {access.verb} path {quote(access.path)}", quote=False)
    return escape(f"User {_quoted(user)} cannot {access.verb} resource {_named(access)}", quote=False)


def _named(access: Access) -> str:
    resource = f"{access.resource}/{access.subresource}" if access.subresource else access.resource
    scope = f"in the namespace {quote(access.namespace)}" if access.namespace else "at the cluster scope"
    return f"{quote(resource)} in API group {quote(access.group)} {scope}"


def _quoted(user: User) -> str:
    return quote(user.name)
