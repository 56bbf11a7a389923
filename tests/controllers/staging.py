"""Controllers at work in the test's own process, against a real server, with a clock that can be put forward."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from jettison.clock import SystemClock
from jettison.controllers.runner import run_controllers
from jettison.controllers.settings import ControllerSettings
from jettison.engine.numbers.durations import SECOND_NS
from jettison.errors import NotFound
from jettison.runtimes.kube.client import KubeClient, WatchEvent
from jettison.runtimes.kube.kinds import EVENTS, Kind
from jettison.runtimes.kube.kubeconfig import Access

Json = dict[str, Any]
T = TypeVar("T")

PATIENCE_SECONDS = 30.0


class ForwardClock(SystemClock):
    """The machine's clock and what a test does not want to wait for."""

    def __init__(self) -> None:
        self._ahead_ns = 0

    def forward(self, seconds: float) -> None:
        self._ahead_ns += int(seconds * SECOND_NS)

    def now_ns(self) -> int:
        return super().now_ns() + self._ahead_ns

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self._ahead_ns


class StandingClock(ForwardClock):
    """Time passes only when a test lets it pass."""

    def monotonic_ns(self) -> int:
        return self._ahead_ns


class DeafClient(KubeClient):
    """Watches that never catch up: nothing that happens after the list to objects of one kind is told."""

    def __init__(self, access: Access, unheard: Kind) -> None:
        super().__init__(access)
        self._unheard = unheard
        self.is_deaf = asyncio.Event()
        """From now on: the list is done."""

    async def watch(
        self, kind: Kind, since: str = "", namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        if kind == self._unheard:
            self.is_deaf.set()
            await asyncio.Event().wait()
        async for events in super().watch(kind, since, namespace, labels=labels, fields=fields):
            yield events


@asynccontextmanager
async def controlled(
    client: KubeClient, *names: str, clock: SystemClock | None = None, settings: ControllerSettings | None = None
) -> AsyncIterator[None]:
    """These controllers run during the body; one that ends before is a failure."""
    running = asyncio.create_task(run_controllers(client, names, settings, clock))
    try:
        yield
        assert not running.done(), running
    finally:
        # A task that is cancelled in the middle of a TLS handshake leaves the connection to the garbage collector.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            gc.collect()


async def until(look: Callable[[], Awaitable[T]], *, seconds: float = PATIENCE_SECONDS) -> T:
    """What `look` gives as soon as that is true."""
    end = time.monotonic() + seconds
    while True:
        found = await look()
        if found or time.monotonic() > end:
            assert found, f"still not after {seconds} s"
            return found
        await asyncio.sleep(0.03)


async def until_status(client: KubeClient, kind: Kind, name: str, namespace: str, **wanted: object) -> Json:
    """The status once all of these fields are as wanted; the last one that was seen is in the failure."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        status: Json = (await client.get(kind, name, namespace)).get("status") or {}
        if all(status.get(key) == value for key, value in wanted.items()):
            return status
        assert time.monotonic() < end, f"{status} has not become {wanted}"
        await asyncio.sleep(0.03)


async def is_gone(client: KubeClient, kind: Kind, name: str, namespace: str = "") -> bool:
    try:
        await client.get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def told(client: KubeClient, name: str, namespace: str) -> set[tuple[str, str, str]]:
    """What events say about an object: type, reason, message."""
    found = (await client.list(EVENTS, namespace, fields=f"involvedObject.name={name}")).items
    return {(each["type"], each["reason"], each["message"]) for each in found}


async def until_told(client: KubeClient, name: str, namespace: str, *wanted: tuple[str, str, str]) -> None:
    """Events come when they come: after the deed, and not at once. What was said instead is in the failure."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not set(wanted) <= (said := await told(client, name, namespace)):
        assert time.monotonic() < end, f"{said} has not become {wanted}"
        await asyncio.sleep(0.03)
