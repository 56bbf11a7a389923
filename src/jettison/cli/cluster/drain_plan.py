"""A drain planned: what would go when, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from jettison.cli.cluster.connection import (
    NOT_NOW,
)
from jettison.cli.output import NOTHING, Remarks, emit, table
from jettison.clock import SystemClock
from jettison.engine.drain.plan import DrainPlan, NodePlan, PodFate, PodPlan
from jettison.maintenance.drain import read_plan
from jettison.maintenance.settings import DrainSettings
from jettison.runtimes.kube.client import Document, KubeClient

_ASSUMPTION: Final = (
    "waves assume that every pod with a controller gets a replacement on another node, as healthy as it was"
)
_NO_NODE: Final = ", but no other node can take its replacement"


async def print_plan(client: KubeClient, nodes: Sequence[Document], settings: DrainSettings, output: str) -> int:
    """Read what the plan needs and print it; the exit code."""
    plan = await read_plan(client, [node["metadata"]["name"] for node in nodes], settings, SystemClock())
    emit(output, plan_remarks(plan), lambda: plan_text(plan), lambda: plan_data(plan))
    return 0 if plan.is_complete else NOT_NOW


def plan_remarks(plan: DrainPlan) -> Remarks:
    """What the plan assumes, and which pods would have no replacement although no budget forbids their eviction."""
    remarks = Remarks()
    if plan.waves > 1:
        remarks.notes.append(_ASSUMPTION)
    if plan.stranded:
        pods = "1 pod that goes" if plan.stranded == 1 else f"{plan.stranded} pods that go"
        remarks.warnings.append(f"no other node can take the replacements of {pods}: uncordon one, or add one")
    return remarks


def plan_text(plan: DrainPlan) -> str:
    """Each node with its pods, then what would unblock the blocked, then the answer in one line."""
    return "\n".join(line for node in plan.nodes for line in _node_lines(node)) + f"\n{_verdict(plan)}"


def plan_data(plan: DrainPlan) -> dict[str, Any]:
    """The same for machines; a wave is a list of pods that may go together."""
    pods = [pod for node in plan.nodes for pod in node.pods]
    return {
        "kind": "DrainPlan",
        "isComplete": plan.is_complete,
        "waves": [[str(pod.pod) for pod in pods if pod.wave == wave] for wave in range(1, plan.waves + 1)],
        "nodes": [
            {"name": node.node, "isEmptied": node.is_emptied, "pods": [_pod_data(pod) for pod in node.pods]}
            for node in plan.nodes
        ],
    }


def _pod_data(plan: PodPlan) -> dict[str, Any]:
    return {
        "namespace": plan.pod.namespace,
        "name": plan.pod.name,
        "fate": plan.fate.value,
        "wave": plan.wave or None,
        "budgets": list(plan.budgets),
        "waitsFor": list(plan.waits_for),
        "why": _why(plan),
        "remedy": plan.remedy or None,
    }


def _node_lines(node: NodePlan) -> Iterator[str]:
    yield f"node/{node.node}: {len(node.pods)} {'pod' if len(node.pods) == 1 else 'pods'}"
    if not node.pods:
        return
    # Pods in the order in which they go; those that never go stand last.
    ordered = sorted(node.pods, key=lambda pod: (pod.wave == 0, pod.wave))
    rows = [
        (
            str(pod.wave or NOTHING),
            pod.fate.value,
            str(pod.pod),
            ", ".join(pod.budgets) or NOTHING,
            _why(pod),
        )
        for pod in ordered
    ]
    yield table(("WAVE", "FATE", "POD", "BUDGET", "WHY"), rows, right=("WAVE",), indent="  ")
    for pod in ordered:
        if pod.remedy:
            yield f"  to unblock {pod.pod}: {pod.remedy}"


def _why(pod: PodPlan) -> str:
    """What decides when the pod goes; for a pod that waits, the pods that it waits for."""
    why = pod.why
    if pod.waits_for:
        replacements, are = ("replacement", "is") if len(pod.waits_for) == 1 else ("replacements", "are")
        why = f"after the {replacements} of {', '.join(pod.waits_for)} {are} Ready"
    return f"{why}{_NO_NODE}" if pod.is_stranded else why


def _verdict(plan: DrainPlan) -> str:
    pods = [pod for node in plan.nodes for pod in node.pods]
    going = sum(pod.wave > 0 for pod in pods)
    waves = (
        f"{going} {'pod goes' if going == 1 else 'pods go'} in {plan.waves} {'wave' if plan.waves == 1 else 'waves'}"
    )
    if plan.is_complete:
        return f"the drain would finish: {waves}"
    stuck = sum(pod.fate in (PodFate.BLOCKED, PodFate.REFUSED) for pod in pods)
    return f"the drain would not finish: {waves}, {stuck} {'stays' if stuck == 1 else 'stay'}"
