"""Of several processes that want a Lease one holds it; the next one takes over in time and never before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count

import pytest

from jettison.errors import NotFound
from jettison.runtimes.kube.answers import checked
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import LEASES
from jettison.runtimes.kube.kubeconfig import Access, Overrides, load_access
from jettison.runtimes.kube.leases import DURATION_SECONDS, RENEW_SHARE, HeldLease, micro_time
from tests.live.served import Served

RENEW_SECONDS = DURATION_SECONDS * RENEW_SHARE
_names = (f"lease-{number}" for number in count())
Scene = Callable[[KubeClient, str], Awaitable[None]]


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ns(self) -> int:
        return int((1_800_000_000 + self.seconds) * 10**9)

    def monotonic_ns(self) -> int:
        return int(self.seconds * 10**9)

    def steady_ns(self) -> int:
        return self.monotonic_ns()


def staged(served: Served, scene: Scene) -> None:
    async def run() -> None:
        async with KubeClient(load_access(Overrides(kubeconfig=str(served.kubeconfig())))) as client:
            await scene(client, next(_names))

    asyncio.run(run())


def wanting(client: KubeClient, name: str, identity: str, clock: Hands) -> HeldLease:
    return HeldLease(client, "default", name, identity, clock, retry=0.05)


def held(*leases: HeldLease) -> list[bool]:
    return [each.is_held for each in leases]


def test_one_holds_it_and_the_next_takes_over_when_it_has_expired(served: Served) -> None:
    async def scene(client: KubeClient, name: str) -> None:
        clock = Hands()
        first, second = wanting(client, name, "first", clock), wanting(client, name, "second", clock)
        await first._round()
        await second._round()
        assert held(first, second) == [True, False]
        assert second.holder == "first"
        clock.seconds += RENEW_SECONDS
        # It could not renew: it stops long before another may begin.
        assert held(first) == [False]
        await second._round()
        assert held(second) == [False]
        clock.seconds += DURATION_SECONDS - RENEW_SECONDS + 0.1
        await second._round()
        assert held(second) == [True]
        spec = (await client.get(LEASES, name, "default"))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("second", 1)
        await first._round()
        await first._round()
        assert held(first) == [False]
        assert first.holder == "second"

    staged(served, scene)


def test_a_holder_that_renews_keeps_it_whatever_the_clocks_of_others_say(served: Served) -> None:
    async def scene(client: KubeClient, name: str) -> None:
        clock, late = Hands(), Hands()
        late.seconds += 100_000
        holder, other = wanting(client, name, "holder", clock), wanting(client, name, "other", late)
        await holder._round()
        for _ in range(20):
            clock.seconds += 5
            late.seconds += 5
            await holder._round()
            await other._round()
            assert held(holder, other) == [True, False]

    staged(served, scene)


def test_of_two_that_take_over_at_once_one_is_refused(served: Served) -> None:
    async def scene(client: KubeClient, name: str) -> None:
        clock = Hands()
        wanted = [wanting(client, name, str(number), clock) for number in range(5)]
        await asyncio.gather(*(each._round() for each in wanted))
        assert sum(each.is_held for each in wanted) == 1

    staged(served, scene)


def test_work_is_done_only_while_it_is_held_and_it_is_given_up_at_the_end(served: Served) -> None:
    async def scene(client: KubeClient, name: str) -> None:
        clock = Hands()
        begun, ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        first, second = wanting(client, name, "first", clock), wanting(client, name, "second", clock)
        working = asyncio.create_task(first.while_held(work))
        async with asyncio.timeout(60):
            await begun.wait()
        await second._round()
        assert held(second) == [False]
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        assert ended.is_set()
        spec = (await client.get(LEASES, name, "default"))["spec"]
        assert spec.get("holderIdentity", "") == ""
        await second._round()
        assert held(second) == [True]

    staged(served, scene)


def test_work_is_cancelled_when_the_lease_is_lost(served: Served) -> None:
    async def scene(client: KubeClient, name: str) -> None:
        clock = Hands()
        begun, ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        first = wanting(client, name, "first", clock)
        working = asyncio.create_task(first.while_held(work))
        async with asyncio.timeout(60):
            await begun.wait()
            record = await client.get(LEASES, name, "default")
            record["spec"] |= {"holderIdentity": "thief"}
            with suppress(NotFound):
                await client.patch(LEASES, name, {"spec": record["spec"]}, "default")
            # Its next renewal is refused, and the one after that finds the other.
            await ended.wait()
        assert not first.is_held
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working

    staged(served, scene)


def test_a_micro_time_has_six_digits() -> None:
    assert micro_time(1_800_000_000 * 10**9) == "2027-01-15T08:00:00.000000Z"
    assert micro_time(1_800_000_000 * 10**9 + 123_456_789) == "2027-01-15T08:00:00.123456Z"


@pytest.mark.parametrize("spec", [[], {"holderIdentity": 5}, {"leaseDurationSeconds": "x"}, {"leaseTransitions": []}])
def test_a_record_that_makes_no_sense_is_not_the_end(spec: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended `jettison relieve`."""

    async def answer(*_: object, **__: object) -> Document:
        return checked({"metadata": {"name": "l", "resourceVersion": "1"}, "spec": spec}, "GET")

    async def scene() -> None:
        lease = wanting(KubeClient(Access("http://127.0.0.1:1")), "l", "me", Hands())
        for name in ("get", "create", "replace"):
            monkeypatch.setattr(KubeClient, name, answer)
        for _ in range(3):
            await lease._round()
        assert lease._seen is None or lease._seen["spec"] == spec

    asyncio.run(scene())
