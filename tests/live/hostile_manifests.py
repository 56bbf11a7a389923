"""Manifests that try to cost the agent more than their bytes: each is a file's name and what it holds."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any


def pod(name: str, spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    """A pod that would run, but for what is added."""
    one = {"name": "c", "command": ["sleep", "60"], **container}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [one], **(spec or {})}}


def variables(count: int, times: int) -> list[dict[str, str]]:
    """Each stands for several of the one before: 784 bytes of these were 2 GB."""
    return [{"name": f"A{n}", "value": f"$(A{n - 1})" * times if n else "x" * 10} for n in range(count)]


def hostile() -> Iterator[tuple[str, str]]:
    """Made by hand."""
    documents: dict[str, dict[str, Any]] = {
        "expansion": pod("h", env=variables(30, 10)),
        "expansion-below-a-string": pod("h", env=[*variables(5, 10), {"name": "B", "value": "$(A4)" * 3}]),
        "expansion-in-args": pod("h", env=variables(4, 10), args=["$(A3)" * 40] * 40),
        "expansion-in-a-probe": pod("h", env=variables(4, 10), livenessProbe={"exec": {"command": ["$(A3)" * 99] * 9}}),
        "references-to-nothing": pod("h", args=["$(X)" * 30_000]),
        "dollars": pod("h", args=["$" * 120_000, "$(" * 60_000]),
        "one-long-string": pod("h", args=["x" * 140_000]),
        "many-long-strings": pod("h", args=["x" * 100_000] * 2),
        "many-variables": pod("h", env=[{"name": f"V{n}", "value": ""} for n in range(900)]),
        "many-words": pod("h", args=["x"] * 3900),
        "many-mounts": pod(
            "h",
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            volumeMounts=[{"name": "v", "mountPath": "/a" * 50 + f"/{n}"} for n in range(900)],
        ),
        "many-volumes": pod("h", {"volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(1200)]}),
        "many-containers": pod("h", {"containers": [{"name": f"c{n}", "command": ["true"]} for n in range(900)]}),
        "many-inits": pod("h", {"initContainers": [{"name": f"i{n}", "command": ["true"]} for n in range(900)]}),
        "many-tolerations": pod("h", {"tolerations": [{"operator": "Exists"}] * 1900}),
        "many-labels": pod("h"),
        "many-quantities": pod("h", resources={"requests": {f"r{n}": "1e9" for n in range(3900)}}),
        "long-quantity": pod("h", resources={"requests": {"memory": "9" * 100_000}}),
        "exponent": pod("h", resources={"requests": {"memory": "1e999999999"}}),
        "headers": pod(
            "h", livenessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "a", "value": "x" * 9000}]}}
        ),
        "groups": pod("h", {"securityContext": {"supplementalGroups": list(range(3900))}}),
        "long-name": pod("h" * 200_000),
        "long-variable-name": pod("h", env=[{"name": "N" * 130_000, "value": ""}] * 1),
        "long-image": pod("h", command=[], image="i" * 200_000),
    }
    documents["many-labels"]["metadata"]["labels"] = {f"l{n}": "v" for n in range(3900)}
    for name, document in documents.items():
        if name != "long-name":
            document["metadata"]["name"] = name
        yield f"{name}.json", json.dumps(document)
    yield "values.json", json.dumps(pod("h", {"x": [[] for _ in range(20_000)]}))
    yield "deep.yaml", "kind: Pod\nspec: " + "[" * 100_000
    yield (
        "laughs.yaml",
        "kind: Pod\na: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{chr(b)}: &{chr(b)} [{','.join(['*' + chr(b - 1)] * 9)}]\n" for b in range(ord("b"), ord("z"))),
    )
    yield "copies.yaml", "kind: Pod\na: &a [" + "x," * 10_000 + "]\nb: [" + "*a," * 90 + "]\n"
    yield (
        "merges.yaml",
        "kind: Pod\na: &a {" + ",".join(f"k{n}: 1" for n in range(3000)) + "}\nb: {<<: [" + "*a," * 90 + "]}\n",
    )
    yield "commas.yaml", "kind: Pod\na: [" + "," * 210_000 + "]"
    yield "documents.yaml", "---\n".join(json.dumps(pod(f"p{n}")) + "\n" for n in range(600))
    yield "pods.json", json.dumps({"kind": "List", "items": [pod(f"p{n}", command=[]) for n in range(900)]})
    yield "classes.yaml", "---\n".join('{"kind": "PriorityClass", "value": "x"}\n' for _ in range(900))
    yield "digits.yaml", "kind: Pod\na: " + "9" * 1_000_000
    yield "large.json", json.dumps(pod("h", args=["x" * 2_000_000]))
    yield "spaces.yaml", "kind: Pod\n" + " " * 1_000_000
    yield "quotes.yaml", 'kind: Pod\na: "' + "\\n" * 200_000 + '"'


def fuzzed(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """A right pod with some of its values replaced by wrong, long, deep or many ones."""
    draw = random.Random(seed)
    wrong: list[Any] = [
        *(None, True, -1, 2**63, 1.5, "", "x" * 200_000, "$(A)" * 20_000, "\x00", "\ud800", "é" * 60_000, "1e9999"),
        *([], {}, ["x"] * 3000, {f"k{n}": "v" for n in range(3000)}, [[[[[[[[[]]]]]]]]], [{"name": "c"}] * 900),
    ]
    for number in range(count):
        document = pod(
            f"fuzz{number}",
            {
                "initContainers": [{"name": "i", "command": ["true"]}],
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
                "securityContext": {"runAsUser": 12345, "fsGroup": 1, "supplementalGroups": [1]},
                "restartPolicy": "Never",
                "tolerations": [{"key": "a", "operator": "Exists"}],
            },
            command=["true"],
            env=variables(3, 2),
            resources={"requests": {"memory": "1Mi"}, "limits": {"memory": "16Mi"}},
            volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "s"}],
            securityContext={"capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}},
            readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1},
            lifecycle={"preStop": {"exec": {"command": ["true"]}}},
        )
        for _ in range(draw.randint(1, 3)):
            _replace(document, draw, draw.choice(wrong))
        yield f"fuzz{number}.json", json.dumps(document)


def _replace(document: dict[str, Any], draw: random.Random, value: object) -> None:
    places: list[tuple[Any, Any]] = []
    pending: list[Any] = [document]
    while pending:
        inner = pending.pop()
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        places += [(inner, key) for key in keys]
        pending += [inner[key] for key in keys if isinstance(inner[key], dict | list) and len(inner[key]) < 100]
    inner, key = draw.choice(places)
    inner[key] = value
