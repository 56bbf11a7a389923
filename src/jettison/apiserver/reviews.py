"""Questions about permissions, which clients ask by creating an object that is answered and never kept.

`kubectl auth can-i`, `auth can-i --list` and `auth whoami` live from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jettison.apiserver.auth import Authenticator, User, is_allowed, readable_paths
from jettison.apiserver.resources import Resource
from jettison.apiserver.roles import Access, Grant, grants
from jettison.apiserver.validation.mistakes import Mistake, invalid, refusal
from jettison.errors import ApiError

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
        case "SelfSubjectAccessReview":
            status = _verdict(asker, _access(resource, spec))
        case _:
            status = _verdict(_subject(resource, spec, known), _access(resource, spec))
    return {"metadata": {}, **review, "status": status}


def _subject(resource: Resource, spec: Json, known: Authenticator) -> User:
    name, groups = spec.get("user") or "", spec.get("groups") or []
    if not name and not groups:
        raise _refusal(resource, invalid("spec.user", "", "at least one of user or group must be specified"))
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


def _access(resource: Resource, spec: Json) -> Access:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if about is not None and path is None:
        return Access(about.get("verb") or "", **{key: about.get(key) or "" for key in _ATTRIBUTES})
    if path is not None and about is None:
        return Access(path.get("verb") or "", path=path.get("path") or "")
    why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    raise _refusal(resource, invalid("spec.resourceAttributes", about, why))


def _refusal(resource: Resource, mistake: Mistake) -> ApiError:
    return refusal(resource.group, resource.kind, "", [mistake])


def _rules_of(grant: Grant) -> Iterable[dict[str, Any]]:
    by_group: dict[str, list[str]] = {}
    for target in sorted(grant.resources):
        path, _, subresource = target.partition("/")
        plural, _, group = path.partition(".")
        shown = f"{plural}/{subresource}" if subresource else plural
        by_group.setdefault("*" if target == "*" else group, []).append(shown)
    for group, resources in by_group.items():
        yield {"verbs": sorted(grant.verbs), "apiGroups": [group], "resources": resources}
