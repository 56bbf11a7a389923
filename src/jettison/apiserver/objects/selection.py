"""Which objects a list, a watch or a DELETE of a collection selects: label and field selectors together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.resources import EVENTS, JOBS, NEW_EVENTS, NODES, PODS, Resource
from jettison.engine.labels.field_selectors import FieldSelector, parse_field_selector
from jettison.engine.labels.selector_text import parse_label_selector
from jettison.engine.labels.selectors import LabelSelector
from jettison.engine.numbers.strconv import quote
from jettison.errors import InputError

Json = Mapping[str, Any]

# Fields that are called otherwise in a selector than in the object.
_ALIASES: Final = {
    (PODS, "spec.host"): "spec.nodeName",
    (JOBS, "status.successful"): "status.succeeded",
    (EVENTS, "source"): "source.component",
    **{
        (NEW_EVENTS, new): old
        for new, old in zip(NEW_EVENTS.selectable_fields, EVENTS.selectable_fields, strict=True)
        if new != old
    },
}
# What a field counts as when the object does not have it; the others count as an empty text.
_ABSENT: Final = {(PODS, "spec.hostNetwork"): "false", (NODES, "spec.unschedulable"): "false"}
_METADATA_FIELDS: Final = ("metadata.name", "metadata.namespace")
_TEXTS: Final = {True: "true", False: "false", None: ""}


@dataclass(frozen=True, slots=True)
class Selection:
    """Both selectors must match. Without any, all objects do."""

    resource: Resource
    labels: LabelSelector
    fields: FieldSelector

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

    def takes(self, value: Json) -> bool:
        """Whether the object matches."""
        if not self.fields.is_empty:
            found = {term.field: field_text(self.resource, value, term.field) for term in self.fields.terms}
            if not self.fields.matches(found):
                return False
        return self.labels.is_empty or self.labels.matches(value["metadata"].get("labels") or {})


@lru_cache(maxsize=1024)
def select(resource: Resource, labels: str, fields: str) -> Selection:
    """Read both selectors; 400 for what makes no sense. Clients repeat themselves, so answers are kept."""
    try:
        selection = Selection(resource, parse_label_selector(labels), parse_field_selector(fields))
    except InputError as error:
        raise bad_request(str(error)) from error
    for term in selection.fields.terms:
        if term.field not in resource.selectable_fields:
            raise bad_request(_unsupported(resource, term.field))
    return selection


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
