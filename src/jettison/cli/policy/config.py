"""`jettison config`: eviction settings as a kubelet understands them.

`show` prints the effective thresholds and settings and where each comes from; `check` prints every error with its
place, and warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import click

from jettison.agent.amounts import amount_data
from jettison.cli.options.kubelet_flags import ConfigArguments, KubeletCommand
from jettison.cli.output import NOTHING, Remarks, emit, table
from jettison.cli.policy.config_input import (
    ConfigInput,
    NodeArguments,
    config_options,
    on_node,
    refuse_two_standard_inputs,
)
from jettison.cli.policy.config_warnings import node_findings, ruled_findings
from jettison.cli.policy.node_input import LAYOUT_NAMES
from jettison.cli.policy.policy_input import (
    Finding,
    PolicyInput,
    collect_sources,
    counted,
    inspect,
    load_policy,
    place_of,
    read_sources,
)
from jettison.cli.policy.pressure_report import amount_text
from jettison.cli.program import LazyGroup
from jettison.engine.config.kubelet_config import to_document
from jettison.engine.config.kubelet_fields import FIELDS, Field, Kind, KubeletConfig
from jettison.engine.config.policy import build_policy
from jettison.engine.config.provenance import GRACE, RECLAIM, Provenance, thresholds_with_provenance
from jettison.engine.foresight.trends import Fall
from jettison.engine.lint.subjects import Severity
from jettison.engine.lint.table import INVALID
from jettison.engine.node.amounts import precise, short
from jettison.engine.node.signals import ROWS, Signal
from jettison.engine.node.snapshot import Disks
from jettison.engine.numbers.durations import duration_text
from jettison.errors import PolicyError

COMMANDS = {
    "show": ("policy.config:show_command", "Show the effective thresholds and settings, and where each comes from."),
    "check": (
        "policy.config:check_command",
        "Report every error, then warnings; exits with 2 on errors.",
    ),
}

_HEAD = ("SIGNAL", "TYPE", "THRESHOLD", "AMOUNT", "CAPACITY", "GRACE", "RECLAIM", "RESOLVED AT", "FROM")
_MAPS = ("eviction_hard", "eviction_soft", "eviction_soft_grace_period", "eviction_minimum_reclaim")
_ALWAYS = ("eviction_max_pod_grace_period", "eviction_pressure_transition_period")

_DISKS = {
    Disks.SHARED: "images and writable layers on nodefs",
    Disks.DEDICATED: "images and writable layers on imagefs",
    Disks.SPLIT: "images on imagefs, writable layers on nodefs",
}


@click.command("config", cls=LazyGroup, lazy=COMMANDS)
def command() -> None:
    """Show or check eviction settings: a KubeletConfiguration file, drop-ins and the kubelet's flags together."""


@click.command("show", cls=KubeletCommand, short_help="The effective thresholds and settings.")
@config_options
def show_command(config: ConfigArguments, node: NodeArguments, output: str) -> None:
    """Show the effective thresholds of FILE, drop-ins and flags, in amounts for a node, and where each comes from.

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
        f"{derived}{place_of(each, given.found) or 'default'}",
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
        "from": place_of(each, found),
        "gracePeriodFrom": None if threshold.is_hard else place_of(each, found, GRACE),
        "minimumReclaimFrom": None if reclaim is None else place_of(each, found, RECLAIM),
        "capacity": None if capacity is None else amount_data(amount(capacity)),
        "threshold": None if capacity is None else amount_data(threshold.quantity(capacity)),
        "target": None if capacity is None else amount_data(threshold.target(capacity)),
    }


@click.command("check", cls=KubeletCommand, short_help="Report every error, then warnings.")
@config_options
@click.pass_context
def check_command(ctx: click.Context, config: ConfigArguments, node: NodeArguments, output: str) -> None:
    """Report every error in FILE, drop-ins and flags with its file, line, key and value; then warnings.

    Exits with 2 if there are errors, with 0 if there are none, whatever the warnings.
    """
    refuse_two_standard_inputs(config, node)
    errors, warnings = _findings(config, node)
    emit(
        output,
        Remarks(),
        lambda: _findings_text(errors, warnings),
        lambda: {
            "kind": "Findings",
            "errors": [each.data() for each in errors],
            "warnings": [each.data() for each in warnings],
        },
    )
    if errors:
        ctx.exit(PolicyError.exit_code)


def _findings(config: ConfigArguments, node: NodeArguments) -> tuple[list[Finding], list[Finding]]:
    found = list(config_findings(config, node))
    errors = [finding for severity, finding in found if severity is Severity.ERROR]
    return errors, [finding for severity, finding in found if severity is Severity.WARNING]


def config_findings(
    config: ConfigArguments, node: NodeArguments, falls: Mapping[Signal, Fall] | None = None
) -> Iterator[tuple[Severity, Finding]]:
    """Everything that is to be said about a configuration: its mistakes, or else what the rules find."""
    errors: list[Finding] = []
    sources = collect_sources(config, errors)
    effective = None
    if not errors:
        errors, effective = inspect(sources)
    if not errors and effective is not None:
        yield from ruled_findings(on_node(PolicyInput(build_policy(effective), sources), node), falls)
        return
    yield from ((Severity.ERROR, replace(each, rule=INVALID.name)) for each in errors)
    for said in (*sources.warnings, *(effective.warnings if effective is not None else ())):
        yield Severity.WARNING, Finding(said, rule="odd-file")


def _findings_text(errors: list[Finding], warnings: list[Finding]) -> str:
    lines = [f"error: {each}" for each in errors] + [f"warning: {each}" for each in warnings]
    return "\n".join((*lines, f"{counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}"))
