"""Fuzzed pod manifests for a node that guards: none may silence its agent, feed it fat or harm another pod."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from tests.attacks.tally import Tally
from tests.hostile import WRONG, places, with_value
from tests.live.node import HOLD, LiveNode, pod, python

# What the largest draw of the fuzzer may add to the agent, beyond the record of the pods themselves.
MOST_GROWTH_KB = 24_000
# The agent answers its socket between two looks; a manifest that holds it up shows here.
SLOWEST_ANSWER = 10.0
PODS_AT_ONCE = 8


def bombs() -> dict[str, str]:
    """Small texts that are large once they are understood."""
    doubling = [{"name": "V0", "value": "x" * 32}]
    doubling += [{"name": f"V{n}", "value": f"$(V{n - 1})$(V{n - 1})"} for n in range(1, 26)]
    laughs = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    laughs += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    arguments = ["$(V25)"] * 100
    labels = {"name": "labels", "labels": {f"l{n}": "v" for n in range(50_000)}}
    digits = json.dumps(pod("digits", ["true"], priority=0)).replace('"priority": 0', '"priority": ' + "9" * 5000)
    many = [{"name": f"c{n}", "command": ["true"]} for n in range(20_000)]
    return {
        "doubling.json": json.dumps(pod("doubling", ["true"], container={"env": doubling, "args": arguments})),
        "laughs.yaml": "\n".join([*laughs, "kind: Pod", "metadata: {name: laughs, annotations: {x: *a8}}"]),
        "nested.json": '{"kind":"Pod","a":' + "[" * 200_000,
        "nested.yaml": "[" * 200_000,
        "braces.yaml": "{a: " * 100_000,
        "containers.json": json.dumps(pod("containers", ["true"], containers=many)),
        "variables.json": json.dumps(pod("variables", ["true"], container={"env": doubling[:1] * 100_000})),
        "argument.json": json.dumps(pod("argument", ["true", "x" * 3_000_000])),
        "digits.json": digits,
        "documents.yaml": "---\n{}\n" * 100_000,
        "anchors.yaml": "\n".join(f"k{n}: &a{n} x" for n in range(50_000)),
        "quantity.json": json.dumps(pod("quantity", ["true"], memory="1e" + "9" * 4000)),
        "labels.json": json.dumps({**pod("labels", ["true"]), "metadata": labels}),
    }


def good_pod() -> dict[str, Any]:
    """One of each field that the host reads."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 3}
    container = {
        "env": [{"name": "A", "value": "b"}, {"name": "C", "value": "$(A)$(A)"}],
        "resources": {"requests": {"memory": "8Mi", "cpu": "10m"}, "limits": {"memory": "32Mi"}},
        "volumeMounts": [{"name": "v", "mountPath": "/cache"}],
        "livenessProbe": probe,
        "readinessProbe": {"tcpSocket": {"port": 1}},
        "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": False},
        "workingDir": "x",
    }
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
    init = [{"name": "first", "command": ["true"]}]
    extra: dict[str, Any] = {
        "volumes": volumes,
        "initContainers": init,
        "restartPolicy": "OnFailure",
        "activeDeadlineSeconds": 100,
    }
    return pod("fuzz", ["sleep", "5"], container=container, **extra)


def write_random_manifests(folder: Path, seed: int, count: int) -> Tally:
    """`count` spoiled pods, and every bomb: the bystander lives, and the agent answers and stays small."""
    tally = Tally("manifests", count)
    draw = random.Random(seed)
    node = LiveNode(folder, ["--node-memory", "512Mi"], config={"evictionHard": {"memory.available": "50Mi"}})
    node.write(pod("bystander", python(HOLD.format(mebibytes=10)), memory="64Mi"))
    node.start()
    try:
        node.wait(lambda: node.pids("bystander"), "the bystander")
        bystander, before = node.pids("bystander"), _resident(node)
        for name, text in bombs().items():
            (node.manifests / name).write_text(text)
            _answer(node, tally, name)
        tally.seen["bombs"] = len(bombs())
        _settle(node, tally, "the bombs")
        for name in bombs():
            (node.manifests / name).unlink()
        for number in range(count):
            document: Any = good_pod()
            for _ in range(draw.randint(1, 3)):
                document = with_value(document, draw.choice(list(places(document))), draw.choice(WRONG))
            path = node.manifests / f"fuzz-{number % PODS_AT_ONCE}.json"
            path.write_bytes(json.dumps(document).encode("utf-8", "surrogatepass"))
            if number % PODS_AT_ONCE == 0:
                _answer(node, tally, json.dumps(document)[:300])
        _settle(node, tally, "the fuzzed pods")
        for path in node.manifests.glob("fuzz-*.json"):
            path.unlink()
        tally.check(node.pids("bystander") == bystander, "the bystander was harmed")
        grown = _resident(node) - before
        tally.check(grown < MOST_GROWTH_KB, f"the agent grew by {grown} kB")
        tally.seen["kB grown"] = grown
        tally.check("Traceback" not in node.log.read_text(), node.log.read_text()[-3000:])
    finally:
        node.stop()
    return tally


def _resident(node: LiveNode) -> int:
    assert node.process is not None
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def _answer(node: LiveNode, tally: Tally, what: str) -> None:
    started = time.monotonic()
    answered = node.ask("/rank") is not None
    took = time.monotonic() - started
    tally.check(answered and took < SLOWEST_ANSWER, f"{what}: the agent answered after {took:.1f} s: {answered}")


def _settle(node: LiveNode, tally: Tally, what: str) -> None:
    """Until it has read what was written: it looks at its directory about once a second."""
    for _ in range(6):
        time.sleep(0.5)
        _answer(node, tally, what)
