"""What the server fills in, keeps, counts and checks before it stores an object."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from jettison.apiserver.http.statuses import bad_request, conflict
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.objects.validation.metadata import (
    path_segment_name,
    validate_metadata,
    validate_metadata_update,
)
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, refusal
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError
from jettison.manifests.times import time_text

Json = dict[str, Any]

# No vowels and no 0, 1 or 3: a random name must not spell anything, nor look like another one.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE: Final = 63 - 5
_OUTDATED: Final = "the object has been modified; please apply your changes to the latest version and try again"
# What the server alone decides; a client that leaves it out means no change.
_KEPT: Final = ("uid", "deletionGracePeriodSeconds", "name", "namespace")
# As above, and what a client says instead is ignored.
_FIXED: Final = ("resourceVersion", "generation", "creationTimestamp")


def prepare_new(resource: Resource, value: Json, namespace: str, now_ns: int, admit: Callable[[Json], None]) -> Json:
    """A new object, ready to be stored; `admit` has its say between the defaults and the validation."""
    metadata = value["metadata"]
    if metadata.get("resourceVersion"):
        raise ApiError("resourceVersion should not be set on objects to be created")
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink", "generation"):
        metadata.pop(key, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = _generated(metadata["generateName"])
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
    rules.prepare(value)
    mistakes = [*rules.validate_new_metadata(metadata, rules.name), *rules.validate(value)]
    if not mistakes:
        # These rules hold for all kinds, also for those that do not check metadata themselves.
        mistakes = list(validate_metadata(metadata, path_segment_name))
    if mistakes:
        raise refusal(resource.group, resource.kind, metadata.get("name", ""), mistakes)
    return value


def prepare_changed(
    resource: Resource, new: Json, old: Json, admit: Callable[[Json], None], *, is_status: bool = False
) -> Json:
    """A changed object, ready to be stored; equal to the old one if nothing has changed.

    A write of the status keeps everything else, a write of the rest keeps the status. `admit` has its say between the
    defaults and the validation.
    """
    rules = resource.rules
    rules.default(new)
    former = old["metadata"]
    metadata = _kept_metadata(new["metadata"], former)
    if is_status:
        for key in rules.kept_by_status:
            _take(metadata, former, key)
        rules.complete_status(new["status"], old["status"])
        changed = {**old, "metadata": metadata, "status": new["status"]}
        admit(changed)
        own = rules.validate_changed_metadata[:1]
        mistakes = [*_common_mistakes(metadata, former), *(each for check in own for each in check(metadata, former))]
        mistakes += rules.validate_status(changed, old)
    else:
        changed = new
        changed["metadata"] = metadata
        if resource.has_status:
            changed["status"] = old["status"]
        admit(changed)
        if resource.counts_generations and _is_new_generation(resource, changed, old):
            metadata["generation"] = former.get("generation", 0) + 1
        own = rules.validate_changed_metadata
        mistakes = [*_common_mistakes(metadata, former), *(each for check in own for each in check(metadata, former))]
        mistakes += rules.validate_update(changed, old)
    if mistakes:
        raise refusal(resource.group, resource.kind, former["name"], mistakes)
    return changed


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


def check_identity(resource: Resource, metadata: Json, old: Json) -> None:
    """A client that replaces or binds an object and names its uid means that one, not another of the same name."""
    _check_same(resource, metadata, old, "uid", "UID")


def check_unchanged(resource: Resource, metadata: Json, old: Json) -> None:
    """As above, and a client that names its version means no other version."""
    _check_same(resource, metadata, old, "uid", "UID")
    _check_same(resource, metadata, old, "resourceVersion", "ResourceVersion")


def _check_same(resource: Resource, metadata: Json, old: Json, field: str, title: str) -> None:
    given, current = metadata.get(field, ""), old["metadata"][field]
    if given not in ("", current):
        key = "/".join(part for part in (old["metadata"].get("namespace", ""), old["metadata"]["name"]) if part)
        # Nodes were called minions once, and are still stored under that name in Kubernetes.
        plural = "minions" if resource.kind == "Node" else resource.plural
        why = f"Precondition failed: {title} in precondition: {given}, {title} in object meta: {current}"
        where = f"Code: 4, Key: /registry/{plural}/{key}, ResourceVersion: 0"
        text = f"StorageError: invalid object, {where}, AdditionalErrorMsg: {why}"
        raise conflict(resource, old["metadata"]["name"], text)


def check_version(resource: Resource, metadata: Json, old: Json) -> None:
    """The object must be built on the one that is stored; no version at all means: whatever is stored."""
    given, name = metadata.get("resourceVersion", ""), old["metadata"]["name"]
    if given and not (given.isascii() and given.isdigit()):
        raise ApiError(f"strconv.ParseUint: parsing {quote(given)}: invalid syntax")
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
    if new.get("spec") != old.get("spec"):
        return True
    is_counted = resource.rules.counts_annotations
    return is_counted and new["metadata"].get("annotations") != old["metadata"].get("annotations")


def _generated(base: str) -> str:
    return base[:_LONGEST_BASE] + "".join(secrets.choice(_LETTERS) for _ in range(5))
