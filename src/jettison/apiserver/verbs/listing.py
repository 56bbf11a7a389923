"""Lists: whole, in chunks that all show the same moment, or as of an earlier version.

Which objects a list, a watch or a DELETE of a collection selects is decided by label and field selectors together.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from jettison.apiserver.http.requests import Request, integer, invalid_options
from jettison.apiserver.http.statuses import ContinuationExpired, bad_request
from jettison.apiserver.http.texts import parse_json
from jettison.apiserver.objects.resources import EVENTS, JOBS, NEW_EVENT_FIELDS, NEW_EVENTS, NODES, PODS, Resource
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, unsupported
from jettison.apiserver.storage.indexes import Lookup
from jettison.apiserver.storage.store import Store
from jettison.apiserver.storage.stored import Stored
from jettison.engine.labels.field_selectors import FieldSelector, parse_field_selector
from jettison.engine.labels.matching import FieldMatcher, LabelMatcher
from jettison.engine.labels.requirements import Operator
from jettison.engine.labels.selectors import LabelSelector, parse_label_selector
from jettison.engine.numbers.strconv import parse_uint, quote
from jettison.errors import ApiError, InputError
from jettison.values import frozen

Json = Mapping[str, Any]

# Fields that are called otherwise in a selector than in the object.
_ALIASES: Final = {
    (PODS, "spec.host"): "spec.nodeName",
    (JOBS, "status.successful"): "status.succeeded",
    (EVENTS, "source"): "source.component",
    **{(NEW_EVENTS, new): old for new, old in NEW_EVENT_FIELDS.items()},
}
# What a field counts as when the object does not have it; the others count as an empty text.
_ABSENT: Final = {
    (PODS, "spec.hostNetwork"): "false",
    (NODES, "spec.unschedulable"): "false",
    (JOBS, "status.successful"): "0",
}
_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")
_TEXTS: Final = {True: "true", False: "false", None: ""}

_EQUALITIES: Final = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9_-]")
_MATCHES: Final = ("Exact", "NotOlderThan", "")
_SHORT: Final = 500
_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105  no secret: the name of a format
# In a token: the rest of the list as it is now.
_ANY_VERSION: Final = -1
# What no key has between its slashes.
_STRAY_STEPS: Final = frozenset(("", ".", ".."))


@frozen
class Selection:
    """Both selectors must match. Without any, all objects do."""

    resource: Resource
    labels: LabelSelector
    fields: FieldSelector
    label_matcher: LabelMatcher
    field_matcher: FieldMatcher

    @property
    def is_everything(self) -> bool:
        """Whether there is no selector."""
        return self.labels.is_empty and self.fields.is_empty

    @property
    def name(self) -> str | None:
        """The one name that is selected, if it is one: then not all objects have to be searched."""
        for term in self.fields.terms:
            if term.field == "metadata.name" and not term.is_negated:
                return term.value
        return None

    @property
    def lookup(self) -> Lookup | None:
        """What all that is selected have in common, for an index: a field comes first, because few objects share it."""
        for term in self.fields.terms:
            if not term.is_negated and term.field not in _METADATA_FIELDS:
                return Lookup(f"field {term.field}", partial(field_text, self.resource, path=term.field), term.value)
        for each in self.labels.requirements or ():
            if each.operator in _EQUALITIES and len(each.values) == 1:
                return Lookup(f"label {each.key}", partial(_label, key=each.key), each.values[0])
        return None

    def takes(self, value: Json) -> bool:
        """Whether the object matches."""
        if not self.fields.is_empty:
            found = {field: field_text(self.resource, value, field) for field in self.field_matcher.fields}
            if not self.field_matcher.matches(found):
                return False
        return self.labels.is_empty or self.label_matcher.matches(value["metadata"].get("labels") or {})


def _select(resource: Resource, label_text: str, field_text: str) -> Selection:
    try:
        labels, fields = parse_label_selector(label_text), parse_field_selector(field_text)
    except InputError as error:
        raise bad_request(str(error)) from error
    return Selection(resource, labels, fields, LabelMatcher(labels), FieldMatcher(fields))


_remembered = lru_cache(maxsize=1024)(_select)


def select(resource: Resource, labels: str, fields: str) -> Selection:
    """Read both selectors; 400 for what makes no sense. Clients repeat themselves, so answers to short ones are kept:
    a long one takes megabytes.
    """
    return (_remembered if len(labels) + len(fields) <= _SHORT else _select)(resource, labels, fields)


def _unsupported(resource: Resource, field: str) -> str:
    if resource is JOBS:
        return f"field label {quote(field)} not supported for Job"
    if resource.selectable_fields != _METADATA_FIELDS:
        return f"field label not supported: {field}"
    known = ", ".join(quote(each) for each in resource.selectable_fields)
    return f"{quote(field)} is not a known field selector: only {known}"


def field_text(resource: Resource, value: Json, path: str) -> str:
    """The field as selectors see it."""
    found: Any = value
    for step in _ALIASES.get((resource, path), path).split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    if found is None:
        return _ABSENT.get((resource, path), "")
    if isinstance(found, bool):
        return _TEXTS[found]
    if isinstance(found, list):
        return ",".join(each.get("ip", "") if isinstance(each, Mapping) else str(each) for each in found)
    return found if isinstance(found, str) else str(found)


def _label(value: Json, key: str) -> str | None:
    return (value["metadata"].get("labels") or {}).get(key)


@frozen
class Page:
    """A part of a list. `token` is empty where it is the last, `remaining` unknown under a selector."""

    items: list[Stored]
    version: int
    token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """As a list carries it."""
        metadata: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def selection_of(request: Request, resource: Resource, check: Callable[[Request], object]) -> Selection:
    """What the query selects. As upstream, the other options are checked after the selectors were read, and before
    their fields are looked up."""
    selection = select(resource, request.parameter("labelSelector"), request.parameter("fieldSelector"))
    check(request)
    for term in selection.fields.terms:
        if term.field not in resource.selectable_fields:
            raise bad_request(_unsupported(resource, term.field))
    return selection


def check_list(request: Request, resource: Resource) -> tuple[int, Selection]:
    """The limit and the selection; 400 or 422 for a query that makes no sense."""
    integer(request, "timeoutSeconds")
    limit = integer(request, "limit") or 0
    return limit, selection_of(request, resource, _check_match)


async def read_page(
    store: Store, request: Request, resource: Resource, namespace: str | None, *, is_paged: bool = False
) -> Page:
    """What a GET of a collection shows. `is_paged`: as if it came in parts, also without a limit."""
    limit, selection = check_list(request, resource)
    if token := request.parameter("continue"):
        version, start = _read_token(token)
        if request.parameter("resourceVersion") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        version, items = _rest(store, resource, namespace, version, start)
        return _cut(items, selection, limit, version, namespace, lambda: items)
    version = resource_version(request)
    match = request.parameter("resourceVersionMatch")
    is_part = not match and version and (limit > 0 or is_paged)
    if resource.storage == EVENTS.storage or (selection.name is not None and (is_part or match == "Exact")):
        check_stored_version(store, version)
    await wait_for_version(store, version)
    # A part of a list as of a version is of exactly that version, unless the client says otherwise, or names an object.
    if match == "Exact" or (is_part and selection.name is None):
        items = store.list_at(resource, namespace, version)
        return _cut(items, selection, limit, version, namespace, lambda: items)
    items, now = store.list(resource, namespace, selection.lookup)
    # A client that takes any version gets all of it, as from Kubernetes' cache.
    limit = 0 if request.parameter("resourceVersion") == "0" else limit
    return _cut(items, selection, limit, now, namespace, lambda: store.list(resource, namespace)[0])


def _rest(
    store: Store, resource: Resource, namespace: str | None, version: int, start: str
) -> tuple[int, list[Stored]]:
    """What follows the parts that a client has, as of the version of these; or as it is now, when it asks for that."""
    if version < 0:
        items, version = store.list(resource, namespace)
    else:
        try:
            items = store.list_at(resource, namespace, version)
        except ApiError as error:
            raise ContinuationExpired(_encoded(_ANY_VERSION, start)) from error
    return version, [item for item in items if _place(item, namespace) >= start]


def _cut(
    items: list[Stored],
    selection: Selection,
    limit: int,
    version: int,
    namespace: str | None,
    everything: Callable[[], list[Stored]],
) -> Page:
    if not selection.is_everything:
        if (name := selection.name) is not None:
            items = [item for item in items if item.key[1] == name]
        items = [item for item in items if selection.takes(item.listed_object())]
    if limit <= 0 or len(items) < limit:
        return Page(items, version)
    shown = items[:limit]
    # A full page is followed by another one if there is any object left, whether or not it is selected.
    is_last = selection.name is not None or everything()[-1].key == shown[-1].key
    if len(items) == limit and (selection.is_everything or is_last):
        return Page(items, version)
    token = _token(shown[-1], namespace, version)
    return Page(shown, version, token, len(items) - limit if selection.is_everything else None)


async def wait_for_version(store: Store, version: int) -> None:
    """A client may have seen a later version, from a server that is gone; wait a little, then refuse."""
    deadline = asyncio.get_running_loop().time() + store.patience_seconds
    while version > store.version:
        if asyncio.get_running_loop().time() >= deadline:
            raise _too_new(version, store, retryAfterSeconds=1)
        await asyncio.sleep(0.05)


def check_stored_version(store: Store, version: int) -> None:
    """What Kubernetes reads from the store, not from a cache that lags behind it, is not waited for: events, or one
    object at a version.
    """
    if version > store.version:
        raise _too_new(version, store)


def _too_new(version: int, store: Store, **details: int) -> ApiError:
    message = f"Timeout: Too large resource version: {version}, current: {store.version}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(message, code=504, reason="Timeout", details={"causes": [cause], **details})


def resource_version(request: Request) -> int:
    """The version in the query; 0 where there is none, or any will do."""
    try:
        return watched_version(request)
    except ApiError as error:
        raise bad_request(f"invalid resource version: {error.message}") from error


def watched_version(request: Request) -> int:
    """As above, for a watch or a read of one object: upstream answers 500 to nonsense there."""
    text = request.parameter("resourceVersion")
    try:
        return parse_uint(text or "0")
    except InputError as error:
        raise ApiError(f"resourceVersion: Invalid value: {quote(text)}: {error}") from error


def _check_match(request: Request) -> None:
    match = request.parameter("resourceVersionMatch")
    mistakes: list[Mistake] = []
    if match:
        name = "resourceVersionMatch"
        if not request.parameter("resourceVersion"):
            mistakes.append(forbidden(name, f"{name} is forbidden unless resourceVersion is provided"))
        if request.parameter("continue"):
            mistakes.append(forbidden(name, f"{name} is forbidden when continue is provided"))
        if match not in _MATCHES:
            mistakes.append(unsupported(name, match, _MATCHES))
        elif match == "Exact" and request.parameter("resourceVersion") == "0":
            mistakes.append(forbidden(name, f'{name} "exact" is forbidden for resourceVersion "0"'))
    if request.parameter("sendInitialEvents"):
        mistakes.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if mistakes:
        raise invalid_options("ListOptions", mistakes)


def _token(last: Stored, namespace: str | None, version: int) -> str:
    """As Kubernetes makes it, so that tools which look inside find what they expect."""
    return _encoded(version, f"/{_place(last, namespace)}\0")


def _place(stored: Stored, namespace: str | None) -> str:
    """Its key within the list."""
    return stored.key[1] if namespace is not None else "/".join(filter(None, stored.key))


def _encoded(version: int, start: str) -> str:
    text = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": version, "start": start})
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode("ascii")


def _decoded(token: str) -> bytes:
    """Base64 without padding, refused in Go's words: where the first wrong byte is."""
    wrong = _NOT_BASE64.search(token)
    at = wrong.start() if wrong else len(token) - 1 if len(token) % 4 == 1 else -1
    if at >= 0:
        raise InputError(f"illegal base64 data at input byte {len(token[:at].encode('utf-8', 'replace'))}")
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


def _read_token(token: str) -> tuple[int, str]:
    """The version, negative for any, and where the rest begins: a key, which may be left off anywhere."""
    refused = "invalid continue token: continue key is not valid"
    try:
        found = parse_json(_decoded(token))
    except InputError as error:
        raise bad_request(f"{refused}: {error}") from error
    if not isinstance(found, dict) or found.get("v") != _TOKEN_VERSION:
        found_version = found.get("v", "") if isinstance(found, dict) else ""
        raise bad_request(f"{refused}: server does not recognize this encoded version {found_version}")
    version, start = found.get("rv"), found.get("start")
    if not isinstance(version, int) or version == 0:
        raise bad_request(f"{refused}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    if not isinstance(start, str) or not start:
        raise bad_request(f"{refused}: encoded start key empty (version meta.k8s.io/v1)")
    steps = start.removeprefix("/").split("/")
    if steps != [""] and not _STRAY_STEPS.isdisjoint(steps):
        raise bad_request(f"{refused}: {start}")
    return version, start.removeprefix("/")
