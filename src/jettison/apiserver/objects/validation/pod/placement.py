"""Where a pod may run: affinity, tolerations, spread over topologies, gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import (
    SET_OPERATORS,
    label_name,
    set_mistakes,
    subdomain_name,
    validate_selector,
)
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.apiserver.objects.validation.small_kinds import EFFECTS
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints

Json = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSIONS: Final = ("Honor", "Ignore")
_NOT_POSITIVE: Final = "must be greater than zero"
_WEIGHT_RULE: Final = "must be in the range 1-100"


def validate_affinity(affinity: Json, field: str) -> Iterator[Mistake]:
    """To nodes and to other pods."""
    nodes = affinity.get("nodeAffinity") or {}
    if _REQUIRED in nodes:
        terms, where = nodes[_REQUIRED].get("nodeSelectorTerms"), f"{field}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
        if not terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(terms or ()):
            yield from _node_term(term, f"{where}[{index}]")
    for index, each in enumerate(nodes.get(_PREFERRED) or ()):
        where = f"{field}.nodeAffinity.{_PREFERRED}[{index}]"
        yield from _weight(each, where)
        yield from _node_term(each["preference"], f"{where}.preference", takes_any_value=True)
    for key in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(key) or {}
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            yield from _pod_term(term, f"{field}.{key}.{_REQUIRED}[{index}]")
        for index, each in enumerate(pods.get(_PREFERRED) or ()):
            where = f"{field}.{key}.{_PREFERRED}[{index}]"
            yield from _weight(each, where)
            yield from _pod_term(each["podAffinityTerm"], f"{where}.podAffinityTerm")


def _weight(term: Json, field: str) -> Iterator[Mistake]:
    if not 1 <= term["weight"] <= 100:
        yield invalid(f"{field}.weight", term["weight"], _WEIGHT_RULE)


def _node_term(term: Json, field: str, *, takes_any_value: bool = False) -> Iterator[Mistake]:
    for index, each in enumerate(term.get("matchExpressions") or ()):
        yield from _node_requirement(each, f"{field}.matchExpressions[{index}]", takes_any_value=takes_any_value)
    for index, each in enumerate(term.get("matchFields") or ()):
        yield from _field_requirement(each, f"{field}.matchFields[{index}]")


def _node_requirement(requirement: Json, field: str, *, takes_any_value: bool) -> Iterator[Mistake]:
    operator, values = requirement["operator"], requirement.get("values") or ()
    if operator in SET_OPERATORS:
        yield from set_mistakes(operator, values, field)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    key = requirement.get("key") or ""
    yield from (invalid(f"{field}.key", key, why) for why in label_key_complaints(key))
    for index, value in enumerate(() if takes_any_value else values):
        yield from (invalid(f"{field}.values[{index}]", value, why) for why in label_value_complaints(value))


def _field_requirement(requirement: Json, field: str) -> Iterator[Mistake]:
    operator, values, key = requirement["operator"], requirement.get("values") or (), requirement.get("key") or ""
    if operator not in ("In", "NotIn"):
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{field}.values", why)
    if key != "metadata.name":
        yield invalid(f"{field}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from (invalid(f"{field}.values[{index}]", value, why) for why in subdomain_name(value))


def _pod_term(term: Json, field: str) -> Iterator[Mistake]:
    for key in ("labelSelector", "namespaceSelector"):
        yield from validate_selector(term.get(key) or {}, f"{field}.{key}")
    for name in term.get("namespaces") or ():
        yield from (invalid(f"{field}.namespace", name, why) for why in label_name(name))
    yield from _label_keys(term, field)
    key = term["topologyKey"]
    if not key:
        yield required(f"{field}.topologyKey", "can not be empty")
    yield from (invalid(f"{field}.topologyKey", key, why) for why in label_key_complaints(key))


def _label_keys(term: Json, field: str) -> Iterator[Mistake]:
    """Labels whose values are taken from the pod itself."""
    matched, mismatched = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    selector = term.get("labelSelector")
    for key, names in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if names and selector is None:
            yield forbidden(f"{field}.{key}", "must not be specified when labelSelector is not set")
            continue
        for index, name in enumerate(names):
            yield from (invalid(f"{field}.{key}[{index}]", name, why) for why in label_key_complaints(name))
    seen = set((selector or {}).get("matchLabels") or {})
    places = {name: at for at, name in enumerate(matched)}
    for each in (selector or {}).get("matchExpressions") or ():
        if each["key"] in places and each["key"] in seen:
            yield invalid(
                f"{field}[{places[each['key']]}]", each["key"], "exists in both matchLabelKeys and labelSelector"
            )
        seen.add(each["key"])
    unwanted = set(mismatched)
    for index, name in enumerate(matched):
        if name in unwanted:
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{field}.matchLabelKeys[{index}]", name, why)


def validate_spread(constraints: list[Json], field: str) -> Iterator[Mistake]:
    """How evenly pods are to be spread."""
    left = Counter((each["topologyKey"], each["whenUnsatisfiable"]) for each in constraints)
    for index, each in enumerate(constraints):
        where, key, action = f"{field}[{index}]", each["topologyKey"], each["whenUnsatisfiable"]
        if each["maxSkew"] <= 0:
            yield invalid(f"{where}.maxSkew", each["maxSkew"], _NOT_POSITIVE)
        if not key:
            yield required(f"{where}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield unsupported(f"{where}.whenUnsatisfiable", action, _ACTIONS)
        left[key, action] -= 1
        if left[key, action]:
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        least = each.get("minDomains")
        if least is not None:
            if least <= 0:
                yield invalid(f"{where}.minDomains", least, _NOT_POSITIVE)
            if action != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield invalid(f"{where}.minDomains", least, why)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if policy in each and each[policy] not in _INCLUSIONS:
                yield unsupported(f"{where}.{policy}", each[policy], _INCLUSIONS)
        yield from _label_keys({**each, "mismatchLabelKeys": []}, where)
        yield from validate_selector(each.get("labelSelector") or {}, f"{where}.labelSelector")


# Tolerations and gates.
def validate_tolerations(tolerations: list[Json], field: str) -> Iterator[Mistake]:
    """All of them."""
    for index, each in enumerate(tolerations):
        yield from _validate_toleration(each, f"{field}[{index}]")


def _validate_toleration(toleration: Json, field: str) -> Iterator[Mistake]:
    key, operator, value = toleration.get("key", ""), toleration.get("operator", ""), toleration.get("value", "")
    effect = toleration.get("effect", "")
    if key:
        yield from (invalid(f"{field}.key", key, why) for why in label_key_complaints(key))
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{field}.operator", operator, why)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("", "Equal"):
        if complaints := label_value_complaints(value):
            yield invalid(f"{field}.operator", value, ";".join(complaints))
    elif operator == "Exists":
        if value:
            yield invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield unsupported(f"{field}.effect", effect, EFFECTS)


def validate_gates(spec: Json, field: str) -> Iterator[Mistake]:
    """Of readiness and of scheduling."""
    for index, each in enumerate(spec.get("readinessGates") or ()):
        kind = each.get("conditionType") or ""
        where = f"{field}.readinessGates[{index}].conditionType"
        yield from (invalid(where, kind, why) for why in label_key_complaints(kind))
    seen: set[str] = set()
    for index, gate in enumerate(gates_of(spec)):
        where = f"{field}.schedulingGates[{index}]"
        yield from (invalid(where, gate, why) for why in label_key_complaints(gate))
        if gate in seen:
            yield duplicate(where, gate)
        seen.add(gate)


def gates_of(spec: Json) -> list[str]:
    """The names of the gates that keep a pod from being scheduled."""
    return [each.get("name") or "" for each in spec.get("schedulingGates") or ()]
