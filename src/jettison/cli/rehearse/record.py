"""`jettison record`: what a node sees, into one file.

What makes the file (`recording`) is loaded after a cluster has been asked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from jettison.cli.cluster.connection import cluster_options, duration_ns, run_against
from jettison.cli.options.go_flags import GoCommand
from jettison.cli.options.host_options import state_dir_option
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import ApiError, InputError
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides
from jettison.runtimes.kube.node_proxy import kubelet_configuration

# Of a kubelet without debugging handlers. A node that the API does not have is named in the details.
_HAS_NO_SUCH_PATH: Final = (404, 405)


@click.command("record", cls=GoCommand, short_help="Record what a node sees, to be replayed.")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--for", "duration", default="0s", metavar="DURATION", help="How long; 0s: until Ctrl-C.")
@click.option("--anonymise", "is_anonymous", is_flag=True, help="Numbers instead of names; free texts are left out.")
@click.option("--node-name", metavar="NAME", help="A node of this machine. [default: the one whose agent runs]")
@state_dir_option
@click.option("--node", metavar="NAME", help="A node of a cluster instead, through its API and its kubelet.")
@click.option("--interval", default="10s", metavar="DURATION", show_default=True, help="Of looks at a cluster's node.")
@click.option(
    "--config", "config_file", metavar="FILE", help="Its KubeletConfiguration. [default: the kubelet is asked]"
)
@cluster_options
@click.pass_context
def command(
    context: click.Context,
    /,
    path: Path,
    duration: str,
    is_anonymous: bool,
    node_name: str | None,
    state_dir: Path,
    node: str | None,
    interval: str,
    config_file: str | None,
    overrides: Overrides,
    request_seconds: float,
) -> int:
    """Write what a node sees into FILE, until Ctrl-C: every look of its agent, or with --node the kubelet's summary.

    `jettison replay FILE` decides it again. A recording holds what the engine reads of a pod: names, requests, limits,
    priority. Commands, environment, labels and images are not in it. FILE must not exist.
    """
    seconds = duration_ns("--for", duration) / SECOND_NS or None
    if seconds is not None and seconds < 0:
        raise InputError(f"--for is `{duration}`, expected 0s or more")
    if node is None:
        for name in ("config_file", "interval"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise InputError(f"--{name.removesuffix('_file')} goes with --node: an agent has its own")
        from jettison.cli.rehearse.recording import record_agent  # noqa: PLC0415  see above

        return record_agent(state_dir, node_name, path, seconds, is_anonymous=is_anonymous)
    if node_name is not None or context.get_parameter_source("state_dir") is ParameterSource.COMMANDLINE:
        raise InputError("--node means a node of a cluster, --node-name and --state-dir mean this machine")
    pause = duration_ns("--interval", interval) / SECOND_NS
    if pause < 1:
        raise InputError(f"--interval is `{interval}`, expected 1s or more: a kubelet measures no more often")

    async def work(client: KubeClient) -> int:
        configuration = {} if config_file is not None else await _configuration(client, node)
        from jettison.cli.rehearse.recording import policy_in, policy_told, record_kubelet  # noqa: PLC0415  see above

        policy = policy_in(config_file) if config_file is not None else policy_told(configuration, node)
        return await record_kubelet(client, node, policy, path, seconds, pause, is_anonymous=is_anonymous)

    return run_against(overrides, request_seconds, work)


async def _configuration(client: KubeClient, node: str) -> Document:
    try:
        return await kubelet_configuration(client, node)
    except ApiError as error:
        if error.code not in _HAS_NO_SUCH_PATH or (error.details or {}).get("name"):
            raise
        raise InputError(
            f"the kubelet of `{node}` does not tell its configuration: {error}; --config names it"
        ) from error
