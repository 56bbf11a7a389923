"""Quantities that containers and nodes ask for and offer, and numbers that may also be percentages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import label_name
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.engine.labels.syntax import label_key_complaints
from jettison.engine.numbers.quantity import parse
from jettison.engine.numbers.strconv import quote
from jettison.engine.pods.pod import HUGEPAGES_PREFIX, is_pod_level_resource
from jettison.errors import InputError

Json = dict[str, Any]

NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_PREFIXES: Final = (HUGEPAGES_PREFIX, f"requests.{HUGEPAGES_PREFIX}")
# What a quota may limit, and no container can ask for.
_QUOTED: Final = frozenset(
    {
        *("requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu", "limits.memory"),
        *("limits.ephemeral-storage", "persistentvolumeclaims", "requests.storage", "storage", "services.nodeports"),
        "services.loadbalancers",
    }
)
_COUNTED: Final = frozenset({"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"})


def validate_requirements(resources: Json, field: str, claims: frozenset[str] = frozenset()) -> Iterator[Mistake]:
    """A container's requests and limits. `claims` are the names of those that the pod has."""
    yield from _validate_requirements(resources, field, validate_resource_name)
    yield from _validate_claims(resources.get("claims") or (), f"{field}.claims", claims)


def validate_pod_requirements(resources: Json, field: str, claims: frozenset[str]) -> Iterator[Mistake]:
    """What a pod asks for as a whole: processor time, memory and huge pages."""
    yield from _validate_requirements(resources, field, _validate_pod_resource)
    yield from _validate_claims(resources.get("claims") or (), f"{field}.claims", claims)


def _validate_requirements(
    resources: Json, field: str, check: Callable[[str, str], Iterator[Mistake]]
) -> Iterator[Mistake]:  # fmt: skip
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, amount in limits.items():
        yield from _validate_amount(name, amount, f"{field}.limits", check)
        yield from _validate_huge(name, amount, f"{field}.limits[{name}]")
    for name, amount in requests.items():
        yield from _validate_amount(name, amount, f"{field}.requests", check)
        if name in limits:
            limit, wanted = parse(limits[name]), parse(amount)
            if not _is_overcommittable(name) and wanted != limit:
                yield invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limits[name]}")
            elif limit < wanted:
                why = f"must be less than or equal to {name} limit of {limits[name]}"
                yield invalid(f"{field}.requests", amount, why)
        elif not _is_overcommittable(name):
            yield required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        yield from _validate_huge(name, amount, f"{field}.requests[{name}]")
    named = limits.keys() | requests.keys()
    if any(name.startswith(HUGEPAGES_PREFIX) for name in named) and not named & {"cpu", "memory"}:
        yield forbidden(field, "HugePages require cpu or memory")


def _validate_huge(name: str, amount: str, field: str) -> Iterator[Mistake]:
    """A multiple of the size in the resource's name."""
    if not name.startswith(HUGEPAGES_PREFIX):
        return
    try:
        size = parse(name.removeprefix(HUGEPAGES_PREFIX)).value
    except InputError:
        size = 0
    if size <= 0 or parse(amount).value % size:
        yield invalid(field, amount, f"{amount} is not positive integer multiple of {name}")


def _validate_claims(claims: Iterable[Json], field: str, known: frozenset[str]) -> Iterator[Mistake]:
    seen: set[tuple[str, str]] = set()
    counts: dict[str, int] = {}
    rest = f": {', '.join(sorted(known))}" if known else " which is empty"
    for index, claim in enumerate(claims):
        name, request = claim["name"], claim.get("request", "")
        where = f"{field}[{index}]"
        if not name:
            yield required(where)
            continue
        if (name, "") in seen:
            yield duplicate(where, name)
        else:
            if request:
                yield from (invalid(f"{where}.request", request, why) for why in label_name(request))
            if (name, request) in seen:
                yield duplicate(where, f"{name}/{request}")
            elif not request:
                yield from (duplicate(where, name) for _ in range(counts.get(name, 0)))
            seen.add((name, request))
            counts[name] = counts.get(name, 0) + 1
        if name not in known:
            why = f"must be one of the names in pod.spec.resourceClaims{rest}"
            yield Mistake(where, "FieldValueNotFound", f"Not found: {quote(name)}: {why}")


def _validate_pod_resource(name: str, field: str) -> Iterator[Mistake]:
    complaints = list(label_key_complaints(name))
    yield from (invalid(field, name, why) for why in complaints)
    if complaints:
        return
    if "/" not in name and not _is_standard(name):
        yield invalid(field, name, "must be a standard resource type or fully qualified")
    elif not is_pod_level_resource(name):
        yield unsupported(field, name, ("cpu", HUGEPAGES_PREFIX, "memory"))


def _validate_amount(
    name: str, amount: str, field: str, check: Callable[[str, str], Iterator[Mistake]]
) -> Iterator[Mistake]:  # fmt: skip
    yield from check(name, f"{field}[{name}]")
    if parse(amount).sign < 0:
        yield invalid(f"{field}[{name}]", amount, NOT_NEGATIVE)
    if is_whole(name) and parse(amount).milli % 1000:
        yield invalid(f"{field}[{name}]", amount, "must be an integer")


def validate_resource_name(name: str, field: str) -> Iterator[Mistake]:
    """Either one of the standard ones or a name with a prefix."""
    if name in _STANDARD:
        return
    complaints = list(label_key_complaints(name))
    yield from (invalid(field, name, why) for why in complaints)
    if "/" not in name:
        if name.startswith(HUGEPAGES_PREFIX):
            return
        if not complaints and not _is_standard(name):
            yield invalid(field, name, "must be a standard resource type or fully qualified")
        yield invalid(field, name, "must be a standard resource for containers")
    elif "kubernetes.io/" not in name and (
        name.startswith("requests.") or any(True for _ in label_key_complaints(f"requests.{name}"))
    ):
        yield invalid(field, name, "doesn't follow extended resource name standard")


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name in _COUNTED or name in _QUOTED or name.startswith(_PREFIXES)


def is_whole(name: str) -> bool:
    """Whether it is counted in whole numbers."""
    return name in _COUNTED or ("/" in name and "kubernetes.io/" not in name)


def _is_overcommittable(name: str) -> bool:
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")


# Numbers that may also be percentages, as budgets and rollouts have them.
_PERCENT: Final = re.compile(r"[0-9]+%")
_NUMBER: Final = re.compile(r"[0-9]+%|[+-]?[0-9]+")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def validate_amount(amount: int | str, field: str) -> Iterator[Mistake]:
    """Not negative, or a percentage, which may be above 100."""
    if isinstance(amount, int):
        if amount < 0:
            yield invalid(field, amount, NOT_NEGATIVE)
    elif not _PERCENT.fullmatch(amount):
        yield invalid(field, amount, _PERCENT_RULE)


def validate_share(amount: int | str, field: str) -> Iterator[Mistake]:
    """A percentage of at most 100; numbers are not checked."""
    if not isinstance(amount, str) or not _PERCENT.fullmatch(amount):
        return
    # By its length first: a million digits are a text, and slow to read as a number.
    if len(amount.lstrip("0")) > len("100%") or int(amount[:-1]) > 100:
        yield invalid(field, amount, "must not be greater than 100%")


def is_nothing(amount: int | str) -> bool:
    """Whether it is none at all. A text that is no percentage counts, as upstream has it, as the number that it is."""
    if isinstance(amount, int):
        return amount == 0
    return not _NUMBER.fullmatch(amount) or not amount.strip("+-%").strip("0")
