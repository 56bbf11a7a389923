"""The kill path is walked at start-up: it works, leaves nothing behind, and says so where it would not work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from jettison.engine.pods.pod import Pod
from jettison.errors import SignalError
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.cgroups.rehearsal import rehearse_kill
from tests.runtimes.host.nodes import needs_root, node, settings


class Immortal:
    """A place whose processes do not die, on a machine that would not let us kill."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def __getattr__(self, name: str) -> object:
        return getattr(self._place, name)

    async def empty(self, timeout: float) -> frozenset[int]:
        await self._place.empty(timeout)
        return frozenset({4242})


@needs_root
def test_nothing_is_left_of_the_rehearsal(tmp_path: Path) -> None:
    """Its place is gone afterwards, as after an eviction."""
    with node(settings(tmp_path)) as small:
        asyncio.run(rehearse_kill(small.kubepods))
        assert not small.kubepods.found()


@needs_root
def test_a_machine_that_does_not_let_us_kill_is_refused(tmp_path: Path) -> None:
    """Better no agent than one that cannot do its one job."""
    with node(settings(tmp_path)) as small:
        kubepods = small.kubepods

        class Stubborn:
            def of_pod(self, pod: Pod) -> Place:
                return kubepods.of_pod(pod)

            def of_container(self, pod: Pod, container: str) -> Place:
                return Immortal(kubepods.of_container(pod, container))  # type: ignore[return-value]

            def found(self) -> dict[str, Place]:
                return {}

        with pytest.raises(SignalError, match="survive SIGKILL"):
            asyncio.run(rehearse_kill(Stubborn()))
