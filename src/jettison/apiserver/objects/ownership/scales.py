"""Which client owns the number of replicas, as an object and its `scale` tell it to each other.

A scale is another kind than the object that it scales, and has one field that can be owned. Its entries are made of
those of the object, and what a write makes of them goes back. Two surprises of Kubernetes are kept. An entry of an
update is not known again, because the version is a part of what tells entries apart: it loses the replicas, and comes
back as an entry of its own. And an entry that comes from a scale has no time.
"""

from __future__ import annotations

from typing import Final

from jettison.apiserver.objects.ownership.field_sets import FieldSet, difference, intersection
from jettison.apiserver.objects.ownership.records import Entries, Entry, entry, known_entries, sorted_entries
from jettison.apiserver.objects.resources import SCALES, Resource

_REPLICAS: Final[FieldSet] = {"f:spec": {"f:replicas": {}}}


def scale_entries(resource: Resource, entries: Entries) -> Entries:
    """The entries of the scale of an object that has these."""
    return sorted_entries(
        entry(each.manager, each.operation, SCALES.api_version, each.time, each.subresource, _REPLICAS)
        for each in known_entries(entries, resource.group).values()
        if _has_replicas(each)
    )


def parent_entries(resource: Resource, entries: Entries, scaled: Entries) -> Entries:
    """The entries of an object that had `entries`, after a write left those of its scale as `scaled`."""
    former = known_entries(entries, resource.group)
    new = {each.identity: each for each in scaled}
    made: dict[tuple[str, str, str, str], Entry] = {}
    for identity, each in former.items():
        if not _has_replicas(each) or new.pop(identity, None) is not None:
            made[identity] = each
        elif rest := difference(each.field_set, _REPLICAS):
            made[identity] = entry(each.manager, each.operation, each.api_version, each.time, each.subresource, rest)
    for identity, each in new.items():
        if _has_replicas(each):
            time = former[identity].time if identity in former else ""
            made[identity] = entry(
                each.manager, each.operation, resource.api_version, time, each.subresource, _REPLICAS
            )  # fmt: skip
    return sorted_entries(made.values())


def _has_replicas(each: Entry) -> bool:
    return bool(intersection(each.field_set, _REPLICAS))
