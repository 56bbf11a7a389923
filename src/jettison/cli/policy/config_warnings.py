"""What the rules say about a configuration on a node, with the file and line of each setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from jettison.cli.policy.config_input import ConfigInput
from jettison.cli.policy.policy_input import Finding
from jettison.engine.config.kubelet_fields import ALL_KEYS, BY_KEY
from jettison.engine.foresight.trends import Fall
from jettison.engine.lint.subjects import ConfiguredNode, Objection, Severity
from jettison.engine.lint.table import check_node
from jettison.engine.node.signals import Signal

_MERGE = "mergeDefaultEvictionSettings"


def node_findings(given: ConfigInput) -> tuple[list[Finding], list[Finding]]:
    """Errors and warnings about a policy on a node: the same for `config check` and for every command that begins one.

    An error is what a kubelet would not start with, or what no node of that size can ever recover from. Of the machine
    that `config check` happens to run on both are warnings: the configuration may be for another one.
    """
    found = list(ruled_findings(given))
    errors = [finding for severity, finding in found if severity is Severity.ERROR]
    return errors, [finding for severity, finding in found if severity is Severity.WARNING]


def ruled_findings(
    given: ConfigInput, falls: Mapping[Signal, Fall] | None = None
) -> Iterator[tuple[Severity, Finding]]:
    """Everything that the rules say, in their order."""
    for rule, objection in check_node(configured_node(given, falls)):
        finding = replace(_placed(given, objection), rule=rule.name, fix=objection.fix)
        if rule.is_about_size and given.is_measured:
            yield Severity.WARNING, _of_this_machine(finding)
        else:
            yield rule.severity, finding


def configured_node(given: ConfigInput, falls: Mapping[Signal, Fall] | None = None) -> ConfiguredNode:
    """As rules look at it."""
    sources, known = given.found.sources, given.capacities
    drop_ins = {each.source.name for each in sources.drop_ins}
    documents = [each.source.document for each in sources.files]
    keys = {key for each in documents if isinstance(each, Mapping) for key in each}
    return ConfiguredNode(
        given.policy,
        known.layout,
        known.by_signal,
        given.allocatable,
        unread=tuple(sorted(keys & (ALL_KEYS - BY_KEY.keys() - {"apiVersion", "kind"}))),
        remarks=tuple(sources.warnings),
        merges_in_drop_in=given.policy.config.origins.get(_MERGE) in drop_ins,
        falls=falls or {},
    )


def _of_this_machine(finding: Finding) -> Finding:
    """What names the node's size says enough."""
    is_sized = finding.message.startswith("is not below")
    return finding if is_sized else replace(finding, message=f"on a machine like this one {finding.message}")


def _placed(given: ConfigInput, objection: Objection) -> Finding:
    key, origins = objection.where, given.policy.config.origins
    if not key and objection.message in (*given.found.sources.warnings, *given.policy.config.warnings):
        return Finding(objection.message)  # it names its place itself
    return given.found.sources.finding(key, objection.message, origins.get(key, origins.get(key.partition(".")[0], "")))
