"""Objects in which one list or map is long: every such field of every kind, as the schema has them.

A request may have 3 MB. What takes quadratic time is a way to stop the server with one request, so four times as many
elements may take six times as long at most; and an answer must not be a hundred times as large as the request.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jettison.apiserver.objects.resources import RESOURCES, Resource
from jettison.manifests.files.kinds import Field, structs
from tests.apiserver.served import Answer, Served
from tests.attacks.tally import Tally

Json = dict[str, Any]
Way = tuple[Field, ...]

FEW, MANY = 500, 2000
# Below this, the time of a request is that of the machine.
SLOW_SECONDS = 0.25
MOST_TIMES = 6.0
MOST_GROWTH = 100
DEEPEST = 9
_KINDS = {"Pod", "Node", "Service", "Deployment", "StatefulSet", "DaemonSet", "Job", "PodDisruptionBudget"}
_KINDS |= {"ConfigMap", "Secret", "Event", "Lease", "EndpointSlice", "Endpoints", "ServiceAccount", "Namespace"}


def ways(struct: str, before: Way = ()) -> Iterator[Way]:
    """To every list and map below."""
    for field in structs()[struct].fields.values():
        if field.type.shape:
            yield (*before, field)
        is_new = field.type.base not in {each.type.base for each in before}
        if field.type.base in structs() and is_new and len(before) < DEEPEST:
            yield from ways(field.type.base, (*before, field))


def element(base: str, number: int, chance: random.Random) -> Any:
    """One of many, each different; of a struct a text in every field that takes one."""
    table = structs()
    if base in table:
        found: Json = {}
        for name, field in table[base].fields.items():
            if not field.type.shape and field.type.base == "string" and chance.random() < 0.8:
                found[name] = f"x{number}"
            elif not field.type.shape and field.type.base in ("int32", "int64"):
                found[name] = number % 60_000 + 1
        return found
    return {"int32": number, "int64": number, "bool": True, "Quantity": str(number)}.get(base, f"x{number}")


def document(resource: Resource, way: Way, count: int, seed: int) -> Json:
    """A small object with one long list in it."""
    chance = random.Random(seed)
    *above, last = way
    many = [element(last.type.base, number, chance) for number in range(count)]
    value: Any = many if last.type.shape[-1] == "[]" else {f"k{at}": each for at, each in enumerate(many)}
    for shape in reversed(last.type.shape[:-1]):
        value = [value] if shape == "[]" else {"k": value}
    for place in range(len(above), 0, -1):
        field = above[place - 1]
        holder = element(field.type.base, 0, chance)
        holder[way[place].name] = value
        value = holder
        for shape in reversed(field.type.shape):
            value = [value] if shape == "[]" else {"k": value}
    found: Json = {"metadata": {"name": "x"}}
    if way[0].name == "metadata" and isinstance(value, dict):
        value = {"name": "x", way[1].name: value[way[1].name]}
    found[way[0].name] = value
    return found


def send_long_lists(folder: Path, seed: int, tries: int) -> Tally:
    """So many fields, from a seed."""
    tally = Tally("long lists", tries)
    chance = random.Random(seed)
    kinds = [each for each in RESOURCES if each.kind in _KINDS and "create" in each.verbs]
    fields = [(resource, way) for resource in kinds for way in ways(resource.kind)]
    for number, (resource, way) in enumerate(chance.sample(fields, min(tries, len(fields)))):
        served = Served(folder / str(number))
        try:
            _send(tally, served, resource, way, chance.randrange(2**32))
        finally:
            served.close()
    return tally


def _send(tally: Tally, served: Served, resource: Resource, way: Way, seed: int) -> None:
    said = f"{resource.kind} {'.'.join(each.name for each in way)}"
    took, size = 0.0, 0
    answer: Answer | None = None
    for count in (FEW, MANY):
        sent = document(resource, way, count, seed)
        former, size = took, len(json.dumps(sent))
        began = time.process_time()
        answer = served.post(_collection(resource), sent)
        took = time.process_time() - began
        tally.check(answer.code < 500, f"{said}: {answer.code} {answer.content[:300]!r}")
        if answer.code < 300:
            served.delete(f"{_collection(resource)}/x", query="gracePeriodSeconds=0")
    assert answer is not None
    tally.seen[f"{answer.code // 100}xx"] += 1
    is_linear = took < SLOW_SECONDS or took <= MOST_TIMES * former
    tally.check(is_linear, f"{said}: {former:.2f} s for {FEW}, {took:.2f} s for {MANY} of {size} bytes")
    tally.check(
        len(answer.content) <= MOST_GROWTH * size, f"{said}: {len(answer.content)} bytes answer {size}, {answer.code}"
    )


def _collection(resource: Resource) -> str:
    group = f"/apis/{resource.group}" if resource.group else "/api"
    place = "/namespaces/default" if resource.is_namespaced else ""
    return f"{group}/{resource.version}{place}/{resource.plural}"
