"""Many pods at once for an owner, each expected before it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from jettison.controllers.machinery.expectations import Expectations
from jettison.controllers.machinery.owned_pods import OwnerKind
from jettison.controllers.machinery.pod_control import MOST_AT_ONCE, PodControl, is_namespace_ending, slow_start
from jettison.controllers.machinery.quick_failures import QuickFailures
from jettison.controllers.machinery.reconciler import Surroundings
from jettison.errors import ApiError, RuntimeFailure
from jettison.runtimes.kube.cache import key_of
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import PODS

Failure = ApiError | RuntimeFailure


class NewPod(NamedTuple):
    """A template, and how the name begins where that is not the owner's."""

    template: Document
    prefix: str = ""


class PodBatches:
    """For owners of one kind. What it returns is the first thing that the server said against it.

    `failures` hears of every pod that is made, for a controller that asks it before it makes more.
    """

    def __init__(
        self, around: Surroundings, owner_kind: OwnerKind, source: str, failures: QuickFailures | None = None
    ) -> None:
        self._control = PodControl(around, owner_kind, source)
        self._failures = failures
        self.expectations = Expectations(around.clock)
        self.expectations.follow(around.caches.of(PODS), owner_kind.key_from)

    async def create(self, owner: Document, pods: Sequence[NewPod]) -> Failure | None:
        """At most 500 of them; the rest is for the next time."""
        key, count = key_of(owner), min(len(pods), MOST_AT_ONCE)
        self.expectations.expect(key, creations=count)
        if self._failures is not None:
            self._failures.begin(owner)
        started = await slow_start(count, lambda index: self._create(owner, pods[index]))
        self.expectations.saw_created(key, count - started.made)
        return None if started.error is None or is_namespace_ending(started.error) else started.error

    async def _create(self, owner: Document, pod: NewPod) -> None:
        made = await self._control.create(owner, *pod)
        if self._failures is not None:
            self._failures.made(owner, made["metadata"]["uid"])

    async def delete(self, owner: Document, pods: Sequence[Document]) -> Failure | None:
        """At most 500 of them, all at once."""
        key, chosen = key_of(owner), pods[:MOST_AT_ONCE]
        self.expectations.expect(key, deletions=[each["metadata"]["uid"] for each in chosen])

        async def delete(pod: Document) -> Failure | None:
            try:
                if await self._control.delete(owner, pod):
                    return None
            except (ApiError, RuntimeFailure) as error:
                self.expectations.saw_deleted(key, pod["metadata"]["uid"])
                return error
            self.expectations.saw_deleted(key, pod["metadata"]["uid"])
            return None

        failures = await asyncio.gather(*map(delete, chosen))
        return next((each for each in failures if each is not None), None)
