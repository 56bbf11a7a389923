"""How important a workload is, where it does not say so itself: rules of the operator, and a list that is shipped.

Each of priority, requests, protection and the way to stop is taken from the first that names it: the operator's rules
in their order, the workload's own labels, the shipped list. So the operator has the first word, and a container cannot
label itself out of what the operator decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from jettison.engine.config.suggestions import did_you_mean, quantity_advice
from jettison.engine.numbers.quantity import Quantity, parse
from jettison.engine.pods.pod import CPU, EPHEMERAL_STORAGE, MEMORY
from jettison.errors import InputError, ManifestError, QuantityError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.workloads import OUR_LABEL, AdoptedWorkload
from jettison.values import frozen

PRIORITY, MEMORY_REQUEST, STORAGE_REQUEST, PROTECT, STOP = (
    f"{OUR_LABEL}{name}" for name in ("priority", "memory-request", "storage-request", "protect", "stop")
)
_LABELS = (PRIORITY, MEMORY_REQUEST, STORAGE_REQUEST, PROTECT, STOP)

_REQUESTS = (MEMORY, EPHEMERAL_STORAGE, CPU)
_LEAST_PRIORITY, _MOST_PRIORITY = -(2**31), 10**9


class Stop(StrEnum):
    """How a workload is ended."""

    CONTAINER = "container"
    UNIT = "unit"
    CGROUP = "cgroup"


@frozen
class Terms:
    """What is said about a workload; None and nothing where nothing is."""

    priority: int | None = None
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    is_protected: bool | None = None
    stop: Stop | None = None

    def over(self, less: Terms) -> Terms:
        """These, and what they leave open from others."""
        return Terms(
            less.priority if self.priority is None else self.priority,
            {**less.requests, **self.requests},
            less.is_protected if self.is_protected is None else self.is_protected,
            less.stop if self.stop is None else self.stop,
        )


@frozen
class Rule:
    """Patterns as a shell has them, all of which must match; `label` is `KEY=VALUE`, and both may be patterns."""

    terms: Terms
    patterns: Mapping[str, str]

    def matches(self, workload: AdoptedWorkload) -> bool:
        """Whether it is about this workload."""
        return all(
            any(fnmatchcase(text, pattern) for text in _texts(workload, key)) for key, pattern in self.patterns.items()
        )


@frozen
class GuardRules:
    """One file: rules, and the cgroups that are guarded without an engine that knows them."""

    rules: tuple[Rule, ...] = ()
    cgroups: tuple[str, ...] = ()

    def terms(self, workload: AdoptedWorkload) -> Terms:
        """By the first rule that matches, and what it leaves open by the next."""
        found = Terms()
        for rule in self.rules:
            if rule.matches(workload):
                found = found.over(rule.terms)
        return found


def _texts(workload: AdoptedWorkload, key: str) -> Iterable[str]:
    if key == "label":
        return (f"{name}={value}" for name, value in workload.labels.items())
    return (str(getattr(workload, key)),)


def label_terms(labels: Mapping[str, str]) -> tuple[Terms, tuple[str, ...]]:
    """What a container says of itself, and what of that makes no sense."""
    said: dict[str, Any] = {"requests": {}}
    complaints = []
    for label, key in ((PRIORITY, "priority"), (PROTECT, "protect"), (STOP, "stop")):
        if label in labels:
            said[key] = labels[label]
    for label, key in ((MEMORY_REQUEST, MEMORY), (STORAGE_REQUEST, EPHEMERAL_STORAGE)):
        if label in labels:
            said["requests"][key] = labels[label]
    terms = Terms()
    for key, value in said.items():
        for part in [{key: {name: text}} for name, text in value.items()] if key == "requests" else [{key: value}]:
            try:
                terms = terms.over(parse_terms(_typed(part), "label"))
            except InputError as error:
                complaints.append(str(error))
    complaints += [
        f"label `{shortened(name)}` is unknown{did_you_mean(name, _LABELS)}"
        for name in labels
        if name.startswith(OUR_LABEL) and name not in _LABELS
    ]
    return terms, tuple(complaints)


def _typed(part: dict[str, Any]) -> dict[str, Any]:
    """Labels are texts; a rule's values are what YAML makes of them."""
    if "protect" in part and part["protect"] in ("true", "false"):
        return {"protect": part["protect"] == "true"}
    number = str(part.get("priority", ""))
    if number.removeprefix("-").isascii() and number.removeprefix("-").isdigit() and len(number) < 12:
        return {"priority": int(number)}
    return part


def parse_terms(found: Mapping[str, Any], where: str) -> Terms:
    """Of a rule, or of a label. Raises ManifestError."""
    priority, protect, stop = found.get("priority"), found.get("protect"), found.get("stop")
    if priority is not None and (
        isinstance(priority, bool) or not isinstance(priority, int) or not _LEAST_PRIORITY <= priority <= _MOST_PRIORITY
    ):
        allowed = f"expected a number from {_LEAST_PRIORITY} to {_MOST_PRIORITY}; `protect: true` spares for good"
        raise ManifestError(f"{where}: priority is {shortened(repr(priority))}, {allowed}")
    if protect is not None and not isinstance(protect, bool):
        raise ManifestError(f"{where}: protect is {shortened(repr(protect))}, expected true or false")
    if stop is not None and stop not in tuple(Stop):
        raise ManifestError(f"{where}: stop is {shortened(repr(stop))}, expected {', '.join(Stop)}")
    requests = checked_object(found.get("requests"), f"{where}: requests", _REQUESTS)
    amounts = {name: _quantity(amount, f"{where}: requests.{name}") for name, amount in requests.items()}
    return Terms(priority, amounts, protect, None if stop is None else Stop(stop))


def _quantity(value: object, where: str) -> Quantity:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    try:
        amount = parse(text)
    except QuantityError as error:
        raise ManifestError(f"{where} is {shortened(repr(value))}: {quantity_advice(str(error), text)}") from error
    if amount.sign < 0:
        raise ManifestError(f"{where} is {shortened(repr(value))}, expected 0 or more")
    return amount


def checked_object(value: object, where: str, known: tuple[str, ...]) -> dict[str, Any]:
    """With no other fields than these. Raises ManifestError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ManifestError(f"{where} is {shortened(repr(value))}, expected an object with {', '.join(known)}")
    for key in value:
        if key not in known:
            raise ManifestError(f"{where}: unknown field `{shortened(str(key))}`{did_you_mean(str(key), known)}")
    return value
