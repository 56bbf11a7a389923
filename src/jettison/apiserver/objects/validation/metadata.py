"""The part that all objects have in common: names, labels, annotations, owners, finalizers; and selectors of labels.

Each kind has one of the rules for names; a disruption budget, surprisingly, the loosest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required, too_long
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints
from jettison.engine.numbers.strconv import quote

Json = dict[str, Any]
NameRule = Callable[[str], Iterator[str]]

_OWNER_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_LABEL: Final = 63
_LONGEST_PORT: Final = 15

_MOST_ANNOTATION_BYTES: Final = 256 * 1024
_IMMUTABLE: Final = "field is immutable"
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")


def subdomain_name(name: str) -> Iterator[str]:
    """Most kinds: what may be a DNS name."""
    if len(name.encode("utf-8", "replace")) > _LONGEST_SUBDOMAIN:
        yield f"must be no more than {_LONGEST_SUBDOMAIN} characters"
    if not re.fullmatch(_SUBDOMAIN, name):
        yield (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character "
            f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )


def label_name(name: str) -> Iterator[str]:
    """Namespaces, containers and volumes: one label of a DNS name."""
    if len(name.encode("utf-8", "replace")) > _LONGEST_LABEL:
        yield f"must be no more than {_LONGEST_LABEL} characters"
    if re.fullmatch(_LABEL, name):
        return
    if re.fullmatch(_SUBDOMAIN, name):
        yield "must not contain dots"
    else:
        yield (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            f"end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
            f"regex used for validation is '{_LABEL}')"
        )


def path_segment_name(name: str) -> Iterator[str]:
    """Every kind: what can stand in a path."""
    if name in (".", ".."):
        yield f"may not be '{name}'"
    for char in "/%":
        if char in name:
            yield f"may not contain '{char}'"


def port_name(name: str) -> Iterator[str]:
    """Ports of containers: what a service may be called after."""
    if len(name) > _LONGEST_PORT:
        yield f"must be no more than {_LONGEST_PORT} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def validate_metadata(metadata: Json, name_rule: NameRule) -> Iterator[Mistake]:
    """For a new object; names are generated before."""
    if base := metadata.get("generateName"):
        # A name can go on after a dash.
        shown = f"{base[:-2]}a" if len(base) > 1 and base.endswith("-") else base
        yield from (invalid("metadata.generateName", base, why) for why in name_rule(shown))
    name = metadata.get("name", "")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from (invalid("metadata.name", name, why) for why in name_rule(name))
    if metadata.get("generation", 0) < 0:
        yield invalid("metadata.generation", metadata["generation"], "must be greater than or equal to 0")
    yield from validate_labels(metadata.get("labels") or {}, "metadata.labels")
    yield from validate_annotations(metadata.get("annotations") or {})
    yield from _owners(metadata.get("ownerReferences") or ())
    yield from _finalizers(metadata.get("finalizers") or ())


def validate_known_metadata(metadata: Json, name_rule: NameRule) -> Iterator[Mistake]:
    """As above, for the kinds that are old enough to be strict about finalizers."""
    yield from validate_metadata(metadata, name_rule)
    yield from _known_finalizers(metadata)


def validate_metadata_update(new: Json, old: Json) -> Iterator[Mistake]:
    """For a change; what the client left out was filled in from the old object before."""
    former = frozenset(old.get("finalizers") or ())
    added = sorted({each for each in new.get("finalizers") or () if each not in former})
    if old.get("deletionTimestamp") and added:
        listed = ", ".join(map(quote, added))
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        yield forbidden("metadata.finalizers", f"{why} []string{{{listed}}}")
    for field in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(field) != old.get(field):
            yield invalid(f"metadata.{field}", new.get(field), _IMMUTABLE)
    yield from validate_labels(new.get("labels") or {}, "metadata.labels")
    yield from validate_annotations(new.get("annotations") or {})
    yield from _owners(new.get("ownerReferences") or ())


def validate_known_metadata_update(new: Json, old: Json) -> Iterator[Mistake]:
    """As above, for the kinds that are old enough to be strict about finalizers."""
    yield from validate_metadata_update(new, old)
    yield from _known_finalizers(new)


def validate_labels(labels: dict[str, str], field: str) -> Iterator[Mistake]:
    """Keys and values; both complaints name the whole map."""
    for key, value in labels.items():
        yield from (invalid(field, key, why) for why in label_key_complaints(key))
        yield from (invalid(field, value, why) for why in label_value_complaints(value))


def validate_annotations(annotations: dict[str, str], field: str = "metadata.annotations") -> Iterator[Mistake]:
    """Keys, and the size of all of them together."""
    for key in annotations:
        yield from (invalid(field, key, why) for why in label_key_complaints(key.lower()))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MOST_ANNOTATION_BYTES:
        yield too_long(field, _MOST_ANNOTATION_BYTES)


def _owners(owners: Any) -> Iterator[Mistake]:
    field, controller = "metadata.ownerReferences", ""
    for owner in owners:
        group, _, version = owner["apiVersion"].rpartition("/")
        if not version or "/" in group:
            yield invalid(f"{field}.apiVersion", owner["apiVersion"], "version must not be empty")
        for key in ("kind", "name", "uid"):
            if not owner[key]:
                yield invalid(f"{field}.{key}", owner[key], "must not be empty")
        if (owner["apiVersion"], owner["kind"]) == ("v1", "Event"):
            yield invalid(field, _shown_owner(owner), "/v1, Kind=Event is disallowed from being an owner")
        if not owner.get("controller"):
            continue
        shown = f"{owner['kind']}/{owner['name']}"
        if controller:
            found = f"{controller} and {shown}"
            why = f'Only one reference can have Controller set to true. Found "true" in references for {found}'
            yield invalid(field, [_shown_owner(each) for each in owners], why)
        controller = controller or shown


def _shown_owner(owner: Json) -> Json:
    """With its fields in the order of Go, whatever the order of the request was."""
    return {key: owner[key] for key in _OWNER_FIELDS if key in owner}


def _finalizers(finalizers: Any) -> Iterator[Mistake]:
    for each in finalizers:
        yield from (invalid("metadata.finalizers", each, why) for why in label_key_complaints(each))
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid("metadata.finalizers", list(finalizers), why)


def _known_finalizers(metadata: Json) -> Iterator[Mistake]:
    for index, each in enumerate(metadata.get("finalizers") or ()):
        yield from validate_finalizer_name(each, f"metadata.finalizers[{index}]")


def validate_finalizer_name(name: str, field: str) -> Iterator[Mistake]:
    """A name without a domain is Kubernetes' own."""
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        yield invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified")


# Label selectors inside objects.
def validate_selector(selector: Json, field: str, *, takes_any_value: bool = False) -> Iterator[Mistake]:
    """Everything wrong with it; an absent selector is for the caller to judge.

    `takes_any_value`: the values of expressions may be such as no label can have.
    """
    yield from validate_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for index, each in enumerate(selector.get("matchExpressions") or ()):
        place = f"{field}.matchExpressions[{index}]"
        yield from _validate_expression(each, place, takes_any_value=takes_any_value)


SET_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def set_mistakes(operator: str, values: Sequence[str], field: str) -> Iterator[Mistake]:
    """Whether one of these operators has as many values as it takes."""
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif values:
        yield forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")


def _validate_expression(expression: Json, field: str, *, takes_any_value: bool) -> Iterator[Mistake]:
    operator, values = expression["operator"], expression.get("values") or ()
    if operator in SET_OPERATORS:
        yield from set_mistakes(operator, values, field)
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    yield from (invalid(f"{field}.key", expression["key"], why) for why in label_key_complaints(expression["key"]))
    for index, value in enumerate(() if takes_any_value else values):
        yield from (invalid(f"{field}.values[{index}]", value, why) for why in label_value_complaints(value))
