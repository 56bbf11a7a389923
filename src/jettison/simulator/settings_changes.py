"""A policy with some of its settings changed, for rehearsals: `evictionHard.memory.available=300Mi`.

A key is the field's name in a KubeletConfiguration, and behind the first dot the entry where the field is a map.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jettison.agent.journal.policy_records import built_from, policy_record
from jettison.engine.config.kubelet_fields import FIELDS, Field, Kind
from jettison.engine.config.policy import PROFILES, Policy, build_policy
from jettison.engine.config.suggestions import did_you_mean, setting_advice
from jettison.errors import InputError, ManifestError, PolicyError
from jettison.manifests.files.decoding import shortened

_BY_KEY = {row.key: row for row in FIELDS if row.key is not None}
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_MAPS = (Kind.THRESHOLDS, Kind.PAIRS)


def parse_setting(text: str) -> tuple[str, str]:
    """`key=value`; both are looked at when they are applied."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise InputError(f"`{shortened(text)}`: expected KEY=VALUE, for example evictionHard.memory.available=300Mi")
    row_of(key)
    return key, value


def row_of(key: str) -> Field:
    """The field that a key is about."""
    name, dot, entry = key.partition(".")
    row = _BY_KEY.get(name)
    if row is None:
        raise InputError(f"`{shortened(name)}` is no setting of a KubeletConfiguration{did_you_mean(name, _BY_KEY)}")
    if (row.kind in _MAPS) != bool(dot and entry):
        wanted = f"an entry, for example {name}.memory.available" if row.kind in _MAPS else "no entry"
        raise InputError(f"`{shortened(key)}`: `{name}` takes {wanted}")
    return row


def with_settings(policy: Policy, settings: Sequence[tuple[str, str]], source: str = "--set") -> Policy:
    """The same policy with these; an empty value takes an entry away. Raises InputError."""
    if not settings:
        return policy
    record: dict[str, Any] = policy_record(policy)
    document = record["kubeletConfiguration"] = dict(record["kubeletConfiguration"])
    besides = record["besides"] = dict(record["besides"])
    for key, text in settings:
        row, (name, _, entry) = row_of(key), key.partition(".")
        if row.kind in _MAPS:
            known = besides.pop(row.attribute, None) or document.get(name) or {}
            entries = {**known, entry: text}
            document[name] = {each: value for each, value in entries.items() if value != "" or each != entry}
        else:
            besides.pop(row.attribute, None)
            document[name] = _value(row, name, text)
    written = shortened(", ".join(f"{key}={text}" for key, text in settings))
    try:
        return built_from(record, source)
    except PolicyError as error:
        values = dict(settings)
        said = "; ".join(setting_advice(each.text, each.key, values.get(each.key)) for each in error.complaints)
        raise InputError(f"{source} {written}: {said}") from error
    except ManifestError as error:
        raise InputError(f"{source} {written}: {str(error).removeprefix(f'{source}: ')}") from error


def with_profile(policy: Policy, profile: str) -> Policy:
    """The same settings by other rules."""
    return build_policy(policy.config, PROFILES[profile])


def _value(row: Field, name: str, text: str) -> object:
    if row.kind is Kind.BOOL:
        if text not in ("true", "false"):
            raise InputError(f"{name} is `{shortened(text)}`, expected true or false")
        return text == "true"
    if row.kind in (Kind.INT32, Kind.INT64):
        # Python would also take `1_000`, and digits of other alphabets.
        if not _WHOLE.fullmatch(text):
            raise InputError(f"{name} is `{shortened(text)}`, expected a whole number")
        return int(text)
    return text.split(",") if row.kind is Kind.TEXTS else text
