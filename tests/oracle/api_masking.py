"""What differs from cluster to cluster, made equal: uids, versions, times, names that were drawn by lot.

The recorded answers are masked in the same way. Of an object they hold only some fields, by path; what they do not
hold is not compared.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]

_UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_VERSIONS = (
    re.compile(r"(in record \()\d+(?=\))"),
    re.compile(r"(too old resource version: \d+ \()\d+(?=\))"),
    re.compile(r"(ResourceVersion in the precondition \()\d+(?=\))"),
)
_FILTER = re.compile(r"(\w+)\[(\w+)=([^\]]+)\]")
# Clocks of two processes, and the second that both are rounded to.
_LEEWAY_SECONDS = 3


class Mask:
    """Knows what one run of a scenario calls its namespace and its pods."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.names: dict[str, str] = {}

    def text(self, text: str) -> str:
        text = _TIME.sub("<time>", _UID.sub("<uid>", text)).replace(self.namespace, "<ns>")
        for name, value in self.names.items():
            text = text.replace(value, f"<{name}>")
        for pattern in _VERSIONS:
            text = pattern.sub(r"\1<rv>", text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            masked = {k: self.value(v, k) for k, v in value.items() if k not in ("managedFields", "selfLink")}
            if isinstance(value.get("deletionTimestamp"), str) and "deletionGracePeriodSeconds" in value:
                is_due = _is_due(value["deletionTimestamp"], value["deletionGracePeriodSeconds"])
                masked["deletionTimestamp"] = "<now+grace>" if is_due else "<time>"
            return masked
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        if not isinstance(value, str):
            return value
        if value and key in ("resourceVersion", "continue"):
            return "<rv>" if key == "resourceVersion" else "<continue>"
        return self.text(value)

    def unmask(self, value: Any) -> Any:
        """A recorded request with this run's names in it."""
        if isinstance(value, dict):
            return {self.unmask(k): self.unmask(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.unmask(item) for item in value]
        if not isinstance(value, str):
            return value
        for name, real in {**self.names, "ns": self.namespace, "time": now_text()}.items():
            value = value.replace(f"<{name}>", real)
        return value


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_due(text: str, grace: int) -> bool:
    left = datetime.fromisoformat(text) - datetime.now(UTC)
    return abs(left.total_seconds() - grace) <= _LEEWAY_SECONDS


def at_path(value: Any, path: str) -> Any:
    """`status.conditions[type=Ready].status`, `spec.containers.0.image`; None behind what is empty."""
    for step in path.split("."):
        found = _FILTER.fullmatch(step)
        if found:
            items = value.get(found[1]) if isinstance(value, dict) else None
            value = next((each for each in items or () if each.get(found[2]) == found[3]), None)
        elif isinstance(value, list) and step.isdigit():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return "<absent>"
        if value is None:
            return None
    return value


def like(recorded: Any, answer: Any) -> Any:
    """As much of a masked answer as was recorded of the other one."""
    if not isinstance(recorded, dict) or not isinstance(answer, dict):
        return answer
    if "columnDefinitions" in recorded and "columnDefinitions" in answer:
        return _table(answer)
    if answer.get("kind") == "Status" or recorded.get("kind") == "Status":
        return answer
    if isinstance(recorded.get("items"), list) and isinstance(answer.get("items"), list):
        return {**answer, "items": _items(recorded["items"], answer["items"])}
    if isinstance(recorded.get("resources"), list) and isinstance(answer.get("resources"), list):
        return {**{key: answer.get(key) for key in recorded}, "resources": _resources(recorded, answer)}
    return {path: at_path(answer, path) for path in recorded}


def _items(recorded: list[Json], items: list[Json]) -> list[Json]:
    paths = list(recorded[0]) if recorded else ["metadata.name"]
    ordered = sorted(items, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
    return [{path: at_path(each, path) for path in paths} for each in ordered]


def _resources(recorded: Json, answer: Json) -> list[Json]:
    """Kubernetes serves more than we do, and the recording holds only what matters here."""
    found = {each["name"]: each for each in answer["resources"]}
    return [{key: found.get(each["name"], {}).get(key) for key in each} for each in recorded["resources"]]


def _table(table: Json) -> Json:
    columns = [
        {key: each.get(key) for key in ("name", "type", "format", "priority")} for each in table["columnDefinitions"]
    ]
    names = [each["name"] for each in columns]
    rows = [
        ["<age>" if name == "Age" else cell for name, cell in zip(names, row["cells"], strict=True)]
        for row in table["rows"]
    ]
    first = table["rows"][0].get("object") if table["rows"] else None
    return {
        "kind": table["kind"],
        "apiVersion": table["apiVersion"],
        "columnDefinitions": columns,
        "rows": sorted(rows, key=lambda row: str(row[0])),
        "rowObjectKind": (first or {}).get("kind"),
    }


def differences(expected: Any, found: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Where two values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = sorted({*expected, *found})
        missing = "<nothing>"
        return [
            each
            for key in keys
            for each in differences(expected.get(key, missing), found.get(key, missing), f"{path}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [each for index, (one, two) in pairs for each in differences(one, two, f"{path}[{index}]")]
    return (
        [] if expected == found and isinstance(expected, bool) is isinstance(found, bool) else [(path, expected, found)]
    )
