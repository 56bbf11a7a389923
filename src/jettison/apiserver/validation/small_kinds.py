"""Events, leases and revisions: little to be wrong about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jettison.apiserver.validation.mistakes import Mistake, invalid, required

Json = dict[str, Any]


def validate_event(event: Json) -> Iterator[Mistake]:
    """An event lives where its object does; what is in no namespace has its events in `default`."""
    where, namespace = event["involvedObject"].get("namespace", ""), event["metadata"].get("namespace", "")
    if (where or "default") != namespace and not (not where and namespace == "kube-system"):
        yield invalid("involvedObject.namespace", where, "does not match event.namespace")


def validate_event_update(new: Json, old: Json) -> Iterator[Mistake]:
    """As a new one: a repeat changes count and time."""
    del old
    yield from validate_event(new)


def validate_lease(lease: Json) -> Iterator[Mistake]:
    """Times must be positive."""
    spec = lease["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def validate_lease_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Whoever holds it may be succeeded."""
    del old
    yield from validate_lease(new)


def validate_revision(revision: Json) -> Iterator[Mistake]:
    """A new one; its data is a patch, so it has to be an object."""
    yield from _revision_number(revision)
    data = revision.get("data")
    if data is None:
        yield required("data", "data is mandatory")
    elif not isinstance(data, dict):
        yield required("data", "data must be a valid JSON object")


def validate_revision_update(new: Json, old: Json) -> Iterator[Mistake]:
    """What somebody may go back to must stay what it was; only its number changes."""
    yield from _revision_number(new)
    if new.get("data") != old.get("data"):
        yield invalid("data", new.get("data"), "field is immutable")


def _revision_number(revision: Json) -> Iterator[Mistake]:
    if revision.get("revision", 0) < 0:
        yield invalid("revision", revision["revision"], "must be greater than or equal to 0")
