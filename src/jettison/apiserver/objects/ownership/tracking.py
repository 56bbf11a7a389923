"""What a write does to the entries of an object, and what server-side apply makes of an object.

The rules are Kubernetes'. A write owns what it changes and takes it from others. An apply owns what it says, whether
or not that changes anything; where another client has set one of its fields to something else, it is a conflict, unless
the apply is forced. What an apply said the last time and does not say now is removed, unless another client owns it.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, Final

from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.ownership.field_sets import (
    FieldSet,
    difference,
    intersection,
    paths,
    union,
    without,
)
from jettison.apiserver.objects.ownership.records import (
    APPLY,
    UPDATE,
    Entries,
    Entry,
    entries_of,
    entry,
    known_entries,
    sorted_entries,
)
from jettison.apiserver.objects.ownership.walks import (
    ABSENT,
    Comparison,
    Spot,
    compare,
    cut,
    fields_of,
    merge,
    mistakes_in,
    spot_of,
    with_named,
)
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.objects.schema import empty_struct, names_no_label
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, Conflict, InputError
from jettison.values import frozen

Json = dict[str, Any]

_MOST_MISTAKES: Final = 100
_MOST_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"
_BEFORE: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_LONGEST_MANAGER: Final = 128
# What belongs to the server, or names the object.
_STRIPPED: Final[FieldSet] = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        **{
            f"f:{key}": {}
            for key in ("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "resourceVersion")
        },
        "f:managedFields": {},
    },
}


@frozen
class Writer:
    """The client that writes, the part of the object that it writes, and when."""

    resource: Resource
    manager: str
    subresource: str
    time: str


def manager_name(given: str, agent: str) -> str:
    """As the client calls itself, or by the beginning of its user agent."""
    name = given or "".join(each for each in agent.partition("/")[0] if each.isprintable())[:_LONGEST_MANAGER]
    return name or "unknown"


def blank(resource: Resource) -> Json:
    """An object of the kind of which nothing is known: what a new one is compared with."""
    value = empty_struct(resource.struct)
    value["metadata"] = {}
    return value


def track(writer: Writer, entries: Entries, old: Json, new: Json, given: Any = None) -> Entries:
    """The entries after a write. `given` is what the client says that they were: with a whole object, it may."""
    if given is not None and not writer.subresource:
        if _is_reset(given):
            entries = ()
        elif listed := entries_of(given):
            entries = listed
    if not entries and old["metadata"].get("uid"):
        # It was made when nothing was tracked.
        return ()
    entries = tuple(known_entries(entries, writer.resource.group).values())
    try:
        found = _compare(writer, old, _without_empty_labels(new) if names_no_label(new) else new)
    except InputError:
        # Elements that cannot be told apart have no owners, and nothing else in their object has.
        return ()
    taken = union(found.modified, found.added)
    kept: list[Entry] = []
    own: FieldSet = {}
    identity = _identity(writer, UPDATE)
    changed = _stripped(taken)
    for each in entries:
        fields = difference(difference(each.field_set, taken), found.removed) if taken or found.removed else None
        if each.identity == identity:
            own = each.field_set if fields is None else fields
            if not changed and own:
                kept.append(_with(each, own))
        elif fields is None:
            kept.append(each)
        elif fields:
            kept.append(_with(each, fields))
    if changed:
        api_version = writer.resource.api_version
        made = entry(writer.manager, UPDATE, api_version, writer.time, writer.subresource, union(own, changed))
        kept.append(made)
    return _capped(sorted_entries(kept))


def _without_empty_labels(value: Json) -> Json:
    """Validation alone tells an empty set of labels of a template from none."""
    spec, template = value["spec"], value["spec"]["template"]
    metadata = {key: item for key, item in template["metadata"].items() if key != "labels"}
    return {**value, "spec": {**spec, "template": {**template, "metadata": metadata}}}


def _is_reset(given: Any) -> bool:
    return not given or (len(given) == 1 and not given[0])


def _identity(writer: Writer, operation: str) -> tuple[str, str, str, str]:
    version = "" if operation == APPLY else writer.resource.api_version
    return writer.manager, operation, version, writer.subresource


def _with(each: Entry, fields: FieldSet) -> Entry:
    return entry(each.manager, each.operation, each.api_version, each.time, each.subresource, fields)


def _stripped(fields: FieldSet) -> FieldSet:
    return difference(fields, _STRIPPED)


def _reset_fields(writer: Writer) -> FieldSet:
    """What a write of this part cannot change."""
    if not writer.resource.has_status or writer.subresource in writer.resource.rules.validate_parts:
        # Of these parts upstream does not say what they keep.
        return {}
    if writer.subresource != "status":
        return {"f:status": {}}
    kept: FieldSet = {f"f:{key}": {} for key in writer.resource.rules.kept_by_status}
    return {"f:spec": {}, **({"f:metadata": kept} if kept else {})}


def _compare(writer: Writer, old: Json, new: Json) -> Comparison:
    found = compare(spot_of(writer.resource.struct), old, new)
    resets = _reset_fields(writer)
    return Comparison(*(without(each, resets) for each in found)) if resets else found


def _capped(entries: Entries) -> Entries:
    """At most ten entries of updates: the oldest ones become one."""
    updates = [each for each in entries if each.operation == UPDATE]
    surplus = len(updates) - _MOST_UPDATERS
    if surplus <= 0:
        return entries
    updates.sort(key=lambda each: (each.time, each.manager))
    fields: FieldSet = {}
    old = updates[: surplus + 1]
    for each in old:
        fields = union(fields, each.field_set)
    joined = entry(_ANCIENT, UPDATE, old[-1].api_version, old[-1].time, "", fields)
    return sorted_entries((*(each for each in entries if each not in old), joined))


@frozen
class Applied:
    """What an apply makes: the object, still without defaults, and its entries."""

    value: Json
    entries: Entries


def apply(writer: Writer, entries: Entries, live: Json, applied: Json, *, is_forced: bool) -> Applied:
    """Apply a configuration. Raises 400 for one that is none of the kind, and 409 for conflicts."""
    place = spot_of(writer.resource.struct)
    config = {key: value for key, value in applied.items() if key not in ("apiVersion", "kind")}
    if not entries and live["metadata"].get("uid"):
        if why := _mistakes(place, live):
            where = _place(writer.resource, live)
            to = f"failed to convert new object ({where}) to smd typed: {why}"
            raise ApiError(f"failed to create manager for existing fields: {to}")
        before = _compare(writer, blank(writer.resource), live)
        fields = _stripped(union(before.added, before.modified))
        if fields:
            entries = (entry(_BEFORE, UPDATE, writer.resource.api_version, writer.time, writer.subresource, fields),)
    entries = tuple(known_entries(entries, writer.resource.group).values())
    if _names_owners(config):
        raise bad_request("metadata.managedFields must be nil")
    try:
        if why := _mistakes(place, config):
            raise InputError(why)
        merged = merge(place, live, config)
        said = without(fields_of(place, config), _reset_fields(writer))
    except InputError as error:
        raise _untyped(writer, config, str(error)) from error
    identity = _identity(writer, APPLY)
    last = next((each for each in entries if each.identity == identity), None)
    others = [each for each in entries if each is not last]
    if last is not None:
        merged = _pruned(writer, merged, last.field_set, said, others)
    found = _compare(writer, live, merged)
    conflicts = _conflicts(found, others)
    if conflicts and not is_forced and writer.manager == _KUBECTL:
        allowed = _allowed(writer, live)
        conflicts = [(each, left) for each, fields in conflicts if (left := difference(fields, allowed))]
    if conflicts and not is_forced:
        raise _conflict(conflicts)
    kept: list[Entry] = []
    for each in others:
        fields = difference(difference(each.field_set, union(found.modified, found.added)), found.removed)
        if fields:
            kept.append(_with(each, fields))
    own = _stripped(said)
    if own:
        # An apply that changes nothing has no time, and leaves that of an earlier one.
        time = writer.time if merged != live else "" if last is None else last.time
        kept.append(entry(writer.manager, APPLY, writer.resource.api_version, time, writer.subresource, own))
    _sync_last_applied(writer, merged, applied)
    return Applied(merged, sorted_entries(kept))


def _mistakes(place: Spot, value: Json) -> str:
    """What keeps a document from being one of its kind; nothing for one that is."""
    wrong = list(islice(mistakes_in(place, value), _MOST_MISTAKES))
    return wrong[0] if len(wrong) == 1 else "errors:\n" + "\n".join(f"  {each}" for each in wrong) if wrong else ""


def _names_owners(config: Json) -> bool:
    """What is no list of objects is no such list at all, and has the wrong type."""
    metadata = config.get("metadata")
    found = metadata.get("managedFields") if isinstance(metadata, dict) else None
    return isinstance(found, list) and all(isinstance(each, dict) for each in found)


def _pruned(writer: Writer, merged: Json, last: FieldSet, said: FieldSet, others: list[Entry]) -> Json:
    """Without what the client said the last time and does not say now, unless another client owns it."""
    place = spot_of(writer.resource.struct)
    owned = said
    for each in others:
        owned = union(owned, each.field_set)
    last, owned = with_named(place, last), with_named(place, owned)
    pruned: Any = cut(place, merged, last)
    before = with_named(place, fields_of(place, merged))
    after = with_named(place, fields_of(place, pruned)) if pruned is not ABSENT else {}
    gone = difference(before, union(after, owned))
    pruned = cut(place, merged, gone)
    after = with_named(place, fields_of(place, pruned)) if pruned is not ABSENT else {}
    result = cut(place, merged, intersection(difference(before, after), last))
    return {"metadata": {}} if result is ABSENT else result


def _conflicts(found: Comparison, others: list[Entry]) -> list[tuple[Entry, FieldSet]]:
    changed = union(found.modified, found.added)
    if not changed:
        return []
    return [(each, fields) for each in others if (fields := intersection(each.field_set, changed))]


def _conflict(conflicts: list[tuple[Entry, FieldSet]]) -> Conflict:
    ordered = sorted(conflicts, key=lambda one: _identifier(one[0]))
    listed = [(_client(each), path) for each, fields in ordered for path in paths(fields)]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {client}", "field": path}
        for client, path in listed
    ]  # fmt: skip
    if len(listed) == 1:
        client, path = listed[0]
        message = f"Apply failed with 1 conflict: conflict with {client}: {path}"
    else:
        lines: list[str] = []
        for client in dict.fromkeys(client for client, _ in listed):
            lines.append(f"conflicts with {client}:")
            lines += (f"- {path}" for other, path in listed if other == client)
        message = f"Apply failed with {len(listed)} conflicts: " + "\n".join(lines)
    return Conflict(message, details={"causes": causes})


def _identifier(each: Entry) -> str:
    """The JSON text by which Kubernetes sorts clients: one that writes a subresource comes before the same without."""
    manager, operation, api_version, subresource = each.identity
    named = (("manager", manager), ("operation", operation), ("apiVersion", api_version), ("subresource", subresource))
    return json.dumps({key: text for key, text in named if text}, separators=(",", ":"), ensure_ascii=False)


def _client(each: Entry) -> str:
    part = f" with subresource {quote(each.subresource)}" if each.subresource else ""
    version = f" using {each.api_version}" if each.operation == UPDATE else ""
    return f"{quote(each.manager)}{part}{version}"


def _untyped(writer: Writer, config: Json, why: str) -> ApiError:
    return ApiError(f"failed to create typed patch object ({_place(writer.resource, config)}): {why}")


def unconvertible(resource: Resource, config: Json, why: str) -> ApiError:
    """What is applied has the shape of its kind, and a value in it makes no sense."""
    to = f"unable to convert unstructured object to {_kind(resource)}"
    return ApiError(f"failed to convert new object ({_place(resource, config)}) to proper version: {to}: {why}")


def _kind(resource: Resource) -> str:
    return f"{resource.group}/{resource.version}, Kind={resource.kind}"


def _place(resource: Resource, config: Json) -> str:
    metadata = config.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    texts = (each if isinstance(each, str) else "" for each in (named.get("namespace"), named.get("name")))
    return f"{'/'.join(texts)}; {_kind(resource)}"


# kubectl keeps what it applied on the client's side in an annotation, and may go over to the server's side at any time.
def _last_applied(value: Json) -> str:
    return str(((value.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED) or "")


def _allowed(writer: Writer, live: Json) -> FieldSet:
    """What kubectl itself has applied before, and nothing has changed since."""
    try:
        former = json.loads(_last_applied(live) or "null")
    except ValueError:
        return {}
    if not isinstance(former, dict) or former.get("apiVersion") != writer.resource.api_version:
        return {}
    config = {key: value for key, value in former.items() if key not in ("apiVersion", "kind")}
    place = spot_of(writer.resource.struct)
    try:
        found = compare(place, config, live)
        return difference(fields_of(place, config), union(union(found.modified, found.added), found.removed))
    except InputError:
        return {}


def _sync_last_applied(writer: Writer, merged: Json, applied: Json) -> None:
    if writer.manager != _KUBECTL or not _last_applied(merged):
        return
    config = json.loads(json.dumps(applied))
    annotations = (config.get("metadata") or {}).get("annotations") or {}
    annotations.pop(_LAST_APPLIED, None)
    text = json.dumps(config, separators=(",", ":"), sort_keys=True) + "\n"
    metadata = dict(merged["metadata"])
    metadata["annotations"] = {**metadata["annotations"], _LAST_APPLIED: text}
    merged["metadata"] = metadata
