"""`jettison drain`: empty nodes through the budgets, with the flags of kubectl drain.

`--plan` changes nothing and prints how the drain would go, as a table or as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Final

import click

from jettison.cli.cluster.connection import (
    FAILED,
    NOT_NOW,
    Console,
    KubectlCommand,
    cluster_options,
    dry_run_option,
    duration_ns,
    grace_period_option,
    grace_seconds,
    progress_option,
    read_dry_run,
    run_against,
    within,
)
from jettison.cli.cluster.cordon import check_nodes, node_arguments, read_nodes
from jettison.cli.options.go_flags import WholeNumber, go_switch
from jettison.cli.output import NOTHING, Remarks, emit, output_option, table
from jettison.clock import SystemClock
from jettison.engine.drain.filters import DrainRules
from jettison.engine.drain.plan import DrainPlan, NodePlan, PodFate, PodPlan
from jettison.engine.labels.selectors import parse_label_selector
from jettison.errors import InputError, JettisonError
from jettison.maintenance.drain import drain_nodes, read_plan
from jettison.maintenance.settings import DrainSettings, EvictionSettings
from jettison.runtimes.kube.client import CHUNK, Document, KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides

Callback = Callable[..., Any]

_OPTIONS = (
    go_switch("--force", help="Evict also pods without a controller, and those whose DaemonSet is gone."),
    go_switch("--ignore-daemonsets", "ignores_daemon_sets", help="Leave DaemonSets' pods instead of refusing."),
    go_switch(
        "--delete-emptydir-data",
        "deletes_empty_dirs",
        help="Evict also pods with emptyDir volumes, whose data is lost.",
    ),
    go_switch("--disable-eviction", "deletes", help="Delete the pods instead of evicting them; budgets are ignored."),
    grace_period_option,
    click.option(
        "--timeout", default="0s", metavar="DURATION", help="The limit for each node, all waits included; 0s: no limit."
    ),
    click.option("--pod-selector", default="", metavar="LABELS", help="Evict only pods with these labels."),
    click.option(
        "--skip-wait-for-delete-timeout",
        "skip_wait_seconds",
        type=WholeNumber(),
        default=0,
        metavar="SECONDS",
        help="Above 0, do not wait for pods that have been ending for longer than this.",
    ),
    click.option(
        "--chunk-size",
        "chunk",
        type=WholeNumber(),
        default=CHUNK,
        show_default=True,
        help="Objects per list request; 0: all.",
    ),
    dry_run_option,
)

_ASSUMPTION: Final = (
    "waves assume that every pod with a controller gets a replacement on another node, as healthy as it was"
)
_NO_NODE: Final = ", but no other node can take its replacement"


def drain_options(command: Callback) -> Callback:
    """The command gets `settings: DrainSettings`."""

    @wraps(command)
    def collected(*arguments: Any, **options: Any) -> Any:
        return command(*arguments, settings=_settings(options), **options)

    decorated: Callback = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _settings(options: dict[str, Any]) -> DrainSettings:
    """Takes its own out of the options."""
    skip_wait_seconds = options.pop("skip_wait_seconds")
    return DrainSettings(
        rules=DrainRules(
            force=options.pop("force"),
            ignores_daemon_sets=options.pop("ignores_daemon_sets"),
            deletes_empty_dirs=options.pop("deletes_empty_dirs"),
            skip_wait_seconds=skip_wait_seconds,
        ),
        eviction=EvictionSettings(
            grace_seconds=grace_seconds(options.pop("grace_period")),
            timeout_ns=duration_ns("--timeout", options.pop("timeout")),
            dry_run=read_dry_run(options.pop("dry_run_text")),
            skip_wait_seconds=skip_wait_seconds,
        ),
        pod_selector=_checked(options.pop("pod_selector")),
        deletes=options.pop("deletes"),
        chunk=options.pop("chunk"),
    )


def _checked(pod_selector: str) -> str:
    try:
        parse_label_selector(pod_selector)
    except InputError as error:
        raise JettisonError("--pod-selector=<pod_selector> must be a valid label selector") from error
    return pod_selector


@click.command("drain", cls=KubectlCommand, short_help="Empty nodes through the budgets, or plan it.")
@node_arguments
@click.option(
    "--plan", "is_plan", is_flag=True, help="Change nothing, say which pod goes when; exit 3: it would not finish."
)
@output_option
@drain_options
@progress_option
@cluster_options
def command(
    names: Sequence[str],
    selector: str,
    is_plan: bool,
    output: str,
    settings: DrainSettings,
    progress: bool | None,
    overrides: Overrides,
    request_seconds: float,
) -> int:
    """Cordon the nodes, then evict their pods one node after the other, waiting wherever a budget says so.

    \b
    jettison drain n1 --ignore-daemonsets --plan && jettison drain n1 --ignore-daemonsets --timeout=10m
    """
    check_nodes("drain", names, selector)

    async def work(client: KubeClient) -> int:
        nodes = await read_nodes(client, names, selector, settings.chunk)
        if nodes is None:
            return FAILED
        if is_plan:
            return await _plan(client, nodes, settings, output)
        is_done = await drain_nodes(client, nodes, settings, Console(progress), SystemClock())
        return 0 if is_done else FAILED

    return run_against(overrides, within(request_seconds, settings.eviction.timeout_ns), work)


async def _plan(client: KubeClient, nodes: Sequence[Document], settings: DrainSettings, output: str) -> int:
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
