"""What `jettison relieve` is once its command line has been read. The API is asked first, and the rest is loaded when
it has answered: what watches a node takes a third of the start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from jettison.node.process.frame import knock, until_told
from jettison.node.relief_settings import ReliefSettings
from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access

if TYPE_CHECKING:
    from jettison.agent.sinks.log import LogSink
    from jettison.node.watch import Watch


def carry_out(settings: ReliefSettings) -> None:
    """Returns when it was told to stop."""
    watches: list[Watch] = []

    async def reload() -> None:
        if watches:
            await import_module("jettison.node.guarding").Reloader(lambda: watches).reload()

    until_told(lambda log: _run(settings, log, watches), is_verbose=settings.node.is_verbose, reload=reload)


async def _run(settings: ReliefSettings, log: LogSink, watches: list[Watch]) -> None:
    access = load_access(Overrides(kubeconfig=settings.kubeconfig, context=settings.context))
    async with KubeClient(access, answers=BoundedAnswers()) as client:
        # Whatever loads code comes before the agent is ready.
        await knock(client)
        await import_module("jettison.node.relief_watch").watch_until_told(settings, client, log, watches)
