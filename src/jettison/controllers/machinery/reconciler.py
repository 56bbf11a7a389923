"""Keys that are still to be reconciled, and workers that take them and come back to one where that failed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from jettison.clock import Clock
from jettison.controllers.machinery.event_recorder import EventRecorder
from jettison.controllers.settings import ControllerSettings
from jettison.errors import ApiError, Conflict, RuntimeFailure
from jettison.runtimes.kube.cache import Cache, Caches, Change
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import Kind
from jettison.values import frozen

FIRST_BACK_OFF_SECONDS: Final = 0.005
LONGEST_BACK_OFF_SECONDS: Final = 60.0
"""Kubernetes goes up to 1000 s; here the resync would come in between anyway."""

K = TypeVar("K", bound=Hashable)

_log = logging.getLogger(__name__)


class WorkQueue(Generic[K]):
    """Keys in the order in which they were first named. For one event loop."""

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        # Named and not yet taken, be it in `_ready` or, while a worker has the key, waiting for `done`.
        self._named: set[K] = set()
        self._taken: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        # One for each key in `_ready`: an event would wake all ten workers of the garbage collector for one key.
        self._places = asyncio.Semaphore(0)

    def add(self, key: K) -> None:
        """Look at it as soon as possible. Named while it is being looked at, it comes again."""
        if key in self._named:
            return
        self._named.add(key)
        if key not in self._taken:
            self._ready.append(key)
            self._places.release()

    def add_after(self, key: K, seconds: float) -> None:
        """Look at it in so many seconds; of several such wishes the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._ring, key)

    def retry(self, key: K) -> float:
        """Look at it again, later with each failure in a row; in how many seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Beyond 20 failures the power is only a large number.
        seconds = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(failures, 20), LONGEST_BACK_OFF_SECONDS)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """It went well: the next failure is the first again."""
        self._failures.pop(key, None)

    async def take(self) -> K:
        """The next key; a worker that takes it must call `done`."""
        await self._places.acquire()
        key = self._ready.popleft()
        self._named.discard(key)
        self._taken.add(key)
        return key

    def done(self, key: K) -> None:
        """Others may take it again, if it was named meanwhile."""
        self._taken.discard(key)
        if key in self._named:
            self._ready.append(key)
            self._places.release()

    def close(self) -> None:
        """No timer rings any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)


@frozen
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
    """As people write it: namespace/name, behind the kind where objects of several kinds are looked after."""
    match key:
        case (Kind() as kind, tuple() as name):
            return f"{kind} {_shown(name)}"
        case tuple():
            return "/".join(str(each) for each in key if each)
    return str(key)


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
