"""`jettison images`: what the container runtime of this machine has, and `jettison images load` to give it more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from jettison.cli.extras import require
from jettison.cli.options.host_options import cri_endpoint_option
from jettison.cli.output import Remarks, emit, output_option, table
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import Resource
from jettison.node.container_runtime import ImageRow, find_socket, list_images, load_images

_HEAD = ("IMAGE", "ID", "SIZE")
# As much of an id as other programs show.
_SHORT_ID = 12

endpoint_option = cri_endpoint_option("The socket of the container runtime. [default: containerd's or CRI-O's]")


@click.group(invoke_without_command=True)
@endpoint_option
@output_option
@click.pass_context
def command(context: click.Context, cri_endpoint: str, output: str) -> None:
    """Show the images of the container runtime of this machine.

    \b
    jettison images
    jettison images load busybox.tar
    """
    require("jettison images", "cri")
    context.obj = cri_endpoint
    if context.invoked_subcommand is None:
        rows = asyncio.run(list_images(find_socket(cri_endpoint)))
        emit(output, Remarks(), lambda: _text(rows), lambda: {"kind": "ImageList", "items": [*map(_item, rows)]})


@command.command("load", short_help="Import images from an archive.")
@endpoint_option
@click.argument("archive", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def load_command(context: click.Context, archive: Path, cri_endpoint: str) -> None:
    """Import the images of ARCHIVE, as `docker save` or `podman save` writes it.

    `ctr` does it, a part of containerd, or podman where the runtime is CRI-O.
    """
    for name in asyncio.run(load_images(find_socket(cri_endpoint or context.obj), archive)):
        click.echo(f"loaded {name}")


def _text(rows: tuple[ImageRow, ...]) -> str:
    if not rows:
        return "no images"
    cells = ((name, row.id[:_SHORT_ID], short(row.size, Resource.MEMORY)) for row in rows for name in row.names)
    return table(_HEAD, sorted(cells), right=("SIZE",))


def _item(row: ImageRow) -> dict[str, object]:
    return {"names": list(row.names), "id": row.id, "size": row.size}
