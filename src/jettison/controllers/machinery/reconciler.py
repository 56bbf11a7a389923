"""Workers that take a key from the queue, reconcile it, and come back to it where that failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from jettison.clock import Clock
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.machinery.work_queue import WorkQueue
from jettison.controllers.settings import ControllerSettings
from jettison.errors import ApiError, Conflict, RuntimeFailure
from jettison.runtimes.kube.cache import Cache, Caches, Change
from jettison.runtimes.kube.client import KubeClient

K = TypeVar("K", bound=Hashable)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every controller is given."""

    client: KubeClient
    caches: Caches
    events: EventRecorder
    clock: Clock
    settings: ControllerSettings


class Postponed(Exception):  # noqa: N818  not an error
    """Raised by a reconcile that was not to be done yet: neither a success nor a failure."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Controller(Protocol):
    """What the runner starts, once all caches are filled."""

    async def run(self) -> None:
        """Until cancelled."""


class Reconciler(Generic[K]):
    """Calls `reconcile` for every key that something happened to. It must bear being called for nothing."""

    def __init__(self, name: str, reconcile: Callable[[K], Awaitable[None]], *, workers: int = 1) -> None:
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self.queue: WorkQueue[K] = WorkQueue()

    def follow(self, cache: Cache, keys: Callable[[Change], Iterable[K]]) -> None:
        """Whatever happens to an object of the cache, look at these keys."""

        def listener(change: Change) -> None:
            for key in keys(change):
                self.queue.add(key)

        cache.listen(listener)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            try:
                await self._reconcile(key)
            except Postponed as later:
                self.queue.add_after(key, later.seconds)
            except Conflict:
                # The cache was behind, and hears of it in a moment.
                self.queue.retry(key)
            except (ApiError, RuntimeFailure) as error:
                seconds = self.queue.retry(key)
                _log.warning("%s: %s: %s; trying again in %.3f s", self._name, _shown(key), error, seconds)
            except Exception:  # noqa: BLE001  one object that we do not understand must not stop the care for all others
                _log.exception("%s: %s", self._name, _shown(key))
                self.queue.retry(key)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)


def _shown(key: Hashable) -> str:
    """As people write it: namespace/name."""
    return "/".join(str(each) for each in key if each) if isinstance(key, tuple) else str(key)


async def repeat(name: str, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do it every so many seconds until cancelled; what the server refused is tried in the next round."""
    while True:
        try:
            await work()
        except (ApiError, RuntimeFailure) as error:
            _log.warning("%s: %s; trying again in %.0f s", name, error, seconds)
        except Exception:  # noqa: BLE001  as above: the next round may be about other objects
            _log.exception("%s", name)
        await asyncio.sleep(seconds)
