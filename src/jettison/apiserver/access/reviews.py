"""Questions about permissions, which clients ask by creating an object that is answered and never kept.

`kubectl auth can-i`, `auth can-i --list` and `auth whoami` use these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jettison.apiserver.access.auth import Authenticator, User
from jettison.apiserver.access.authorization import Authorizer, granted, readable_paths
from jettison.apiserver.access.roles import Access, Grant
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, refusal
from jettison.engine.labels.field_selectors import FieldSelector, FieldTerm, parse_field_selector
from jettison.errors import InputError

Json = Mapping[str, Any]

_ATTRIBUTES = ("group", "resource", "subresource", "namespace", "name")


def answer_review(
    resource: Resource, review: Json, asker: User, known: Authenticator, authorizer: Authorizer
) -> dict[str, Any]:
    """The review with its status filled in. Its fields have the right types, and the asker may ask."""
    spec = review.get("spec") or {}
    match resource.kind:
        case "SelfSubjectReview":
            status = {"userInfo": _info(asker)}
        case "SelfSubjectRulesReview":
            status = _rules(asker)
        case kind:
            _check(kind, spec, review.get("metadata") or {}, resource.group)
            user = asker if kind == "SelfSubjectAccessReview" else _subject(spec, known)
            status = _verdict(authorizer, user, _access(spec))
    return {"metadata": {}, **review, "status": status}


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
