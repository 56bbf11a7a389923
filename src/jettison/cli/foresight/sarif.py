"""Findings as SARIF 2.1.0, the format in which code scanners report to review tools."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jettison import __version__
from jettison.cli.policy.policy_input import Finding
from jettison.engine.lint.subjects import Severity
from jettison.engine.lint.table import RULES, LintRule

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PLACES = {rule.name: place for place, rule in enumerate(RULES)}


def sarif(found: Sequence[tuple[Severity, Finding]]) -> dict[str, Any]:
    """One run with every rule of the table and every finding."""
    driver = {
        "name": "jettison",
        "version": __version__,
        "rules": [_rule(rule) for rule in RULES],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(severity, finding) for severity, finding in found],
            }
        ],
    }


def _rule(rule: LintRule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.summary},
        "help": {"text": f"docs/lint.md#{rule.name}"},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"needs": rule.needs.value},
    }


def _address(path: str) -> str:
    """A relative address for a relative path, so that a review tool finds the file in its own copy."""
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


def _result(severity: Severity, finding: Finding) -> dict[str, Any]:
    fix = f" Fix: {finding.fix}." if finding.fix else ""
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": _PLACES[finding.rule],
        "level": severity.value,
        "message": {"text": f"{finding.said}{fix}"},
    }
    location: dict[str, Any] = {}
    # A flag, a cluster or a node is no file.
    if finding.source and Path(finding.source).is_file():
        place: dict[str, Any] = {"artifactLocation": {"uri": _address(finding.source)}}
        if finding.line:
            place["region"] = {"startLine": finding.line}
        location["physicalLocation"] = place
    if finding.key:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.key}]
    if location:
        result["locations"] = [location]
    return result
