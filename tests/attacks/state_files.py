"""Damage to every state file of an agent and of an API server: it starts and says what is damaged, or refuses clearly.

Pods live on, and nothing that is served is other than what was stored.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attacks.tally import Tally
from tests.live.node import HOLD, LiveNode, pod, python
from tests.live.served import Served, end, start

Damage = Callable[[Path, random.Random], None]
PODS = "/api/v1/namespaces/default/pods"
STORED = 40
START_SECONDS = 40


def _rewrite(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    def damage(path: Path, draw: random.Random) -> None:
        path.write_bytes(change(path.read_bytes(), draw))

    return damage


def _flip(data: bytes, draw: random.Random) -> bytes:
    if not data:
        return b"\x01"
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


def _replace(make: Callable[[Path], object]) -> Damage:
    def damage(path: Path, _: random.Random) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: dict[str, Damage] = {
    "flipped": _rewrite(_flip),
    "empty": _rewrite(lambda *_: b""),
    "truncated": _rewrite(lambda data, draw: data[: draw.randrange(len(data) or 1)]),
    "garbage": _rewrite(lambda data, draw: draw.randbytes(len(data) or 100)),
    "zeros": _rewrite(lambda data, _: bytes(len(data))),
    "nested": _rewrite(lambda *_: b"[" * 100_000),
    "text": _rewrite(lambda *_: b'"text"\n'),
    "null": _rewrite(lambda *_: b"null\n"),
    "digits": _rewrite(lambda *_: b"9" * 10_000 + b"\n"),
    "object": _rewrite(lambda *_: b'{"version": 99, "": [null, 1e999]}\n'),
    "missing": _replace(lambda _: None),
    "a directory": _replace(Path.mkdir),
    "a fifo": _replace(os.mkfifo),
    "a loop": _replace(lambda path: path.symlink_to(path)),
}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def damage_agent(folder: Path, seed: int, tries: int) -> Tally:
    """The agent starts, whatever it finds, and the pod runs on: with the same process unless its record is gone."""
    tally = Tally("agent's files", tries)
    draw = random.Random(seed)
    node = LiveNode(folder, ["--node-memory", "256Mi"], config={"evictionHard": {"memory.available": "50Mi"}})
    node.write(pod("bystander", python(HOLD.format(mebibytes=10)), memory="64Mi"))
    node.start()
    try:
        node.wait(lambda: node.pids("bystander"), "the bystander")
        home = node.state / "node" / node.name
        for _ in range(tries):
            before = node.pids("bystander")
            node.kill()
            path = draw.choice(_files(home))
            kind = draw.choice(sorted(DAMAGES))
            said = f"{path.relative_to(home)} {kind}"
            tally.seen[kind] += 1
            DAMAGES[kind](path, draw)
            node.start()
            try:
                node.wait(lambda: node.ask("/rank") is not None, "the agent", START_SECONDS)
                node.wait(lambda: node.pids("bystander"), "the bystander", START_SECONDS)
            except AssertionError as error:
                tally.check(False, f"{said}: {error}")
                break
            is_own_record = path.parent.name == "pods"
            tally.check(is_own_record or node.pids("bystander") == before, f"{said}: the bystander was started again")
        tally.check("Traceback" not in node.log.read_text(), node.log.read_text()[-3000:])
    finally:
        node.stop()
    return tally


def damage_server(folder: Path, seed: int, tries: int) -> Tally:
    """It serves what was stored and names what is damaged, or it refuses to start and says why."""
    tally = Tally("server's files", tries)
    draw = random.Random(seed)
    whole, copy = folder / "whole", folder / "copy"
    stored = _prepare(whole)
    for _ in range(tries):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy, symlinks=True)
        path = draw.choice([*_files(copy), *(copy / "cluster").glob("store.sqlite*")])
        kind = draw.choice(sorted(DAMAGES))
        said = f"{path.relative_to(copy)} {kind}"
        DAMAGES[kind](path, draw)
        try:
            served = start(copy, "--controllers=-")
        except AssertionError:
            log = (folder / "copy.log").read_text()
            tally.seen["refused"] += 1
            tally.check("error" in log and "Traceback" not in log, f"{said}: {log[-1500:]}")
            continue
        try:
            _compare(tally, served, stored, said)
        finally:
            end(served.process, signal.SIGKILL)
        log = (folder / "copy.log").read_text()
        tally.check("Traceback" not in log, f"{said}: {log[-1500:]}")
    return tally


def _prepare(folder: Path) -> dict[str, Any]:
    """A killed server's files, with objects in the store and in its log of writes."""
    served = start(folder, "--controllers=-")
    try:
        for number in range(STORED):
            metadata = {"name": f"p{number}", "annotations": {"text": f"{number} " + "words " * 50}}
            spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
            assert served.call("POST", PODS, {"metadata": metadata, "spec": spec})[0] == 201
        code, listing = served.call("GET", PODS)
        assert code == 200
    finally:
        end(served.process, signal.SIGKILL)
    return {each["metadata"]["name"]: each for each in listing["items"]}


def _compare(tally: Tally, served: Served, stored: dict[str, Any], said: str) -> None:
    try:
        code, listing = served.call("GET", PODS)
    except (OSError, ValueError) as error:
        tally.check(False, f"{said}: no answer: {error}")
        return
    if code != 200:
        tally.seen["not served"] += 1
        tally.check(listing.get("kind") == "Status", f"{said}: {code} {listing}")
        return
    found = {each["metadata"]["name"]: each for each in listing["items"]}
    wrong = [name for name, each in found.items() if stored.get(name) != each]
    lost = stored.keys() - found.keys()
    log = served.folder.parent / f"{served.folder.name}.log"
    tally.seen["served, some set aside" if lost else "served whole"] += 1
    tally.check(not wrong, f"{said}: other than what was stored: {json.dumps(found[wrong[0]])[:500] if wrong else ''}")
    tally.check(not lost or "damage" in log.read_text(), f"{said}: {len(lost)} pods are lost without a word")
