"""What the server fills in, keeps, counts and checks before it stores an object."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from jettison.apiserver.http.statuses import bad_request, conflict
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.objects.schema import Read, as_stored, empties_of, names_no_label
from jettison.apiserver.objects.validation.metadata import (
    path_segment_name,
    validate_metadata,
    validate_metadata_update,
)
from jettison.apiserver.objects.validation.mistakes import Mistake, first_of, invalid, refusal
from jettison.engine.numbers.strconv import parse_uint
from jettison.errors import ApiError, InputError
from jettison.manifests.times import time_text

Json = dict[str, Any]

# No vowels and no 0, 1 or 3: a random name must not spell anything, nor look like another one.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE: Final = 63 - 5
_REPEATED_OWNERS: Final = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests"
)
_OUTDATED: Final = "the object has been modified; please apply your changes to the latest version and try again"
# What the server alone decides; a client that leaves it out means no change.
_KEPT: Final = ("uid", "deletionGracePeriodSeconds", "name", "namespace")
# As above, and what a client says instead is ignored.
_FIXED: Final = ("resourceVersion", "generation", "creationTimestamp")
# Kinds that are stored under other names than their own in Kubernetes: nodes were called minions once.
_STORED_AS: Final = {
    "Node": "minions",
    "ReplicationController": "controllers",
    "Service": "services/specs",
    "Endpoints": "services/endpoints",
}
_DELETION: Final = ("deletionTimestamp", "deletionGracePeriodSeconds")


def prepare_new(
    resource: Resource,
    value: Json,
    namespace: str,
    now_ns: int,
    admit: Callable[[Json], None],
    *,
    is_posted: bool = True,
) -> Json:
    """A new object, ready to be stored; `admit` has its say between the defaults and the validation.

    What a client says of its deletion is forgotten only where it is posted: so does Kubernetes.
    """
    metadata = value["metadata"]
    for key in ("managedFields", "selfLink", *(_DELETION if is_posted else ())):
        metadata.pop(key, None)
    if resource.is_namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = time_text(now_ns)
    if resource.counts_generations:
        metadata["generation"] = 1
    rules = resource.rules
    rules.default(value)
    admit(value)
    rules.drop(value)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = _generated(metadata["generateName"])
    rules.prepare(value)
    mistakes = first_of(rules.validate_new_metadata(metadata, rules.name), rules.validate(value))
    if not mistakes:
        # These rules hold for all kinds, also for those that do not check metadata themselves.
        mistakes = first_of(validate_metadata(metadata, path_segment_name))
    if mistakes:
        raise refusal(_refusing_group(resource), resource.kind, metadata.get("name", ""), mistakes)
    _drop_empty_labels(value)
    rules.read_back(value)
    return as_stored(value)


def prepare_changed(
    resource: Resource,
    new: Json,
    old: Json,
    note: Callable[[Json], None],
    admit: Callable[[Json], None],
    part: str = "",
) -> Json:
    """A changed object, ready to be stored; equal to the old one if nothing has changed.

    A write of the status, or of another `part`, keeps everything else; a write of the rest keeps the status. `note`
    sees what the client has sent, with defaults: the owner of a field is the client that has sent it, whatever becomes
    of it. `admit` has its say between that and the validation.
    """
    rules = resource.rules
    rules.default(new)
    note(new)
    rules.drop(new)
    former = old["metadata"]
    metadata = _kept_metadata(new["metadata"], former)
    if not resource.is_namespaced:
        metadata.pop("namespace", None)
    if part == "status":
        for key in rules.kept_by_status:
            _take(metadata, former, key)
        rules.complete_status(new["status"], old["status"])
        changed = {**old, "metadata": metadata, "status": new["status"]}
        admit(changed)
        if inner := resource.inner_annotation:
            # A part of the spec, whatever it looks like.
            metadata["annotations"] = dict(metadata.get("annotations") or {})
            _take(metadata["annotations"], former.get("annotations") or {}, inner)
        own = rules.validate_status_metadata
        rest = rules.validate_status(changed, old)
    else:
        if part in rules.validate_parts:
            changed = _with_part(part, new, old, metadata)
            metadata = changed["metadata"]
        else:
            changed = new
            changed["metadata"] = metadata
            if resource.has_status:
                changed["status"] = old["status"]
        admit(changed)
        if not part:
            rules.prepare_change(changed, old)
        if resource.counts_generations and _is_new_generation(resource, changed, old):
            metadata["generation"] = former.get("generation", 0) + 1
        own = rules.validate_status_metadata if part == "finalize" else rules.validate_changed_metadata
        rest = rules.validate_parts.get(part, rules.validate_update)(changed, old)
    mistakes = first_of(_common_mistakes(metadata, former), *(check(metadata, former) for check in own), rest)
    if mistakes:
        raise refusal(_refusing_group(resource), resource.kind, former["name"], mistakes)
    _drop_empty_labels(changed)
    return as_stored(changed)


def _drop_empty_labels(value: Json) -> None:
    """Validation has told an empty set of labels of a template from none; nothing else does."""
    if names_no_label(value):
        del value["spec"]["template"]["metadata"]["labels"]


def _refusing_group(resource: Resource) -> str:
    """What is kept as an object of the core group is refused as one."""
    return "" if resource.stored_as else resource.group


def distinct_owners(metadata: Json, *, is_patched: bool) -> list[str]:
    """Leave out owners that are named twice; the answer is what to warn of. Upstream sees it later in a patch."""
    owners = metadata.get("ownerReferences") or ()
    if len(owners) < 2:
        return []
    kept: dict[bytes, Json] = {}
    known = ((each, kept.setdefault(msgspec.json.encode(each, order="sorted"), each)) for each in owners)
    left = [each["uid"] for each, first in known if first is not each]
    if not left:
        return []
    metadata["ownerReferences"] = list(kept.values())
    when = " after mutating admission happens" if is_patched else ""
    return [f"{_REPEATED_OWNERS.format(when)}; duplicate UID(s) observed: {', '.join(left)}"]


def _with_part(part: str, new: Json, old: Json, metadata: Json) -> Json:
    """The old pod with its containers for debugging, or with its resources, as the new one has them."""
    spec, former = new["spec"], old["spec"]
    kept = dict(metadata)
    for key in ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"):
        _take(kept, old["metadata"], key)
    if part == "ephemeralcontainers":
        changed = dict(former)
        _take(changed, spec, "ephemeralContainers")
        read = Read({**old, "metadata": kept, "spec": changed})
        read.empties = empties_of(new)
        return read
    keys = ("containers", "initContainers")
    if any(len(spec.get(key) or ()) != len(former.get(key) or ()) for key in keys):
        # Validation says what is wrong with that.
        return {**new, "metadata": metadata, "status": old["status"]}
    changed = dict(former)
    _take(changed, spec, "resources")
    for key in keys:
        if spec.get(key):
            changed[key] = _resized(spec[key], former[key])
    return {**old, "metadata": kept, "spec": changed}


def _resized(containers: list[Json], former: list[Json]) -> list[Json]:
    if any(new["name"] != old["name"] for new, old in zip(containers, former, strict=True)):
        return containers
    resized = []
    for new, old in zip(containers, former, strict=True):
        each = {**old, "resources": new["resources"]}
        _take(each, new, "resizePolicy")
        resized.append(each)
    return resized


def called(metadata: Json) -> str:
    """What admission calls a new object, which may not have its name yet."""
    return str(metadata.get("name") or metadata.get("generateName") or "Unknown")


def check_address(metadata: Json, namespace: str, name: str) -> None:
    """The name in the object must be that of the path; the namespace may be left out."""
    check_namespace(metadata, namespace)
    given = metadata.get("name", "")
    if not given:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def check_namespace(metadata: Json, namespace: str) -> None:
    """As above, for the namespace alone."""
    if namespace and metadata.get("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check_unborn(metadata: Json) -> None:
    """The version of a new object is for the store to give. What is no version at all does not count."""
    try:
        version = parse_uint(metadata.get("resourceVersion", ""))
    except InputError:
        return
    if version:
        raise ApiError("resourceVersion should not be set on objects to be created")


def check_number(metadata: Json) -> None:
    """Whether it is a version at all."""
    try:
        parse_uint(metadata.get("resourceVersion") or "0")
    except InputError as error:
        raise ApiError(str(error)) from error


def check_identity(resource: Resource, metadata: Json, old: Json, *, is_dry_run: bool = False) -> None:
    """A client that replaces or binds an object and names its uid means that one, not another of the same name."""
    _check_same(resource, metadata, old, "uid", "UID", root="" if is_dry_run else "/registry")


def check_unchanged(resource: Resource, metadata: Json, old: Json, *, is_dry_run: bool = False) -> None:
    """As above, and a client that names its version means no other version."""
    root = "" if is_dry_run else "/registry"
    _check_same(resource, metadata, old, "uid", "UID", root)
    _check_same(resource, metadata, old, "resourceVersion", "ResourceVersion", root)


def _check_same(
    resource: Resource, metadata: Json, old: Json, field: str, title: str, root: str = "/registry"
) -> None:  # fmt: skip
    given, current = metadata.get(field, ""), old["metadata"][field]
    if given not in ("", current):
        key = "/".join(part for part in (old["metadata"].get("namespace", ""), old["metadata"]["name"]) if part)
        plural = _STORED_AS.get(resource.kind, resource.plural)
        why = f"Precondition failed: {title} in precondition: {given}, {title} in object meta: {current}"
        where = f"Code: 4, Key: {root}/{plural}/{key}, ResourceVersion: 0"
        text = f"StorageError: invalid object, {where}, AdditionalErrorMsg: {why}"
        raise conflict(resource, old["metadata"]["name"], text)


def check_version(resource: Resource, metadata: Json, old: Json) -> None:
    """The object must be built on the one that is stored; no version at all means: whatever is stored."""
    check_number(metadata)
    given, name = metadata.get("resourceVersion", ""), old["metadata"]["name"]
    if given in ("", "0"):
        if not resource.takes_unconditional_put:
            mistake = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise refusal(resource.group, resource.plural, name, [mistake])
    elif given != old["metadata"]["resourceVersion"]:
        raise conflict(resource, name, _OUTDATED)


def _common_mistakes(new: Json, old: Json) -> Iterator[Mistake]:
    """What is asked of every object before its own kind asks it again."""
    yield from validate_metadata(new, path_segment_name)
    yield from validate_metadata_update(new, old)


def _kept_metadata(new: Json, old: Json) -> Json:
    metadata = {key: value for key, value in new.items() if key not in ("managedFields", "selfLink")}
    for key in _KEPT:
        if key not in metadata and key in old:
            metadata[key] = old[key]
    for key in _FIXED:
        _take(metadata, old, key)
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    return metadata


def _take(target: Json, source: Json, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def _is_new_generation(resource: Resource, new: Json, old: Json) -> bool:
    if resource.is_generation_of_all:
        changed = (key for key in (new | old) if key != "metadata" and new.get(key) != old.get(key))
        return any(changed) or new["metadata"].get("labels") != old["metadata"].get("labels")
    if new.get("spec") != old.get("spec"):
        return True
    is_counted = resource.rules.counts_annotations
    return is_counted and new["metadata"].get("annotations") != old["metadata"].get("annotations")


def _generated(base: str) -> str:
    return base[:_LONGEST_BASE] + "".join(secrets.choice(_LETTERS) for _ in range(5))
