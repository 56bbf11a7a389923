"""Questions about permissions, which clients ask by creating an object that is answered and never kept.

`kubectl auth can-i`, `auth can-i --list` and `auth whoami` live from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jettison.apiserver.auth import Authenticator, User, is_allowed, readable_paths
from jettison.apiserver.resources import Resource
from jettison.apiserver.roles import Access, Grant, grants
from jettison.apiserver.validation.mistakes import Mistake, invalid, refusal

Json = Mapping[str, Any]

_MASTERS = "system:masters"
_ATTRIBUTES = ("group", "resource", "subresource", "namespace", "name")


def answer_review(resource: Resource, review: Json, asker: User, known: Authenticator) -> dict[str, Any]:
    """The review with its status filled in. Its fields have the right types; who may ask was decided before."""
    spec = review.get("spec") or {}
    match resource.kind:
        case "SelfSubjectReview":
            status = {"userInfo": {"username": asker.name, "groups": list(asker.groups)}}
        case "SelfSubjectRulesReview":
            status = _rules(asker)
        case kind:
            _check(kind, spec, review.get("metadata") or {}, resource.group)
            user = asker if kind == "SelfSubjectAccessReview" else _subject(spec, known)
            status = _verdict(user, _access(spec))
    return {"metadata": {}, **review, "status": status}


def _check(kind: str, spec: Json, metadata: Json, group: str) -> None:
    """422, and Kubernetes has forgotten by then of which kind the question was."""
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


def _subject(spec: Json, known: Authenticator) -> User:
    name, groups = spec.get("user") or "", spec.get("groups") or []
    role = "admin" if _MASTERS in groups else ""
    subject = None if role else known.named(name)
    return subject or User(name, tuple(groups), role)


def _rules(asker: User) -> dict[str, Any]:
    paths = [{"verbs": ["get"], "nonResourceURLs": list(readable_paths(asker))}]
    if asker.role == "admin":
        paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    rules = [rule for grant in grants(asker.role) for rule in _rules_of(grant)]
    return {"resourceRules": rules, "nonResourceRules": paths, "incomplete": False}


def _verdict(user: User, access: Access) -> dict[str, Any]:
    """Without a reason: kubectl would print it behind its `no`, and scripts compare that word."""
    return {"allowed": is_allowed(user, access)}


def _access(spec: Json) -> Access:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes") or {}
    if about is not None:
        return Access(about.get("verb") or "", **{key: about.get(key) or "" for key in _ATTRIBUTES})
    return Access(path.get("verb") or "", path=path.get("path") or "")


def _rules_of(grant: Grant) -> Iterable[dict[str, Any]]:
    by_group: dict[str, list[str]] = {}
    for target in sorted(grant.resources):
        path, _, subresource = target.partition("/")
        plural, _, group = path.partition(".")
        shown = f"{plural}/{subresource}" if subresource else plural
        by_group.setdefault("*" if target == "*" else group, []).append(shown)
    for group, resources in by_group.items():
        yield {"verbs": sorted(grant.verbs), "apiGroups": [group], "resources": resources}
