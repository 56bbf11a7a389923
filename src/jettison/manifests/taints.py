"""Taints of a node and tolerations of a pod, as plain JSON, to engine values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jettison.engine.scheduling.taints import Taint, Toleration


def taints_from(node: Mapping[str, Any]) -> tuple[Taint, ...]:
    """All of them, in the node's order."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(each.get("key") or "", each.get("value") or "", each.get("effect") or "") for each in taints)


def tolerations_from(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    """Of the spec of a pod or of a template."""
    return tuple(
        Toleration(
            each.get("key") or "",
            each.get("operator") or "",
            each.get("value") or "",
            each.get("effect") or "",
            each.get("tolerationSeconds"),
        )
        for each in spec.get("tolerations") or ()
    )
