"""May this user do that? 403 with the reason spelled out, in Kubernetes' words.

Two questions, as in Kubernetes. Before the body is read: does the role cover the verb on this resource (`judge`)? And
when the object is known: may this user change it in this way (`check_write`)?

Clients ask such questions, too, by creating a review, an object that is answered and never kept: `kubectl auth can-i`,
`auth can-i --list` and `auth whoami`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final, NamedTuple

import msgspec

from jettison.apiserver.access.account_tokens import AUDIENCE
from jettison.apiserver.access.auth import Authenticator, User
from jettison.apiserver.access.node_restriction import NodeRestriction, StoredObjects
from jettison.apiserver.access.roles import Access, Grant, grants
from jettison.apiserver.http.statuses import bad_request, refused, too_large
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, refusal
from jettison.engine.labels.field_selectors import FieldSelector, FieldTerm, parse_field_selector
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, InputError

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
_encode = msgspec.json.Encoder().encode

_ATTRIBUTES = ("group", "resource", "subresource", "namespace", "name")
_MOST_KNOWN: Final = 512
# A review may ask about a resource with a name of any length. Such answers are not kept.
_LONGEST_KNOWN: Final = 200


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
        permit = _permit(user, access)
        if reason:
            permit = _permit_of(tuple(grant for grant in permit.grants if not grant.own_only))
        return permit.verdict if permit.grants else Verdict(False, reason)

    def check(self, user: User, access: Access) -> None:
        """Raise the 403 of what `judge` does not permit."""
        verdict = self.judge(user, access)
        if not verdict.is_allowed:
            raise denied(user, access, verdict.reason)

    def check_write(self, user: User, access: Access, name: str, old: Json | None, new: Json | None) -> None:
        """403 where NodeRestriction forbids it. Without `old` the object is created, without `new` deleted."""
        if user.node and (why := self._nodes.refusal(user.node, access, old, new)):
            raise refused(access.group, access.resource, name, why)

    def check_token(self, user: User, access: Access, spec: Json) -> None:
        """As `check_write`, for a token that is asked for. Tokens without audiences of their own are the server's."""
        if user.node and (why := self._nodes.token_refusal(user.node, user.name, access.namespace, spec)):
            raise refused(access.group, access.resource, access.name, why)

    def check_eviction(self, user: User, access: Access, pod: Json) -> None:
        """As `check_write`, for a pod that is to be evicted."""
        if user.node and (why := self._nodes.eviction_refusal(user.node, pod)):
            raise refused(access.group, access.resource, access.name, why)

    def most_bytes(self, user: User, access: Access) -> int | None:
        """Of a body of such a request; None: as many as of any."""
        return _permit(user, access).most_bytes

    def is_limited(self, user: User, access: Access) -> bool:
        """Whether the user may change some fields only."""
        return bool(_permit(user, access).fields)

    def check_fields(self, user: User, access: Access, old: Json, new: Json) -> None:
        """403 where the role names fields and something else has changed. `new` is what is going to be stored.

        What counts is the object that comes out, so that it does not matter by which kind of patch it was made. And 413
        where these fields, or the object without them, become larger than such a request may be: a thousand small
        patches would make an object that costs every reader as much as a large one.
        """
        permit = _permit(user, access)
        fields, most_bytes = permit.fields, permit.most_bytes
        if most_bytes is not None and _size(new, fields) > max(most_bytes, _size(old, fields)):
            raise too_large(most_bytes)
        if not fields:
            return
        allowed = frozenset(tuple(field.split(".")) for field in fields)
        if changed := list(_changed((), old, new, allowed)):
            shown = ", ".join(changed[:_MOST_NAMED]) + (", …" if len(changed) > _MOST_NAMED else "")
            what = f"User {_quoted(user)} cannot {access.verb} {shown} of resource {_named(access)}"
            raise refused(
                access.group, access.resource, access.name, f"{what}: only {', '.join(fields)} may be changed"
            )


class _Permit(NamedTuple):
    """The grants that cover an access, and what follows from all of them together."""

    grants: tuple[Grant, ...]
    # The fields that may change; empty if all may, because one grant is for the whole object.
    fields: tuple[str, ...]
    most_bytes: int | None
    verdict: Verdict


def _permit(user: User, access: Access) -> _Permit:
    """Remembered: a client asks for the same few things all the time, and every request asks twice."""
    names = access.verb, access.group, access.resource, access.subresource
    what = user.role, user.is_known, names
    permit = _known_permits.get(what)
    if permit is None:
        asked = Access(*names)
        permit = _permit_of(tuple(grant for grant in granted(user) if grant.covers(asked)))
        if sum(map(len, names)) < _LONGEST_KNOWN:
            if len(_known_permits) == _MOST_KNOWN:
                _known_permits.clear()
            _known_permits[what] = permit
    return permit


_known_permits: dict[tuple[str, bool, tuple[str, str, str, str]], _Permit] = {}


def _permit_of(covering: tuple[Grant, ...]) -> _Permit:
    is_whole = any(not grant.fields for grant in covering)
    fields = () if is_whole else tuple(field for grant in covering for field in grant.fields)
    limits = [grant.most_bytes for grant in covering if grant.most_bytes is not None]
    most_bytes = max(limits) if limits and len(limits) == len(covering) else None
    verdict = Verdict(bool(covering), f"only {', '.join(fields)} may be changed" if fields else "")
    return _Permit(covering, fields, most_bytes, verdict)


def granted(user: User) -> tuple[Grant, ...]:
    """The grants of a user; one that is anonymous has none."""
    return grants(user.role) if user.is_known else ()


def _size(value: Json, fields: tuple[str, ...]) -> int:
    """Bytes of these fields, or of all but what the server adds."""
    if not fields:
        kept = {key: each for key, each in value["metadata"].items() if key != "managedFields"}
        return len(_encode({**value, "metadata": kept}))
    size = 0
    for field in fields:
        found: Any = value
        for step in field.split("."):
            found = found.get(step) if isinstance(found, Mapping) else None
        size += len(_encode(found))
    return size


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


def answer_review(
    resource: Resource, review: Json, asker: User, known: Authenticator, authorizer: Authorizer, now: str
) -> dict[str, Any]:
    """The review with its status filled in. Its fields have the right types, and the asker may ask."""
    spec = review.get("spec") or {}
    match resource.kind:
        case "SelfSubjectReview":
            review = {"metadata": {"creationTimestamp": now}}
            status = {"userInfo": _info(asker)}
        case "TokenReview":
            status = _token_status(spec, known)
        case "SelfSubjectRulesReview":
            if not spec.get("namespace"):
                raise bad_request("no namespace on request")
            # The answer does not repeat what was asked.
            review = {"metadata": {}, "spec": {}}
            status = _rules(asker)
        case kind:
            _check(kind, spec, review.get("metadata") or {}, resource.group)
            user = asker if kind == "SelfSubjectAccessReview" else _subject(spec, known)
            status = _verdict(authorizer, user, _access(spec))
    return {"metadata": {}, **review, "status": status}


def _token_status(spec: Json, known: Authenticator) -> dict[str, Any]:
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    found = known.review(spec["token"], spec.get("audiences") or (AUDIENCE,))
    if found is None:
        return {"user": {}, "error": "invalid bearer token"}
    user, audiences = found
    return {"authenticated": True, "user": _info(user), "audiences": list(audiences)}


def _check(kind: str, spec: Json, metadata: Json, group: str) -> None:
    """422, without a kind, as Kubernetes answers."""
    if mistakes := list(_mistakes(kind, spec, metadata)):
        raise refusal(group, "", "", mistakes)


def _mistakes(kind: str, spec: Json, metadata: Json) -> Iterator[Mistake]:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    is_local = kind == "LocalSubjectAccessReview"
    # The path stands in the message as in Go's memory, where names of fields begin with a capital.
    in_memory = None if path is None else {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
    if about is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        yield invalid("spec.nonResourceAttributes", in_memory, why)
    if about is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield invalid("spec.resourceAttributes", None, why)
    if kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        yield invalid("spec.user", "", "at least one of user or group must be specified")
    if any(
        value for key, value in metadata.items() if key != "managedFields" and not (is_local and key == "namespace")
    ):
        yield invalid("metadata", metadata, "must be empty except for namespace" if is_local else "must be empty")
    if is_local and about is not None and about.get("namespace", "") != metadata.get("namespace", ""):
        where = "spec.resourceAttributes.namespace"
        yield invalid(where, about.get("namespace", ""), "must match metadata.namespace")
    if is_local and path is not None:
        yield invalid("spec.nonResourceAttributes", in_memory, "disallowed on this kind of request")


def _info(user: User) -> dict[str, Any]:
    shown: dict[str, Any] = {"username": user.name}
    if user.uid:
        shown["uid"] = user.uid
    shown["groups"] = list(user.groups)
    if user.extra:
        shown["extra"] = {key: list(values) for key, values in user.extra}
    return shown


def _subject(spec: Json, known: Authenticator) -> User:
    return known.subject(User(spec.get("user") or "", tuple(spec.get("groups") or ()), ""))


def _rules(asker: User) -> dict[str, Any]:
    """What a rule of this form cannot express goes into `evaluationError`, which kubectl prints as a warning."""
    paths = [{"verbs": ["get"], "nonResourceURLs": list(readable_paths(asker))}]
    if asker.role == "admin":
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    rules: list[dict[str, Any]] = []
    unsaid = []
    for grant in granted(asker):
        if grant.own_only:
            continue
        rules += _rules_of(grant)
        if grant.without:
            unsaid.append(f"{', '.join(sorted(grant.verbs))} does not cover {', '.join(sorted(grant.without))}")
        if grant.fields:
            verbs, resources = ", ".join(sorted(grant.verbs)), ", ".join(sorted(grant.resources))
            unsaid.append(f"{verbs} of {resources} may change only {', '.join(grant.fields)}")
    if asker.role == "node":
        unsaid = ["node authorizer does not support user rule resolution"]
    status: dict[str, Any] = {"resourceRules": rules, "nonResourceRules": paths, "incomplete": bool(unsaid)}
    return {**status, "evaluationError": "; ".join(unsaid)} if unsaid else status


def _verdict(authorizer: Authorizer, user: User, access: Access) -> dict[str, Any]:
    """A refusal has no reason: kubectl would print it after `no`, and scripts compare that word."""
    verdict = authorizer.judge(user, access)
    if verdict.is_allowed and verdict.reason:
        return {"allowed": True, "reason": verdict.reason}
    return {"allowed": verdict.is_allowed}


def _access(spec: Json) -> Access:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes") or {}
    if about is not None:
        names = {key: about.get(key) or "" for key in _ATTRIBUTES}
        return Access(about.get("verb") or "", **names, selector=_selector(about.get("fieldSelector") or {}))
    return Access(path.get("verb") or "", path=path.get("path") or "")


def _selector(given: Json) -> FieldSelector:
    """A selector that is not understood narrows nothing, so that the answer is no in doubt."""
    try:
        parsed = parse_field_selector(given.get("rawSelector") or "")
    except InputError:
        parsed = FieldSelector()
    terms = [
        FieldTerm(each.get("key") or "", each["values"][0])
        for each in given.get("requirements") or ()
        if each.get("operator") == "In" and len(each.get("values") or ()) == 1
    ]
    return FieldSelector((*parsed.terms, *terms))


def _rules_of(grant: Grant) -> Iterable[dict[str, Any]]:
    by_group: dict[str, list[str]] = {}
    for target in sorted(grant.resources):
        path, _, subresource = target.partition("/")
        plural, _, group = path.partition(".")
        shown = f"{plural}/{subresource}" if subresource else plural
        by_group.setdefault("*" if target == "*" else group, []).append(shown)
    for group, resources in by_group.items():
        yield {"verbs": sorted(grant.verbs), "apiGroups": [group], "resources": resources}
