"""A recording made: of an agent of this machine, or of a kubelet, until Ctrl-C or for as long as is asked."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from jettison.agent.http.client import fetch
from jettison.agent.safe_text import printable
from jettison.cli.inspect.watched_node import WatchedNode, find_node
from jettison.cli.options.kubelet_flags import ConfigArguments
from jettison.cli.output import Remarks, remark
from jettison.cli.policy.policy_input import read_policy
from jettison.clock import SystemClock
from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, KIND
from jettison.engine.config.policy import PROFILES, Policy, build_policy
from jettison.errors import ObservationError
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.simulator.recordings import RecordingWriter
from jettison.simulator.taping import Taped, TapeFile, Until, tape_agent, tape_kubelet

_PATIENCE_SECONDS = 30.0


def record_agent(
    state_dir: Path, node_name: str | None, path: Path, seconds: float | None, *, is_anonymous: bool
) -> int:
    """Every look of the agent; the exit code."""
    node = find_node(state_dir, node_name)
    if not node.is_live:
        raise ObservationError(f"no agent runs for node `{node.name}`")

    async def work() -> Taped:
        with RecordingWriter(path) as writer:
            output = TapeFile(writer, is_anonymous=is_anonymous)
            await tape_agent(_asking(node, "POST", "/orders/"), _asking(node, "GET", ""), output, _stop(seconds))
        return output.taped

    return _told(asyncio.run(work()), path)


async def record_kubelet(
    client: KubeClient,
    node: str,
    policy: Policy,
    path: Path,
    seconds: float | None,
    pause: float,
    *,
    is_anonymous: bool,
) -> int:
    """Its summary and the node's pods, after each pause; the exit code."""
    with RecordingWriter(path) as writer:
        output = TapeFile(writer, is_anonymous=is_anonymous)
        await tape_kubelet(client, node, policy, output, _stop(seconds), pause, SystemClock())
    return _told(output.taped, path)


def policy_in(config_file: str) -> Policy:
    """Of a file; what is doubtful in it is said."""
    remarks = Remarks()
    found = read_policy(ConfigArguments(config_file), "kubelet", remarks).policy
    for each in remarks.warnings:
        remark("warning", each)
    return found


def policy_told(configuration: Document, node: str) -> Policy:
    """Of what the kubelet says that it goes by."""
    whole = {**configuration, "apiVersion": API_VERSION, "kind": KIND}
    return build_policy(assemble(Source(f"configz of {node}", whole)), PROFILES["kubelet"])


def _asking(node: WatchedNode, method: str, prefix: str) -> Callable[[str], Awaitable[bytes]]:
    """In a thread: a starving node may take seconds, and Ctrl-C must be heard meanwhile."""

    def ask(target: str) -> bytes:
        answer = fetch(node.directory / "agent.sock", f"{prefix}{target}", timeout=_PATIENCE_SECONDS, method=method)
        if answer.status != 200:
            raise ObservationError(answer.body.decode(errors="replace").strip()[:500])
        return answer.body

    def asked(target: str) -> Coroutine[Any, Any, bytes]:
        return asyncio.to_thread(ask, target)

    return asked


def _stop(seconds: float | None) -> Until:
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return Until(seconds, event)


def _told(taped: Taped, path: Path) -> int:
    if taped.end:
        remark("warning", taped.end)
    looks = "1 look" if taped.looks == 1 else f"{taped.looks} looks"
    click.echo(printable(f"{path}: {looks}, {taped.size} bytes"))
    return 1 if taped.end else 0
