"""`jettison config show`: the effective thresholds and settings, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from jettison.agent.amounts import amount_data, precise, short
from jettison.cli.inspect.pressure_report import amount_text
from jettison.cli.options.kubelet_flags import ConfigArguments, KubeletCommand
from jettison.cli.output import Remarks, emit
from jettison.cli.policy.config_input import (
    ConfigInput,
    NodeArguments,
    config_options,
    on_node,
    refuse_two_standard_inputs,
)
from jettison.cli.policy.config_warnings import node_findings
from jettison.cli.policy.node_input import LAYOUT_NAMES
from jettison.cli.policy.policy_input import PolicyInput, load_policy, read_sources
from jettison.cli.policy.provenance import GRACE, RECLAIM, Provenance, thresholds_with_provenance
from jettison.cli.tables import NOTHING, table
from jettison.engine.config.kubelet_config import to_document
from jettison.engine.config.kubelet_fields import FIELDS, Field, Kind, KubeletConfig
from jettison.engine.node.signals import ROWS
from jettison.engine.node.snapshot import Disks
from jettison.engine.numbers.durations import duration_text

_HEAD = ("SIGNAL", "TYPE", "THRESHOLD", "AMOUNT", "CAPACITY", "GRACE", "RECLAIM", "RESOLVED AT", "FROM")
_MAPS = ("eviction_hard", "eviction_soft", "eviction_soft_grace_period", "eviction_minimum_reclaim")
_ALWAYS = ("eviction_max_pod_grace_period", "eviction_pressure_transition_period")

_DISKS = {
    Disks.SHARED: "images and writable layers on nodefs",
    Disks.DEDICATED: "images and writable layers on imagefs",
    Disks.SPLIT: "images on imagefs, writable layers on nodefs",
}


@click.command("show", cls=KubeletCommand, short_help="The effective thresholds and settings.")
@config_options
def command(config: ConfigArguments, node: NodeArguments, output: str) -> None:
    """The effective thresholds of FILE, drop-ins and flags, in amounts for a node, and where each comes from.

    The node is the one of --summary or of the --capacity options; without either it is this machine.
    """
    refuse_two_standard_inputs(config, node)
    sources = read_sources(config)
    given = on_node(PolicyInput(load_policy(sources), sources), node)
    errors, warnings = node_findings(given)
    remarks = Remarks(warnings=[str(each) for each in (*errors, *warnings)])
    emit(output, remarks, lambda: _text(given), lambda: _data(given))


def _text(given: ConfigInput) -> str:
    known = given.capacities
    listed = thresholds_with_provenance(given.policy, known.layout)
    thresholds = table(_HEAD, (_row(each, given) for each in listed)) if listed else "no thresholds are set"
    settings = table(("SETTING", "VALUE", "FROM"), _settings(given))
    return f"capacities {known.origin}; {_DISKS[known.layout.disks]}\n\n{thresholds}\n\n{settings}"


def _row(each: Provenance, given: ConfigInput) -> tuple[str, ...]:
    threshold = each.threshold
    resource = ROWS[threshold.signal].resource
    capacity = given.capacities.by_signal.get(threshold.signal)
    derived = f"derived from {each.derived_from}, " if each.derived_from is not None else ""
    return (
        threshold.signal,
        "hard" if threshold.is_hard else "soft",
        amount_text(threshold.amount),
        NOTHING if capacity is None else precise(threshold.quantity(capacity), resource),
        NOTHING if capacity is None else short(capacity, resource),
        NOTHING if threshold.is_hard else duration_text(threshold.grace_ns),
        amount_text(threshold.minimum_reclaim),
        NOTHING if capacity is None else short(threshold.target(capacity), resource),
        f"{derived}{each.place(given.found) or 'default'}",
    )


def _settings(given: ConfigInput) -> Iterator[tuple[str, str, str]]:
    """Those that a source set, and the two that every eviction depends on; `-o json` has them all."""
    config = given.policy.config
    for row in FIELDS:
        name = _name(row)
        if row.attribute in _MAPS or (name not in config.origins and row.attribute not in _ALWAYS):
            continue
        yield name, _value(row, config), _place(given, name)


def _name(row: Field) -> str:
    return row.key or row.flag or row.attribute


def _place(given: ConfigInput, name: str) -> str:
    return given.found.sources.place(given.policy.config.origins.get(name, "default"), name)


def _value(row: Field, config: KubeletConfig) -> str:
    value = getattr(config, row.attribute)
    if row.kind is Kind.DURATION:
        return duration_text(value)
    if row.kind is Kind.PAIRS:
        return ",".join(f"{name}={text}" for name, text in sorted((value or {}).items()))
    if row.kind is Kind.TEXTS:
        return ",".join(value)
    return str(value).lower() if row.kind is Kind.BOOL else str(value)


def _data(given: ConfigInput) -> dict[str, Any]:
    config, known = given.policy.config, given.capacities
    document = to_document(config)
    settings = {}
    for row in FIELDS:
        name = _name(row)
        value = document.get(name) if row.key is not None else _value(row, config)
        settings[name] = {"value": value, "from": _place(given, name)}
    listed = thresholds_with_provenance(given.policy, known.layout)
    return {
        "kind": "Configuration",
        "capacitiesFrom": known.origin,
        "imageFs": LAYOUT_NAMES[known.layout],
        "thresholds": [_threshold_data(each, given) for each in listed],
        "settings": settings,
    }


def _threshold_data(each: Provenance, given: ConfigInput) -> dict[str, Any]:
    threshold, found = each.threshold, given.found
    capacity = given.capacities.by_signal.get(threshold.signal)
    amount = ROWS[threshold.signal].amount
    reclaim = threshold.minimum_reclaim
    return {
        "signal": threshold.signal.value,
        "hard": threshold.is_hard,
        "amount": str(threshold.amount),
        "gracePeriod": duration_text(threshold.grace_ns),
        "minimumReclaim": None if reclaim is None else str(reclaim),
        "derivedFrom": None if each.derived_from is None else each.derived_from.value,
        "from": each.place(found),
        "gracePeriodFrom": None if threshold.is_hard else each.place(found, GRACE),
        "minimumReclaimFrom": None if reclaim is None else each.place(found, RECLAIM),
        "capacity": None if capacity is None else amount_data(amount(capacity)),
        "threshold": None if capacity is None else amount_data(threshold.quantity(capacity)),
        "target": None if capacity is None else amount_data(threshold.target(capacity)),
    }
