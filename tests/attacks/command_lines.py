"""Fuzzed command lines and damaged input files: each ends with an exit code of ours and words, never a traceback."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from jettison.cli.program import COMMANDS, program
from tests.attacks.tally import Tally
from tests.hostile import VALID, WRONG, encoded, places, with_value

# These stay, or look at the whole machine; their own tests start them.
STAYING = frozenset({"up", "node", "demo", "serve", "controllers", "top"})
VALUES = ("", "-1", "0", "9" * 30, "1e999", "nan", "x" * 5000, "\udcff", "ünï", "../..", "/", "/dev/null", "/nowhere",
          "-", "--", "a=b", "a<b", "memory.available<100%", "{}", "[", "%s", "1h", "127.0.0.1:0", "٣")  # fmt: skip
SECONDS = 30
CODES = frozenset(range(8)) | {130}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "default"}}],
    # The port of discard: a command that gets so far is refused at once.
    "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:9", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"token": "secret-token"}}],
}
RAW = (b"", b"[" * 100_000, b"{a: " * 100_000, b"\xff\xfe\x00", b"a: &a [*a]", b"contexts: " + b"1" * 5000,
       b'"\\ud800"', b"a: 1\na: 2", b"- " * 50_000, b"!!python/object/apply:os.system [id]", b"\x00" * 100,
       b"1e999999")  # fmt: skip


def options() -> dict[tuple[str, ...], list[str]]:
    """Every command that ends by itself, with the options that it has."""
    context = click.Context(program)
    found: dict[tuple[str, ...], list[str]] = {}
    for name in COMMANDS.keys() - STAYING:
        command = program.get_command(context, name)
        assert command is not None
        parts: dict[tuple[str, ...], click.Command | None] = {(name,): command}
        if isinstance(command, click.Group):
            parts = {(name, each): command.get_command(context, each) for each in command.list_commands(context)}
        for path, each in parts.items():
            assert each is not None
            found[path] = [option for parameter in each.params for option in parameter.opts if option.startswith("-")]
    return found


def run_random_commands(folder: Path, seed: int, count: int) -> Tally:
    """Words that make no sense, and sense with spoiled files."""
    tally = Tally("command lines", count)
    draw = random.Random(seed)
    known = options()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "JETTISON_STATE_DIR": str(folder / "state")}
    documents = {**VALID, "kubeconfig": KUBECONFIG}
    for number in range(count):
        command = draw.choice(sorted(known))
        path = folder / f"file-{number % 10}"
        path.write_bytes(_spoiled(documents, draw))
        words = [draw.choice([*known[command], "--bogus"]) for _ in range(draw.randint(0, 4))]
        values = [draw.choice([*VALUES, str(path), str(path)]) for _ in words]
        line = [*command, *(each for pair in zip(words, values, strict=True) for each in pair)]
        line += draw.choice([[], [draw.choice(VALUES)], [str(path)]])
        if command[0] in ("drain", "cordon", "uncordon", "evict"):
            line += (
                ["--kubeconfig", str(path), "--timeout=1s"] if command[0] == "drain" else ["--kubeconfig", str(path)]
            )
        _run(tally, line, environment)
    return tally


def _spoiled(documents: Mapping[str, object], draw: random.Random) -> bytes:
    if draw.random() < 0.3:
        return draw.choice(RAW)
    document = draw.choice([document for _, document in sorted(documents.items())])
    for _ in range(draw.randint(0, 3)):
        document = with_value(document, draw.choice(list(places(document))), draw.choice(WRONG))
    data = encoded(document)
    return data if draw.random() < 0.9 else data[: draw.randrange(len(data))]


def _run(tally: Tally, line: list[str], environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "jettison", *line]
    said = json.dumps(line)[:400]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SECONDS, check=False, env=environment, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        tally.check(False, f"{said}: no end after {SECONDS} s")
        return
    tally.seen[f"exit {done.returncode}"] += 1
    tally.check(done.returncode in CODES, f"{said}: exit code {done.returncode}: {done.stderr[-500:]!r}")
    tally.check(b"Traceback" not in done.stderr, f"{said}: {done.stderr[-700:].decode(errors='replace')}")
