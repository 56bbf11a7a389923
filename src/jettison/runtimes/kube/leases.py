"""One of several processes acts, and the others stand by: a Lease that its holder renews.

As in client-go, whose processes can compete with ours for the same Lease: a holder that has not renewed it for its
duration has lost it. How long ago that was is counted by the clock of the process that looks, from when it first saw
the record as it is: clocks of machines differ. Every write carries the version it was decided on, so of two that take
over at once one is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from jettison.clock import Clock
from jettison.errors import ApiError, Conflict, NotFound, RuntimeFailure
from jettison.manifests.times import fixed_time_text
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import LEASES

DURATION_SECONDS: Final = 15
RENEW_SHARE: Final = 2 / 3
"""A holder that could not renew it for this part of its duration stops acting, well before another may begin."""
RETRY_SECONDS: Final = 2.0

_ANSWER_SECONDS: Final = 5.0

_NANO: Final = 10**9
_log = logging.getLogger(__name__)


def micro_time(time_ns: int) -> str:
    """A MicroTime has six digits after the point, no more and no fewer."""
    return f"{fixed_time_text(time_ns)[:-4]}Z"


class HeldLease:
    """One Lease, for one process that wants to hold it. `is_held` is true only while acting is safe."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        retry: float = RETRY_SECONDS,
        duration: int = DURATION_SECONDS,
    ) -> None:
        """It is held for `duration` seconds without a renewal. One that waits looks every `retry` seconds, and a holder
        of 15 seconds renews as often; one that holds it for longer renews in proportion.
        """
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._retry = retry
        self._duration = duration
        self._seen: Document | None = None
        self._seen_ns = 0
        self._renewed_ns: int | None = None
        self._was_held = False
        # The holder that was seen in the round before.
        self._told = ""
        self._changed = asyncio.Event()

    @property
    def is_held(self) -> bool:
        """Whether this process may act now."""
        longest_ns = self._duration * RENEW_SHARE * _NANO
        return self._renewed_ns is not None and self._clock.monotonic_ns() - self._renewed_ns < longest_ns

    @property
    def holder(self) -> str:
        """As last seen; empty while none is known."""
        return str((self._seen or {}).get("spec", {}).get("holderIdentity") or "")

    async def run(self) -> None:
        """Get it, keep it and get it back, until cancelled; then give it up, so that another need not wait."""
        try:
            while True:
                await self._round()
                is_settled = self.is_held and self._seen is not None
                await asyncio.sleep(self._retry * (self._duration / DURATION_SECONDS if is_settled else 1))
        finally:
            if self.is_held:
                await asyncio.shield(self._release())

    async def while_held(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work whenever the lease is held, and cancel it when it is lost, until cancelled."""
        renewing = asyncio.create_task(self.run())
        try:
            while True:
                await self._until(is_held=True)
                working = asyncio.ensure_future(work())
                losing = asyncio.ensure_future(self._until(is_held=False))
                try:
                    await asyncio.wait((working, losing, renewing), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (working, losing):
                        task.cancel()
                    await asyncio.wait((working, losing))
                if not working.cancelled():
                    working.result()
                    return
                if renewing.done():
                    renewing.result()
        finally:
            renewing.cancel()
            await asyncio.wait((renewing,))

    async def _until(self, *, is_held: bool) -> None:
        while self.is_held is not is_held:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._retry / 2):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _round(self) -> None:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._try()
        except Conflict:
            self._seen = None
        except (ApiError, RuntimeFailure, TimeoutError) as error:
            _log.warning("lease %s/%s: %s", self._namespace, self._name, str(error) or "not answered in time")
        except Exception as error:  # noqa: BLE001  a record that makes no sense must not end what waits for the lease
            self._seen = None
            _log.warning("lease %s/%s makes no sense: %s", self._namespace, self._name, error)
        if not self.is_held and not self._was_held and self.holder not in (self._told, self._identity, ""):
            _log.info("lease %s/%s is held by %s: standing by", self._namespace, self._name, self.holder)
        self._told = self.holder
        if self.is_held is not self._was_held:
            self._was_held = self.is_held
            state = "is held" if self._was_held else f"is lost to {self.holder or 'none yet'}"
            _log.info("lease %s/%s %s", self._namespace, self._name, state)
        self._changed.set()

    async def _try(self) -> None:
        begun_ns = self._clock.monotonic_ns()
        found = await self._read()
        if found is None:
            self._take(await self._client.create(LEASES, self._record({}), self._namespace))
        elif self.holder in ("", self._identity) or self._is_expired(found):
            self._take(await self._client.replace(LEASES, self._record(found)))
        else:
            self._renewed_ns = None
            return
        # From before the request: the server may have counted from then.
        self._renewed_ns = begun_ns

    async def _read(self) -> Document | None:
        """The record now; one that we wrote ourselves need not be read again."""
        if self._seen is not None and self.holder == self._identity:
            return self._seen
        try:
            found = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._seen = None
            return None
        if self._seen is None or self._seen.get("spec") != found.get("spec"):
            self._take(found)
        else:
            self._seen = found
        return found

    def _take(self, record: Document) -> None:
        self._seen, self._seen_ns = record, self._clock.monotonic_ns()

    def _is_expired(self, record: Document) -> bool:
        seconds = (record.get("spec") or {}).get("leaseDurationSeconds")
        duration = seconds if isinstance(seconds, int) and 0 < seconds <= 3600 else DURATION_SECONDS
        return self._clock.monotonic_ns() - self._seen_ns > duration * _NANO

    def _record(self, before: Document) -> Document:
        old = before.get("spec") or {}
        now = micro_time(self._clock.now_ns())
        is_ours = old.get("holderIdentity") == self._identity
        turns = old.get("leaseTransitions")
        spec = {
            **old,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._duration,
            "acquireTime": old.get("acquireTime", now) if is_ours else now,
            "renewTime": now,
            "leaseTransitions": (turns if isinstance(turns, int) else 0) + (0 if is_ours or not before else 1),
        }
        metadata = {**(before.get("metadata") or {}), "name": self._name, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    async def _release(self) -> None:
        """As client-go does it: without a holder, and with a second to go."""
        assert self._seen is not None
        record = self._record(self._seen)
        record["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        self._renewed_ns = None
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await self._client.replace(LEASES, record)
        except (ApiError, RuntimeFailure, TimeoutError) as error:
            _log.warning("lease %s/%s was not given up: %s", self._namespace, self._name, error)
