"""Where a node is looked for: in files, or in a cluster; the options that say so, and the questions to a cluster.

What judges the answers (`seen_node`) is loaded when they are there, so that the first question goes out 60 ms earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from jettison.cli.cluster.connection import cluster_options
from jettison.cli.extras import require
from jettison.cli.options.kubelet_flags import ConfigArguments, config_option, kubelet_options
from jettison.cli.output import Remarks
from jettison.errors import InputError
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from jettison.runtimes.kube.node_proxy import NodeAnswers, ask_node
from jettison.values import frozen

if TYPE_CHECKING:
    from jettison.cli.policy.seen_node import SeenNode

Callback = Callable[..., Any]

STANDARD_INPUT = "-"
IMAGE_FILESYSTEMS = ("shared", "dedicated", "split")
PROFILE_NAMES = ("kubelet", "improved")
SIGNAL_NAMES = (
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
)


@frozen
class NodeSource:
    """Where the command line says that the node is to be looked for; nowhere: on this machine."""

    summary_path: str | None
    pods_path: str | None
    config: ConfigArguments
    image_fs: str
    profile: str
    cluster_node: str
    overrides: Overrides
    request_seconds: float
    history_path: str | None = None
    after_path: str | None = None

    @property
    def is_elsewhere(self) -> bool:
        """In files or in a cluster."""
        return bool(self.cluster_node) or self.is_in_files

    @property
    def is_in_files(self) -> bool:
        """In files, or in one of the two that are needed."""
        return self.summary_path is not None or self.pods_path is not None

    def refuse_settings(self) -> None:
        """Of a node of this machine, which has its own: an answer must not seem to be about those that were given."""
        config = self.config
        given = {
            "--config": config.file,
            "--config-dir": config.directory,
            **{f"--{flag}": flag for flag, _ in config.flags},
            "--history": self.history_path,
            "--after-reclaim": self.after_path,
            "--image-fs": None if self.image_fs == "auto" else self.image_fs,
            "--profile": None if self.profile == PROFILE_NAMES[0] else self.profile,
        }
        named = next((option for option, value in given.items() if value is not None), None)
        if named is not None:
            raise InputError(
                f"{named} goes with --summary and --pods, or with --node: a node of this machine has its own"
            )

    def look(self, remarks: Remarks) -> SeenNode:
        """The node in the files, or in the cluster."""
        paths = {"--summary": self.summary_path, "--pods": self.pods_path}
        if self.cluster_node and self.is_in_files:
            raise InputError("--node is a node of a cluster, --summary and --pods are files: give one of them")
        only_one_from_standard_input({**paths, "--config": self.config.file, "--after-reclaim": self.after_path})
        answers = self._ask() if self.cluster_node else None
        from jettison.cli.policy.seen_node import node_from  # noqa: PLC0415  see above

        return node_from(self, answers, remarks)

    def _ask(self) -> NodeAnswers:
        found: NodeAnswers = asked(
            self.overrides, self.request_seconds, lambda client: ask_node(client, self.cluster_node)
        )
        return found


def only_one_from_standard_input(paths: Mapping[str, str | None]) -> None:
    """Standard input can be read once; `paths` are by option."""
    wanting = [option for option, path in paths.items() if path == STANDARD_INPUT]
    if len(wanting) > 1:
        raise InputError(f"{' and '.join(wanting)} are both `-`: only one can be read from standard input")


def asked(overrides: Overrides, seconds: float, work: Callable[[KubeClient], Any]) -> Any:
    """What `work` finds out about a cluster."""
    require(click.get_current_context().command_path, "kube")

    async def session() -> Any:
        async with KubeClient(load_access(overrides), seconds) as client:
            return await work(client)

    return asyncio.run(session())


image_fs_option = click.option(
    "--image-fs",
    type=click.Choice(["auto", *IMAGE_FILESYSTEMS]),
    default="auto",
    show_default=True,
    help="The filesystem of images: `shared` with everything else; `dedicated` to images and writable layers; `split`: "
    "for images alone. `auto` compares sizes.",
)


profile_option = click.option(
    "--profile",
    type=click.Choice(PROFILE_NAMES),
    default="kubelet",
    show_default=True,
    help="`kubelet`: exactly as Kubernetes; `improved`: without its known defects (docs/faithfulness.md).",
)
known_history_option = click.option(
    "--history", "history_path", metavar="FILE", help="What `decide` remembered of the node; only read."
)
after_reclaim_option = click.option(
    "--after-reclaim",
    "after_path",
    metavar="FILE",
    help="A summary taken after the reclaim, to see what would be decided then.",
)


def node_source_options(*remembering: Callback) -> Callable[[Callback], Callback]:
    """Add every option that names a node elsewhere, and those about time; the command gets a `source: NodeSource`."""

    def decorate(command: Callback) -> Callback:
        @wraps(command)
        def collected(*arguments: Any, **options: Any) -> Any:
            names = [name for name in NodeSource.__dataclass_fields__ if name in options]
            return command(*arguments, source=NodeSource(**{name: options.pop(name) for name in names}), **options)

        decorated: Callback = collected
        for option in reversed((*_FILES, *remembering, *_SETTINGS, *_CLUSTER)):
            decorated = option(decorated)
        return decorated

    return decorate


_FILES: tuple[Callback, ...] = (
    click.option("--summary", "summary_path", metavar="FILE", help="A node's /stats/summary, as JSON; needs --pods."),
    click.option("--pods", "pods_path", metavar="FILE", help="Its pods, or those of all nodes, as JSON."),
)
_SETTINGS: tuple[Callback, ...] = (config_option, kubelet_options, image_fs_option, profile_option)
_CLUSTER: tuple[Callback, ...] = (
    click.option(
        "--node",
        "cluster_node",
        metavar="NAME",
        default="",
        help="A node of a cluster: its kubelet is asked through the API, as kubectl would reach it.",
    ),
    cluster_options,
)
_CAPACITIES = {
    "memory": "The node's memory, e.g. 16Gi.",
    "disk": "Size of the filesystem with the kubelet's files.",
    "inodes": "Inodes on it.",
    "image-disk": "Size of the filesystem for images, if they have one.",
    "image-inodes": "Inodes on it.",
    "pids": "The largest number of processes.",
}


def capacity_value_options(command: Callback) -> Callback:
    """Add one `--capacity-…` per resource; the command gets them as `told`, by their names."""

    @wraps(command)
    def collected(*arguments: Any, **options: Any) -> Any:
        told = {name: options.pop(f"capacity_{name.replace('-', '_')}") for name in _CAPACITIES}
        return command(*arguments, told=told, **options)

    decorated: Callback = collected
    for name in reversed(_CAPACITIES):
        metavar = "NUMBER" if name in ("inodes", "image-inodes", "pids") else "QUANTITY"
        decorated = click.option(f"--capacity-{name}", metavar=metavar, help=_CAPACITIES[name])(decorated)
    return decorated
