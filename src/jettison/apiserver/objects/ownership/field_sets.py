"""Sets of fields, as `fieldsV1` has them: a tree of steps to fields, to elements by their keys, and to values of sets.

A step that leads to nothing is in the set: `{"f:spec": {"f:replicas": {}}}` has `.spec.replicas` and not `.spec`. The
step `.` says that what is around it is in the set as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from jettison.engine.numbers.strconv import quote

FieldSet = dict[str, Any]

SELF: Final = "."


def is_member(node: FieldSet) -> bool:
    """Whether the step itself is in the set, beside what may be below it."""
    return not node or SELF in node


def _node(is_in: bool, below: FieldSet) -> FieldSet | None:
    if not is_in:
        return below or None
    return {SELF: {}, **below} if below else {}


def below(node: FieldSet) -> FieldSet:
    """The steps that go on from here."""
    return {step: child for step, child in node.items() if step != SELF} if SELF in node else node


def union(one: FieldSet, two: FieldSet) -> FieldSet:
    """What is in either."""
    if not one or not two:
        return one or two
    result = dict(one)
    for step, node in two.items():
        if step not in one:
            result[step] = node
        elif step != SELF:
            joined = union(below(one[step]), below(node))
            result[step] = _node(is_member(one[step]) or is_member(node), joined) or {}
    return result


def intersection(one: FieldSet, two: FieldSet) -> FieldSet:
    """What is in both."""
    result: FieldSet = {}
    for step, node in one.items():
        if step == SELF or step not in two:
            continue
        other = two[step]
        found = _node(is_member(node) and is_member(other), intersection(below(node), below(other)))
        if found is not None:
            result[step] = found
    return result


def difference(one: FieldSet, two: FieldSet) -> FieldSet:
    """What is in the first only. A field that goes takes nothing below it along."""
    result = dict(one)
    # The smaller one: of the fields of a budget's status, one for each pod, a write changes two.
    for step in two if len(two) < len(one) else one:
        if step not in one or step not in two:
            continue
        node, other = one[step], two[step]
        left = _node(is_member(node) and not is_member(other), difference(below(node), below(other)))
        if left is None:
            del result[step]
        else:
            result[step] = left
    return result


def without(one: FieldSet, roots: FieldSet) -> FieldSet:
    """The set without these fields and everything below them."""
    result: FieldSet = {}
    for step, node in one.items():
        root = roots.get(step)
        if root is None:
            result[step] = node
        elif not is_member(root) and (left := without(node, root)):
            result[step] = left
    return result


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Every field as a person writes it, `.spec.containers[name="web"].image`; of each level the fields first."""
    steps = sorted(step for step in fields if step != SELF)
    yield from (prefix + step_text(step) for step in steps if is_member(fields[step]))
    for step in steps:
        yield from paths(below(fields[step]), prefix + step_text(step))


def step_text(step: str) -> str:
    """One step of a path."""
    kind, _, rest = step.partition(":")
    if kind == "f":
        return f".{rest}"
    value = json.loads(rest)
    if kind == "k":
        return f"[{','.join(f'{key}={_shown(value[key])}' for key in sorted(value))}]"
    return f"[={_shown(value)}]" if kind == "v" else f"[{value}]"


def _shown(value: Any) -> str:
    """As upstream's differ writes a value: an object without anything around it or between its fields."""
    if isinstance(value, dict):
        return "".join(f"{key}={_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(_shown, value))}]"
    return quote(value) if isinstance(value, str) else json.dumps(value)


def is_field_set(value: Any) -> bool:
    """Whether a value from a client is one. It has no more levels than a body may have."""
    return isinstance(value, dict) and all(_is_step(step) and is_field_set(node) for step, node in value.items())


def _is_step(step: str) -> bool:
    kind, colon, rest = step.partition(":")
    if step == SELF or kind == "f":
        return step == SELF or bool(colon)
    if kind not in ("k", "v", "i"):
        return False
    try:
        value = json.loads(rest)
    except ValueError:
        return False
    return isinstance(value, dict) if kind == "k" else True
