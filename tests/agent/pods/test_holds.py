"""Pods that were deleted by hand stay away while their manifest says what it said, and no longer."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from jettison.agent.pods.holds import NAME, Holds, read_holds
from jettison.agent.pods.keeper import Keeper
from jettison.agent.pods.readmission import Life
from jettison.errors import ManifestError, WriteError
from jettison.runtimes.protocol import PodManifest
from tests.agent.pods.test_keeper import House
from tests.agent.test_admission import manifest


class Hands(House):
    """A keeper with holds, and an operator."""

    def open(self, *, readmits: bool = False) -> None:
        super().open(readmits=readmits)
        self.holds = Holds(self.path.parent / NAME, self.door.said.append)
        self.keeper = Keeper(self.runtime, self.door.admitter, self.keeper._sources, self.door.said.append, self.holds)

    async def delete(self, name: str) -> None:
        status = next(each for each in self.runtime.statuses() if each.pod.name == name)
        await self.keeper.delete(status, None)


def marked(life: Life) -> PodManifest:
    """The same pod in another life."""
    made = manifest("web")
    metadata = dict(made.document["metadata"])
    metadata |= {"uid": f"u{life.number}", "annotations": life.mark(metadata.get("annotations") or {})}
    return PodManifest(made.pod, {**made.document, "metadata": metadata})


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    directory = tmp_path / "pods"
    directory.mkdir()
    return Hands(directory)


def test_a_deleted_pod_stays_away_until_its_manifest_changes(hands: Hands) -> None:
    async def scenario() -> None:
        hands.runtime.may_end.set()
        hands.write("a")
        hands.write("b")
        await hands.look()
        await hands.delete("a")
        for _ in range(3):
            await hands.look()
        assert (hands.running(), hands.keeper.held) == (["b"], ["default/a"])

        hands.open()  # the next agent
        await hands.look()
        assert hands.running() == ["b"]

        hands.write("a", priority=7)
        await hands.look()
        assert (sorted(hands.running()), hands.keeper.held) == (["a", "b"], [])

    asyncio.run(scenario())


def test_it_comes_back_by_hand(hands: Hands) -> None:
    async def scenario() -> None:
        hands.runtime.may_end.set()
        hands.write("a")
        await hands.look()
        await hands.delete("a")
        await hands.look()
        wanted = hands.keeper.wanted("default/a")
        assert (str(wanted), hands.keeper.wanted("default/b")) == ("default/a", None)
        hands.keeper.release("default/a")
        await hands.look()
        assert (hands.running(), hands.keeper.held) == (["a"], [])

    asyncio.run(scenario())


def test_a_manifest_that_goes_takes_the_hold_along(hands: Hands) -> None:
    async def scenario() -> None:
        hands.runtime.may_end.set()
        hands.write("a")
        await hands.look()
        await hands.delete("a")
        (hands.path / "a.json").unlink()
        await hands.look()
        assert read_holds(hands.path.parent / NAME) == {}

    asyncio.run(scenario())


def test_a_pod_that_was_admitted_again_is_the_same_pod(tmp_path: Path) -> None:
    holds = Holds(tmp_path / NAME, lambda _: None)
    holds.hold(marked(Life(2)))

    assert holds.holds(marked(Life()))


def test_what_cannot_be_recorded_is_not_done(hands: Hands) -> None:
    """Else the next agent would bring it back."""

    async def scenario() -> None:
        hands.runtime.may_end.set()
        hands.write("a")
        await hands.look()
        most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most[1]))
        try:
            with pytest.raises(WriteError, match="cannot write"):
                await hands.delete("a")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, most)
        await hands.look()
        assert hands.running() == ["a"]

    asyncio.run(scenario())


@pytest.mark.parametrize("data", [b"", b"[", b"\xff", b"[1]", b'{"a": 1}', b"[" * 100_000])
def test_a_damaged_file_is_complained_about_and_begun_anew(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(ManifestError):
        read_holds(tmp_path / NAME)

    said: list[object] = []
    holds = Holds(tmp_path / NAME, said.append)

    assert (holds.names, len(said)) == ([], 1)
    assert (tmp_path / f"{NAME}.broken").read_bytes() == data
    assert read_holds(tmp_path / NAME) == {}
    holds.hold(manifest("web"))
    assert Holds(tmp_path / NAME, said.append).names == ["default/web"]
