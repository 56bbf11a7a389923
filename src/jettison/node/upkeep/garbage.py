"""The stores of this machine that can be cleared: a container runtime, Docker and Podman. Behind `jettison gc`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

from jettison.clock import SystemClock
from jettison.engine.config.policy import ContainerCollection, ImageCollection
from jettison.errors import InputError, RuntimeFailure, ServeError
from jettison.node.container_runtime import find_socket
from jettison.runtimes.adopted.engine_socket import USUAL_SOCKETS
from jettison.runtimes.adopted.engine_store import EngineStore
from jettison.runtimes.machine.garbage import Cleared, Garbage, GarbageItem, GarbageKind, GarbageStore

_Answer = TypeVar("_Answer")

Failed = Callable[[str, str], None]
"""Told which store does not answer, and why."""


def find_stores(cri_endpoint: str, sockets: Sequence[Path]) -> list[GarbageStore]:
    """Those that are named, or those at the usual places. Raises InputError where there is none."""
    owners = frozenset({0, os.geteuid()})
    is_named = bool(cri_endpoint or sockets)
    paths = sockets if is_named else dict.fromkeys(each.resolve() for each in USUAL_SOCKETS if each.is_socket())
    stores: list[GarbageStore] = [EngineStore(each, owners) for each in paths]
    if cri_endpoint or not is_named:
        stores += _runtime(cri_endpoint)
    if not stores:
        raise InputError("no container runtime and no engine was found: --cri-endpoint or --socket names one")
    return stores


def _runtime(endpoint: str) -> list[GarbageStore]:
    try:
        socket = find_socket(endpoint)
    except ServeError:
        return []
    if importlib.util.find_spec("h2") is None:
        if endpoint:
            raise InputError("a container runtime needs h2, which is not installed: pip install 'jettison[cri]'")
        return []
    from jettison.runtimes.cri.client import CriClient  # noqa: PLC0415  an extra
    from jettison.runtimes.cri.store import CriStore  # noqa: PLC0415

    return [CriStore(CriClient(socket), str(socket))]


class GarbageRound:
    """One look at all stores, with one set of wishes. A store that does not answer is told of and left out."""

    def __init__(
        self,
        stores: Sequence[GarbageStore],
        kinds: Collection[GarbageKind],
        keep: Sequence[str],
        older_than_ns: int,
        failed: Failed,
    ) -> None:
        # Of a pod that lives, its last run is kept, as by a kubelet.
        containers = ContainerCollection(minimum_age_ns=older_than_ns)
        self._failed = failed
        self._garbage = [
            Garbage(each, ImageCollection(), containers, SystemClock(), kinds, keep, self._tell, has_sizes=True)
            for each in stores
        ]
        self.tell: Callable[[GarbageItem], None] = lambda _: None

    def _tell(self, item: GarbageItem) -> None:
        self.tell(item)

    async def plan(self) -> dict[str, list[GarbageItem]]:
        """By the store's name."""
        return await self._of_each(Garbage.plan)

    async def clear(self) -> dict[str, Cleared]:
        """By the store's name."""
        return await self._of_each(Garbage.clear)

    async def _of_each(self, ask: Callable[[Garbage], Awaitable[_Answer]]) -> dict[str, _Answer]:
        found = {}
        for each in self._garbage:
            try:
                found[each.store.name] = await ask(each)
            except RuntimeFailure as failure:
                self._failed(each.store.name, str(failure))
            finally:
                each.store.let_go()
        return found
