"""What the rules of docs/lint.md find in files, in a cluster and on a node, and what a configuration would evict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.foresight.agent_node import look_at_agent, past_of
from jettison.cli.foresight.lint import SARIF
from jettison.cli.foresight.lint_input import FoundAt, Gathered, gather, gather_from_cluster
from jettison.cli.foresight.sarif import sarif
from jettison.cli.inspect.watched_node import find_node
from jettison.cli.options.kubelet_flags import ConfigArguments
from jettison.cli.output import JSON, Remarks, emit, print_document
from jettison.cli.policy.config import config_findings
from jettison.cli.policy.config_input import ConfigInput, NodeArguments, on_node
from jettison.cli.policy.config_warnings import ruled_findings
from jettison.cli.policy.node_source import (
    NodeSource,
    asked,
)
from jettison.cli.policy.policy_input import Finding, counted, load_policy, read_sources
from jettison.cli.policy.ranking_report import pod_data
from jettison.cli.policy.seen_node import SeenNode
from jettison.engine.config.policy import PROFILES
from jettison.engine.foresight.edits import EvictionStep, evictions_now, under
from jettison.engine.foresight.trends import Fall, largest_fall
from jettison.engine.lint.subjects import Severity
from jettison.engine.lint.table import BY_NAME, UNREADABLE, check_objects
from jettison.engine.node.signals import Signal
from jettison.errors import InputError
from jettison.values import frozen

_LEVELS = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
_ABOUT_OUR_NODES = "unheeded-setting"
Found = list[tuple[Severity, Finding]]


@frozen
class Question:
    """What the command line asks for."""

    paths: tuple[str, ...]
    kube: bool
    against_live: bool
    ignore: tuple[str, ...]
    told: Mapping[str, str | None]
    source: NodeSource
    node_name: str | None
    state_dir: Path


def answer(asked_for: Question, seen: SeenNode | None, output: str, remarks: Remarks) -> list[Severity]:
    """Print what was found on the node `seen` and elsewhere; the severities of it."""
    _check_names(asked_for.ignore)
    source, kube, against_live = asked_for.source, asked_for.kube, asked_for.against_live
    gathered = gather(asked_for.paths)
    for each in gathered.idle:
        remarks.warnings.append(f"{each}: holds neither a KubeletConfiguration nor an object that a rule is about")
    if kube:
        _join(gathered, asked(source.overrides, source.request_seconds, gather_from_cluster))
    configs = _configs(source, gathered)
    if not configs and not asked_for.paths and not kube and not source.cluster_node:
        raise click.UsageError("name a file or a directory, or --kube for a cluster, or a flag of the kubelet")
    if against_live and len(configs) != 1:
        raise InputError(f"--against-live takes one configuration, and there are {len(configs)}")
    if against_live and seen is None:
        seen = look_at_agent(find_node(asked_for.state_dir, asked_for.node_name), remarks)
    falls = _falls(asked_for.state_dir, asked_for.node_name)
    found: Found = []
    for config in configs:
        found += config_findings(config, _node_arguments(source, asked_for.told, seen), falls)
    if source.cluster_node and not configs and seen is not None:
        found += _of_live_config(seen, source, asked_for.told, falls)
    found += _of_objects(gathered)
    found = [(severity, finding) for severity, finding in found if finding.rule not in asked_for.ignore]
    preview = _preview(configs[0], seen) if against_live and seen is not None and not _has_errors(found) else None
    _print(found, preview, output, remarks, gathered)
    return [severity for severity, _ in found]


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if name not in BY_NAME:
            raise InputError(f"--ignore: there is no rule `{name}`, docs/lint.md has all of them")


def _join(gathered: Gathered, more: Gathered) -> None:
    gathered.documents += more.documents
    gathered.places |= more.places


def _configs(source: NodeSource, gathered: Gathered) -> list[ConfigArguments]:
    """Each file with the same drop-ins and flags; or those alone."""
    given = source.config
    files = [*gathered.configs, *([given.file] if given.file is not None else [])]
    if not files and (given.directory or given.flags):
        return [given]
    return [replace(given, file=each) for each in files]


def _node_arguments(source: NodeSource, told: Mapping[str, str | None], seen: SeenNode | None) -> NodeArguments:
    if seen is None:
        return NodeArguments(source.summary_path, source.image_fs, told)
    return NodeArguments(None, source.image_fs, told, seen.case.snapshot.node)


def _falls(state_dir: Path, node_name: str | None) -> Mapping[Signal, Fall]:
    if node_name is None:
        return {}
    series = past_of(find_node(state_dir, node_name), None).series
    found = {signal: largest_fall(each.samples) for signal, each in series.items()}
    return {signal: fall for signal, fall in found.items() if fall is not None}


def _of_live_config(
    seen: SeenNode, source: NodeSource, told: Mapping[str, str | None], falls: Mapping[Signal, Fall]
) -> Iterator[tuple[Severity, Finding]]:
    """The configuration that the node itself says it goes by.

    It names every default, so it does not show which settings an operator asked for; and on a kubelet's node a setting
    that a node of ours does not heed has its effect.
    """
    given: ConfigInput = on_node(seen.found, _node_arguments(source, told, seen))
    for severity, finding in ruled_findings(given, falls):
        if finding.rule != _ABOUT_OUR_NODES:
            yield severity, replace(finding, source=finding.source or f"node {seen.name}")


def _of_objects(gathered: Gathered) -> Found:
    objects = gathered.objects()
    found: Found = [
        (UNREADABLE.severity, Finding(said, source=place.source, line=place.line, rule=UNREADABLE.name))
        for place, said in gathered.broken
    ]
    for rule, objection in check_objects(objects):
        place = gathered.places.get(objection.where, FoundAt(""))
        finding = Finding(objection.message, objection.where, None, place.source, place.line, rule.name, objection.fix)
        found.append((rule.severity, finding))
    return found


def _has_errors(found: Found) -> bool:
    """Of the configuration: then there is no policy to try."""
    return any(finding.rule == "invalid-setting" for _, finding in found)


@frozen
class _Preview:
    """What the edit would do to the node: now, and once soft thresholds have been crossed for their time."""

    node: str
    now: list[EvictionStep]
    later: list[EvictionStep]
    # Uids of those that go under the present policy as well.
    anyway: frozenset[str]


def _preview(config: ConfigArguments, seen: SeenNode) -> _Preview:
    profile = next((name for name, switches in PROFILES.items() if switches == seen.case.policy.switches), "kubelet")
    policy = load_policy(read_sources(config), PROFILES[profile])
    case = under(seen.case, policy)
    now = list(evictions_now(case))
    gone = {step.pod.uid for step in now}
    later = [step for step in evictions_now(case, after_grace=True) if step.pod.uid not in gone]
    anyway = frozenset(step.pod.uid for step in evictions_now(seen.case, after_grace=True))
    return _Preview(seen.name, now, later, anyway)


def _preview_lines(preview: _Preview) -> Iterator[str]:
    count = len(preview.now)
    pods = "no pod" if not count else "this pod" if count == 1 else f"these {count} pods"
    yield f"this configuration would evict {pods} from node {preview.node} now{':' if count else ''}"
    yield from (_step_line(step, preview) for step in preview.now)
    if preview.later:
        more = counted(len(preview.later), "pod")
        yield f"and {more} once soft thresholds have been crossed for their grace periods:"
        yield from (_step_line(step, preview) for step in preview.later)


def _step_line(step: EvictionStep, preview: _Preview) -> str:
    because = "a limit of its own" if step.consequence.starved is None else str(step.consequence.starved)
    also = ", as the present one does" if step.pod.uid in preview.anyway else ""
    return printable(f"  {step.pod} for {because}{also}")


def _preview_data(preview: _Preview) -> dict[str, Any]:
    def steps(row: list[EvictionStep]) -> list[dict[str, Any]]:
        return [
            {
                **pod_data(step.pod),
                "threshold": None if step.consequence.starved is None else str(step.consequence.starved),
                "alsoNow": step.pod.uid in preview.anyway,
            }
            for step in row
        ]

    return {"node": preview.node, "evictsNow": steps(preview.now), "evictsAfterGrace": steps(preview.later)}


def _print(found: Found, preview: _Preview | None, output: str, remarks: Remarks, gathered: Gathered) -> None:
    if output == SARIF:
        print_document(JSON, sarif(found))
        return

    def text() -> str:
        lines = list(_lines(found, gathered))
        return "\n".join([*lines, *(("", *_preview_lines(preview)) if preview is not None else ())])

    def data() -> dict[str, Any]:
        return {
            "kind": "LintFindings",
            "findings": [{"severity": severity.value, **finding.data()} for severity, finding in found],
            "againstLive": None if preview is None else _preview_data(preview),
        }

    emit(output, remarks, text, data)


def _lines(found: Found, gathered: Gathered) -> Iterator[str]:
    for severity in _LEVELS:
        for each, finding in found:
            if each is severity:
                yield printable(f"{severity}: {finding} [{finding.rule}]")
                if finding.fix:
                    yield printable(f"  fix: {finding.fix}")
    counts = [counted(sum(each is severity for each, _ in found), severity.value) for severity in _LEVELS]
    files = f"; {counted(gathered.files, 'file')}" if gathered.files else ""
    yield f"{', '.join(counts)}{files}"
