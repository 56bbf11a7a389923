"""A `Policy` as the KubeletConfiguration it came from, and back.

A file cannot say everything that a policy can hold: some fields are flags only, a zero in a file may mean "not set",
and a file without hard thresholds is given the default ones. What reading the file again would get wrong is recorded
besides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from msgspec import field

from jettison.engine.config.kubelet_config import Source, assemble, to_document
from jettison.engine.config.kubelet_fields import API_VERSION, BY_KEY, FIELDS, KIND, Field, Kind
from jettison.engine.config.policy import PROFILES, Policy, Switches, build_policy
from jettison.engine.numbers.durations import duration_text
from jettison.errors import InputError, ManifestError, ObservationError, PolicyError
from jettison.manifests.files.decoding import Wire, convert, shortened
from jettison.values import frozen

_BY_ATTRIBUTE = {row.attribute: row for row in FIELDS}
_SWITCHES = {switch.name for switch in fields(Switches)}


class _PolicyRecord(Wire):
    kubelet_configuration: dict[str, Any]
    besides: dict[str, bool | int | str | list[str] | dict[str, str] | None] = field(default_factory=dict)
    switches: list[str] = field(default_factory=list)


def policy_record(policy: Policy) -> dict[str, Any]:
    """The profile is named for people; the switches are what counts."""
    config = policy.config
    document = to_document(config)
    read_again = assemble(Source("record", document))
    attributes = (row.attribute for row in FIELDS)
    besides = {
        attribute: _plain(getattr(config, attribute))
        for attribute in attributes
        if getattr(config, attribute) != getattr(read_again, attribute)
    }
    profile = next((name for name, switches in PROFILES.items() if switches == policy.switches), "custom")
    switches = [name for name in sorted(_SWITCHES) if getattr(policy.switches, name)]
    return {"kubeletConfiguration": document, "besides": besides, "profile": profile, "switches": switches}


def policy_from(document: object, source: str = "policy") -> Policy:
    """The recorded policy, or a ManifestError when this program does not know it."""
    try:
        return built_from(document, source)
    except (InputError, PolicyError) as error:
        raise ManifestError(f"{source}: {error}") from error


def built_from(document: object, source: str) -> Policy:
    """The same; InputError or PolicyError where the record is one and its settings are wrong."""
    record = convert(document, _PolicyRecord, source)
    unknown = [name for name in record.switches if name not in _SWITCHES]
    unknown += [name for name in record.besides if name not in _BY_ATTRIBUTE]
    if unknown:
        raise ManifestError(f"{source}: `{shortened(unknown[0])}` is not a field or switch that this program knows")
    besides = {name: _value(_BY_ATTRIBUTE[name], value, source) for name, value in record.besides.items()}
    config = replace(assemble(Source(source, record.kubelet_configuration)), **besides)
    return build_policy(config, Switches(**dict.fromkeys(record.switches, True)))


def policy_of_kubelet(configz: Mapping[str, Any], profile: str) -> Policy:
    """What `/configz` of a kubelet, or of our agent, says. It leaves out maps that are empty, and those are empty."""
    document = configz.get("kubeletconfig")
    if not isinstance(document, Mapping):
        raise ObservationError("`/configz` of the node has no `kubeletconfig`")
    own = configz.get("jettison")
    try:
        if isinstance(own, Mapping):
            return policy_from({**own, "kubeletConfiguration": document}, "configz")
        known = {key: value for key, value in document.items() if key in BY_KEY}
        whole = {"evictionHard": {}, **known, "apiVersion": API_VERSION, "kind": KIND}
        return build_policy(assemble(Source("configz", whole)), PROFILES[profile])
    except (ManifestError, PolicyError) as error:
        raise ObservationError(f"the node's configuration cannot be read: {error}") from error


LIVE = frozenset(
    {
        "eviction_hard",
        "eviction_soft",
        "eviction_soft_grace_period",
        "eviction_minimum_reclaim",
        "eviction_max_pod_grace_period",
        "eviction_pressure_transition_period",
        "merge_default_eviction_settings",
        "image_gc_high_threshold",
        "image_gc_low_threshold",
        "image_minimum_gc_age",
        "image_maximum_gc_age",
        "minimum_container_ttl",
        "maximum_dead_containers_per_container",
        "maximum_dead_containers",
    }
)
"""What may change while a node runs. The rest is how the machine was divided, and in cgroups by now."""

_UNSET = "not set"


@frozen
class SettingChange:
    """One value, or one entry of a map, that is another in a new policy."""

    key: str
    old: str
    new: str
    is_live: bool


def policy_changes(old: Policy, new: Policy) -> list[SettingChange]:
    """In the order of the fields."""
    found = []
    for row in FIELDS:
        before, after = getattr(old.config, row.attribute), getattr(new.config, row.attribute)
        name = row.key or f"--{row.flag}"
        if row.kind in (Kind.THRESHOLDS, Kind.PAIRS):
            for key in sorted({*(before or ()), *(after or ())}):
                values = (before or {}).get(key, _UNSET), (after or {}).get(key, _UNSET)
                found.append(SettingChange(f"{name}.{key}", *values, row.attribute in LIVE))
        else:
            found.append(SettingChange(name, _text(row, before), _text(row, after), row.attribute in LIVE))
    if old.switches != new.switches:
        found.append(SettingChange("--profile", _switches(old), _switches(new), is_live=False))
    return [each for each in found if each.old != each.new]


def with_live_changes(old: Policy, new: Policy) -> Policy:
    """The old policy with what may change while a node runs, or a PolicyError where the two do not go together."""
    changed = {attribute: getattr(new.config, attribute) for attribute in LIVE}
    return build_policy(replace(old.config, **changed, origins=new.config.origins), old.switches)


def _text(row: Field, value: Any) -> str:
    if row.kind is Kind.DURATION and isinstance(value, int):
        return duration_text(value)
    if isinstance(value, tuple):
        return ",".join(value) or _UNSET
    return str(value).lower() if isinstance(value, bool) else str(value) or _UNSET


def _switches(policy: Policy) -> str:
    return ", ".join(name for name in sorted(_SWITCHES) if getattr(policy.switches, name)) or "kubelet"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


_TYPES: Mapping[Kind, type] = {
    Kind.THRESHOLDS: dict,
    Kind.PAIRS: dict,
    Kind.TEXTS: list,
    Kind.TEXT: str,
    Kind.BOOL: bool,
    Kind.DURATION: int,
    Kind.INT32: int,
    Kind.INT64: int,
}


def _value(row: Field, value: object, source: str) -> Any:
    expected = _TYPES[row.kind]
    if value is None and expected is dict:
        return None
    if not isinstance(value, expected) or isinstance(value, bool) != (expected is bool):
        raise ManifestError(f"{source}: `{row.attribute}` is {type(value).__name__}, expected {expected.__name__}")
    return tuple(value) if isinstance(value, list) else value
