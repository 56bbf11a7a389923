"""Guards a node until it is told to stop: all that `jettison up` is once its command line has been read."""

from __future__ import annotations

import asyncio
import signal
import sys

from jettison.agent.policy_records import policy_from
from jettison.agent.safe_text import printable
from jettison.agent.sinks.log import LogSink
from jettison.cli.host_node import HostNode, NodeOptions
from jettison.cli.orders import Orders
from jettison.errors import JettisonError


def guard(orders: Orders) -> int:
    """The exit code."""
    log = LogSink(sys.stderr.fileno(), is_verbose=orders.is_verbose)
    try:
        asyncio.run(_guard(_options(orders), log))
    except JettisonError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return error.exit_code
    finally:
        log.close()
    return 0


async def _guard(options: NodeOptions, log: LogSink) -> None:
    node = await HostNode.open(options, log)
    if options.listen is not None and node.port is not None:
        print(f"listening on {_url(options.listen[0], node.port)}", file=sys.stderr, flush=True)
    running = asyncio.create_task(node.run())
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
    finally:
        await node.close()


def _options(orders: Orders) -> NodeOptions:
    return NodeOptions(
        orders.settings,
        policy_from(orders.policy),
        orders.manifests,
        orders.static_manifests,
        orders.labels,
        orders.taints,
        orders.readmits,
        orders.is_dry_run,
        orders.listen,
        owns_process=True,
    )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
