"""Nodes, and what every server tells about itself."""

from __future__ import annotations

from typing import Any

from api_masking import now_text
from api_setups import setup
from api_world import MERGE, World

Json = dict[str, Any]

# Nodes.


@setup("node-validation")
def _node_rules(world: World) -> None:
    world.forget_node(f"{world.namespace}-v")


def _conditions(world: World, node: str, **pressures: str) -> None:
    times = {"lastHeartbeatTime": now_text(), "lastTransitionTime": now_text()}
    found = [{"type": "Ready", "status": "True", "reason": "KubeletReady", **times}]
    found += [{"type": kind, "status": status, "reason": "x", **times} for kind, status in pressures.items()]
    world.must("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": found}}, MERGE)


@setup("node-conditions-become-taints")
def _pressures(world: World) -> None:
    node = world.node()
    prefix = "node.kubernetes.io/"

    def play(label: str, *expected: str) -> None:
        wanted = {prefix + each for each in expected}

        def taints() -> list[Json]:
            found: list[Json] = world.must("GET", f"/api/v1/nodes/{node}")["spec"].get("taints", [])
            return found

        world.wait(lambda: {each["key"] for each in taints()} == wanted)
        shown = [{key: value for key, value in each.items() if key != "timeAdded"} for each in taints()]
        world.observe(label, {"taints": sorted(shown, key=str)})

    play("healthy")
    _conditions(world, node, MemoryPressure="True")
    play("memory", "memory-pressure")
    _conditions(world, node, MemoryPressure="True", DiskPressure="True", PIDPressure="True")
    play("all three", "memory-pressure", "disk-pressure", "pid-pressure")
    _conditions(world, node, MemoryPressure="False", DiskPressure="Unknown", PIDPressure="True")
    play("pid only", "pid-pressure")
    world.must("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}, MERGE)
    play("cordoned", "pid-pressure", "unschedulable")
    _conditions(world, node)
    play("recovered", "unschedulable")


@setup("node-noexecute-taint-evicts")
def _taint(world: World) -> None:
    node = world.node()
    toleration = {"key": "bad", "operator": "Exists", "effect": "NoExecute"}
    world.pod("plain")
    world.pod("tolerant", tolerations=[toleration])
    world.pod("patient", tolerations=[{**toleration, "tolerationSeconds": 2}])
    world.pod("zero", tolerations=[{**toleration, "tolerationSeconds": 0}])
    world.budget(minAvailable=4)
    world.play("budget is not asked")
    taints = [{"key": "bad", "effect": "NoExecute"}]
    world.must("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": taints}}, MERGE)

    def is_going(name: str) -> bool:
        return "deletionTimestamp" in world.must("GET", world.pods(name))["metadata"]

    for name in ("plain", "zero"):
        world.wait(lambda name=name: is_going(name))  # type: ignore[misc]
        world.play(name)
    world.note("patient still there at once", not is_going("patient"))
    world.wait(lambda: is_going("patient"))


# The edge.


@setup("discovery")
def _documents(world: World) -> None:
    world.play("/apis/policy/v1beta1")
    groups = world.must("GET", "/apis")
    names = {each["name"]: each for each in groups["groups"]}
    world.observe("groups", {"kind": groups["kind"], "policy": [names["policy"]], "hasApps": "apps" in names})
    world.play("unknown path")
    for path in ("/healthz", "/livez", "/readyz"):
        reply = world.raw("GET", path)
        world.note(path, {"code": reply.code, "text": reply.content.decode()})
    world.note("/version keys", sorted(world.must("GET", "/version")))
    world.note("/healthz anonymous", world.raw("GET", "/healthz", token=None).code)
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    reply = world.raw("GET", "/api", headers={"Accept": accept})
    found = {"code": reply.code, "kind": reply.body["kind"], "contentType": reply.headers["Content-Type"]}
    world.note("aggregated discovery", found)


@setup("plain-errors")
def _strangers(world: World) -> None:
    world.play("401", token="bogus")
    world.play("anonymous", token=None)
