"""`jettison gc`: clear this machine's container runtime and engines of what nothing uses, or say what would go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from jettison.agent.safe_text import printable
from jettison.cli.options.host_options import cri_endpoint_option, engine_sockets_option
from jettison.cli.output import NOTHING, TABLE, Remarks, emit, output_option, table
from jettison.engine.node.amounts import short
from jettison.engine.node.signals import Resource
from jettison.engine.numbers.durations import parse_duration
from jettison.errors import DurationError, RemovalError
from jettison.manifests.files.decoding import shortened
from jettison.node.places import absolute
from jettison.node.upkeep.garbage import GarbageRound, find_stores
from jettison.runtimes.machine.garbage import Cleared, GarbageItem, GarbageKind

_HEAD = ("STORE", "KIND", "NAME", "SIZE", "GOES", "WHY")
_DAY = "24h"


def age(text: str) -> int:
    """`24h` in nanoseconds."""
    try:
        found = parse_duration(text)
    except DurationError as error:
        raise click.BadParameter(str(error)) from error
    if found < 0:
        raise click.BadParameter(f"`{shortened(text)}` is negative")
    return found


@click.command()
@click.option("--plan", "is_plan", is_flag=True, help="Only say what would go, why, and what that frees.")
@click.option(
    "--only",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in GarbageKind]),
    help="Only these. Repeatable. [default: all three]",
)
@click.option(
    "--keep-image",
    "keep",
    multiple=True,
    metavar="PATTERN",
    help="Never remove images of this name, such as 'registry.local/base*'. Repeatable.",
)
@click.option(
    "--older-than",
    type=age,
    default=_DAY,
    show_default=True,
    metavar="DURATION",
    help="Containers that ended more recently stay.",
)
@cri_endpoint_option("The socket of a container runtime. [default: containerd's or CRI-O's, where there is one]")
@engine_sockets_option("The socket of Docker or of Podman. Repeatable. [default: those at the usual places]")
@output_option
def command(
    is_plan: bool,
    kinds: tuple[str, ...],
    keep: tuple[str, ...],
    older_than: int,
    cri_endpoint: str,
    sockets: tuple[Path, ...],
    output: str,
) -> None:
    """Remove what no container uses: containers that have ended, then images, then build caches.

    \b
    jettison gc --plan
    jettison gc --only images --keep-image 'registry.local/base*'
    """
    wanted = tuple(GarbageKind(each) for each in kinds) or tuple(GarbageKind)
    failures, remarks = list[str](), Remarks()

    def note(store: str, why: str) -> None:
        failures.append(why if store in why else f"{store}: {why}")

    stores = find_stores(cri_endpoint, tuple(map(absolute, sockets)))
    work = GarbageRound(stores, wanted, keep, older_than, note)
    if is_plan:
        plan = asyncio.run(work.plan())
        if plan or not failures:
            emit(output, remarks, lambda: _plan_text(plan), lambda: _plan_data(plan))
    else:
        if output == TABLE:
            work.tell = lambda item: click.echo(printable(f"removed {_told(item)}"))
        done = asyncio.run(work.clear())
        failures += [error for each in done.values() for error in each.errors]
        if done or not failures:
            emit(output, remarks, lambda: _done_text(done), lambda: _done_data(done))
    if failures:
        raise RemovalError("; ".join(failures))


def _told(item: GarbageItem) -> str:
    size = "" if item.size is None else f" ({short(item.size, Resource.MEMORY)})"
    return f"{item.kind.removesuffix('s')} {item.name}{size}"


def _plan_text(plan: Mapping[str, list[GarbageItem]]) -> str:
    rows = [
        (
            store,
            item.kind.value,
            item.name,
            NOTHING if item.size is None else short(item.size, Resource.MEMORY),
            "yes" if item.goes else "no",
            item.why,
        )
        for store, items in plan.items()
        for item in items
    ]
    going = [item for items in plan.values() for item in items if item.goes]
    summary = f"{_counted(going)} would go" if going else "nothing would go"
    return f"{table(_HEAD, rows, right=('SIZE',))}\n\n{summary}" if rows else summary


def _counted(items: Iterable[GarbageItem]) -> str:
    """With what their stores say of their sizes, which is more than they free where images share layers."""
    found = list(items)
    numbers = {kind: sum(each.kind is kind for each in found) for kind in (GarbageKind.CONTAINERS, GarbageKind.IMAGES)}
    parts = [
        f"{number} {kind.value.removesuffix('s') if number == 1 else kind.value}"
        for kind, number in numbers.items()
        if number
    ]
    parts += ["the build cache"] * any(each.kind is GarbageKind.BUILD_CACHE for each in found)
    size = short(sum(each.size or 0 for each in found), Resource.MEMORY)
    unknown = sum(each.size is None for each in found)
    return f"{', '.join(parts)}, {size} at most" + (f" and {unknown} of unknown size" if unknown else "")


def _done_text(done: Mapping[str, Cleared]) -> str:
    lines = []
    for store, each in done.items():
        freed = "an unknown amount" if each.gained is None else short(each.gained, Resource.MEMORY)
        lines.append(f"{store}: {f'{_counted(each.items)}; ' if each.items else ''}{freed} freed")
    return "\n".join(lines) or "nothing to clear"


def _plan_data(plan: Mapping[str, list[GarbageItem]]) -> dict[str, Any]:
    items = [{"store": store, **_item(item), "goes": item.goes} for store, found in plan.items() for item in found]
    return {"kind": "GarbagePlan", "items": items}


def _done_data(done: Mapping[str, Cleared]) -> dict[str, Any]:
    stores = [
        {
            "store": store,
            "removed": [_item(item) for item in each.items],
            "freedBytes": each.gained,
            "errors": list(each.errors),
        }
        for store, each in done.items()
    ]
    return {"kind": "GarbageCollection", "stores": stores}


def _item(item: GarbageItem) -> dict[str, Any]:
    return {"kind": item.kind.value, "name": item.name, "sizeBytes": item.size, "why": item.why}
