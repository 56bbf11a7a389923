"""Images with hostile names and containers that are half removed, as a runtime tells of them.

Nothing in a name reaches a terminal as an order, what has no id is not ordered about, and what a runtime refuses to
remove stops nothing else.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jettison.runtimes.cri.client import CriClient
from jettison.runtimes.cri.store import CriStore
from jettison.runtimes.grpc.wire import Message
from tests.cli.running import run
from tests.runtimes.lying_runtime import Lie, lying

ORDER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
RUNNING, EXITED, UNKNOWN = 1, 2, 3

NAMES = [
    "\x1b]0;title\x07\x1b[2Jred",
    "a\nb\rc\x85d",
    "../../etc/passwd",
    "-rf",
    "--all",
    "$(reboot)",
    "\u202egpj.exe",
    "x" * 10_000,
    "",
    "*",
    "[!",
    "<none>:<none>",
    "sha256:" + "0" * 64,
]


def images() -> Message:
    listed: list[Message] = [
        {"id": f"sha256:{number:064x}", "repo_tags": [name, name], "size": 2**62 + number}
        for number, name in enumerate(NAMES)
    ]
    listed += [
        {"id": "", "repo_tags": ["nameless"]},
        {"id": "\x1b[31m", "repo_digests": ["\x1b[31m@sha256:0"] * 500, "size": -1},
        {"id": f"sha256:{0:064x}", "repo_tags": ["the same id again"]},
    ]
    return {"images": listed}


def containers() -> Message:
    labels = {
        "io.kubernetes.pod.uid": "u",
        "io.kubernetes.pod.name": "\x1b[2Jpod\n",
        "io.kubernetes.container.name": "\x07c",
    }
    return {
        "containers": [
            # Its sandbox is gone, its image has no name, its labels are lost, its state is none that there is.
            {"id": "half", "pod_sandbox_id": "gone", "state": EXITED, "labels": labels},
            {"id": "bare", "state": UNKNOWN},
            {
                "id": "future",
                "state": EXITED,
                "created_at": 2**62,
                "image": {"image": "no such image"},
                "labels": labels,
            },
            {"id": "past", "state": EXITED, "created_at": -(2**62), "labels": labels},
            {"id": "odd", "state": 99, "labels": labels},
            {"id": "", "state": EXITED},
            {"id": "runs", "state": RUNNING, "pod_sandbox_id": "s"},
        ]
    }


SANDBOXES: Message = {"items": [{"id": "s", "state": 1}, {"id": "", "state": 7}, {"id": "s", "state": 0}]}
ANSWERS: dict[str, Lie] = {
    "ListImages": images(),
    "ListContainers": containers(),
    "ListPodSandbox": SANDBOXES,
    "Status": {},
    "ImageFsInfo": {"image_filesystems": [{"fs_id": {"mountpoint": "/nowhere/\x1b[2J"}}]},
    "RemoveImage": (13, "image is in use by \x1b[31m nothing".replace("\x1b", "%1b")),
    "RemoveContainer": (5, "no such container"),
    "StopContainer": (9, "half removed"),
}


@pytest.mark.parametrize(
    "words",
    [("images",), ("images", "-o", "json"), ("gc", "--plan"), ("gc", "--plan", "-o", "yaml")],
    ids=" ".join,
)
def test_commands_print_no_order_to_a_terminal(tmp_path: Path, words: tuple[str, ...]) -> None:
    with lying(tmp_path / "s", ANSWERS):
        done = run(*words, "--cri-endpoint", f"unix://{tmp_path / 's'}")
    said = done.output
    assert "Traceback" not in said
    assert done.exit_code in (0, 1), said
    assert not ORDER.search(said), ascii(ORDER.findall(said)[:5])
    assert len(said) < 200_000


def asked_of(path: Path, ask: Callable[[CriStore], Awaitable[Any]]) -> tuple[Any, list[tuple[str, Message]]]:
    async def ask_once() -> Any:
        store = CriStore(CriClient(path), "liar")
        try:
            return await ask(store)
        finally:
            store.let_go()

    with lying(path, ANSWERS) as runtime:
        return asyncio.run(ask_once()), runtime.asked


def test_what_is_remembered_of_a_hostile_image_is_short(tmp_path: Path) -> None:
    found, _ = asked_of(tmp_path / "s", lambda store: store.held_images())
    assert all(each.id for each in found)
    assert max(len(name) for each in found for name in each.names) <= 512
    assert max(len(each.names) for each in found) <= 8


def test_what_has_no_id_is_no_leftover(tmp_path: Path) -> None:
    """An empty id in an order to remove may mean anything to a runtime; and what runs is never among the dead."""
    found, _ = asked_of(tmp_path / "s", lambda store: store.leftovers())
    assert {each.id for each in found.containers} == {"half", "bare", "future", "past", "odd"}
    assert {each.id for each in found.sandboxes} == {"s"}
