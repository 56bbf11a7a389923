"""Disruption budgets: with numbers that a controller computes, and with numbers written by hand."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import Any

from api_masking import at_path, now_text
from api_setups import SETUPS, Setup, eviction, setup
from api_world import MERGE, World

Json = dict[str, Any]

# Budgets whose numbers a controller computes.


@setup("evict-terminating-ignores-pdb")
def _terminating(world: World) -> None:
    world.node()
    world.pod("p")
    world.budget(minAvailable=1)
    world.must("DELETE", world.pods("p"), {"gracePeriodSeconds": 60})


@setup("evict-below-budget")
def _below(world: World) -> None:
    world.node()
    world.pod("a")
    world.pod("b")
    world.budget(minAvailable=5)


@setup("evict-budget-of-one")
def _one_to_spare(world: World) -> None:
    world.node()
    for name in "abc":
        world.pod(name)
    world.budget(minAvailable=2)
    world.play("evict a")
    world.settle(currentHealthy=2, disruptedPods=None)


@setup("evict-two-pdbs-but-pending")
def _pending(world: World) -> None:
    world.node()
    world.pod("a", phase="Pending", ready=None)
    world.budget("one", minAvailable=1)
    world.budget("two", minAvailable=1)


@setup("evict-pdb-of-other-labels")
def _other_labels(world: World) -> None:
    world.node()
    world.pod("a")
    world.pod("b", labels={"app": "db"})
    world.budget(minAvailable=1, selector={"matchLabels": {"app": "db"}})


@setup("evict-empty-selector-matches-all")
def _everything(world: World) -> None:
    world.node()
    world.pod("a")
    world.pod("b", labels={"x": "y"})
    world.budget(minAvailable=2, selector={})


@setup("evict-absent-selector-matches-none")
def _nothing(world: World) -> None:
    world.node()
    world.pod("a")
    world.budget(minAvailable=1, selector=None)


def _unready(policy: str | None, available: int) -> Setup:
    def prepare(world: World) -> None:
        world.node()
        world.pod("good1")
        world.pod("good2")
        world.pod("bad", ready=False)
        world.budget(spec={"unhealthyPodEvictionPolicy": policy} if policy else {}, minAvailable=available)

    return prepare


_POLICIES = {"default": None, "ifhealthybudget": "IfHealthyBudget", "alwaysallow": "AlwaysAllow"}
_AVAILABLE = {"healthy": 2, "spare": 1, "starved": 3, "desired-zero": 0}
for _policy, _value in _POLICIES.items():
    for _state, _number in _AVAILABLE.items():
        SETUPS[f"evict-unready-{_policy}-{_state}"] = _unready(_value, _number)


@setup("evict-without-ready-condition")
def _no_condition(world: World) -> None:
    world.node()
    world.pod("a", ready=None)
    world.pod("b")
    world.budget(minAvailable=1)


@setup("evict-unready-always-allow-rv-precondition")
def _overwritten_version(world: World) -> None:
    world.node()
    world.pod("bad", ready=False)
    world.budget(minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    world.play("wrong rv", body=eviction("bad", {"preconditions": {"resourceVersion": "1"}}))
    version = world.must("GET", world.pods("bad"))["metadata"]["resourceVersion"]
    world.play("right rv", body=eviction("bad", {"preconditions": {"resourceVersion": version}}))


@setup("evict-concurrently-never-exceeds-budget")
def _concurrent(world: World) -> None:
    world.node()
    names = [f"p{number}" for number in range(10)]
    for name in names:
        world.pod(name)
    world.budget(minAvailable=7)
    world.play("pdb")
    codes: list[int] = []

    def evict(name: str) -> None:
        data = json.dumps(eviction(name)).encode()
        codes.append(world.raw("POST", f"{world.pods(name)}/eviction", data).code)

    threads = [threading.Thread(target=evict, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.note("codes", {str(code): count for code, count in sorted(Counter(codes).items())})
    world.settle(currentHealthy=7, disruptedPods=None)


# Workloads.


def _template(world: World) -> Json:
    pod = {"nodeName": f"{world.namespace}-n1", "containers": [{"name": "c", "image": "registry.example/app:1"}]}
    return {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    }


def _replicas(world: World, kind: str, name: str, count: int) -> list[str]:
    """A workload whose pods run and are ready; their names, in order."""
    world.must("POST", world.apps(kind), {"metadata": {"name": name}, "spec": {**_template(world), "replicas": count}})
    world.wait(lambda: len(world.must("GET", world.pods())["items"]) >= count)
    names = sorted(each["metadata"]["name"] for each in world.must("GET", world.pods())["items"])
    for number, each in enumerate(names):
        world.mask.names[f"pod{number}"] = each
        world.status(each)
    return names


@setup("evict-max-unavailable-zero")
def _none_unavailable(world: World) -> None:
    world.node()
    _replicas(world, "replicasets", "rs", 2)
    world.budget(maxUnavailable=0)
    world.settle(currentHealthy=2)


@setup("evict-replicaset-percent-budget")
def _quarter(world: World) -> None:
    world.node()
    _replicas(world, "replicasets", "rs", 4)
    world.budget(maxUnavailable="25%")
    world.settle(currentHealthy=4)
    world.play("evict 1")
    world.settle(currentHealthy=3, disruptedPods=None)
    world.play("evict 2")
    world.wait(lambda: len(world.must("GET", world.pods())["items"]) >= 4, 10)
    pods = world.must("GET", world.pods())["items"]
    unready = [each for each in pods if at_path(each, "status.conditions[type=Ready].status") != "True"]
    world.note("replacement created", {"pods": len(pods), "notReady": len(unready)})


@setup("pdb-percent-rounding")
def _rounding(world: World) -> None:
    world.node()
    _replicas(world, "replicasets", "rs", 7)
    for label in [
        'a {"maxUnavailable": "30%"}',
        'b {"minAvailable": "50%"}',
        'c {"maxUnavailable": "1%"}',
        'd {"minAvailable": "100%"}',
        'e {"maxUnavailable": "100%"}',
        'f {"minAvailable": "0%"}',
        'g {"minAvailable": 3}',
        'h {"maxUnavailable": 9}',
    ]:
        name, _, spec = label.partition(" ")
        world.budget(name, **json.loads(spec))
        world.settle(name, currentHealthy=7)
        world.play(label)


_WIDGET = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "name": "w",
    "uid": "11111111-1111-1111-1111-111111111111",
    "controller": True,
}


@setup("evict-new-pdb-that-cannot-sync")
def _never_synced(world: World) -> None:
    world.node()
    world.pod("a", owner=_WIDGET)
    world.budget(maxUnavailable=1, is_awaited=False)
    world.wait(lambda: world.must("GET", world.budgets("pdb"))["status"].get("conditions"))


@setup("evict-pdb-that-stopped-syncing")
def _stopped_syncing(world: World) -> None:
    world.node()
    _replicas(world, "replicasets", "rs", 2)
    world.budget(maxUnavailable=1)
    world.settle(currentHealthy=2)
    world.play("pdb")
    world.pod("alien", owner=_WIDGET)
    reason = "status.conditions[type=DisruptionAllowed].reason"
    world.wait(lambda: at_path(world.must("GET", world.budgets("pdb")), reason) == "SyncFailed")


@setup("pdb-unmanaged-pods-max-unavailable")
def _unmanaged(world: World) -> None:
    world.node()
    world.pod("a")
    world.pod("b")
    world.budget(maxUnavailable=1)


@setup("pdb-follows-readiness")
def _readiness(world: World) -> None:
    world.node()
    world.pod("a")
    world.pod("b")
    world.budget(minAvailable=1)
    world.play("2 ready")
    world.status("a", ready=False)
    world.settle(currentHealthy=1)
    world.play("1 ready")
    world.status("a")
    world.settle(currentHealthy=2)
    world.play("2 ready again")
    world.must("DELETE", world.pods("a"), {"gracePeriodSeconds": 100})
    world.settle(currentHealthy=1)
    world.play("terminating")
    world.status("b", "Failed", True)
    world.settle()
    world.play("b failed but its Ready condition is True")
    world.must("DELETE", world.pods("b"), {"gracePeriodSeconds": 0})
    world.settle(expectedPods=1)


@setup("pdb-no-pods")
def _no_pods(world: World) -> None:
    specs: dict[str, Json] = {"a": {"minAvailable": 0}, "b": {"minAvailable": 1}, "c": {"maxUnavailable": "50%"}}
    for name, spec in specs.items():
        world.budget(name, spec)
        world.play(name)


@setup("pdb-deployment-and-statefulset-scale")
def _scaled(world: World) -> None:
    world.node()
    _replicas(world, "deployments", "d", 3)
    world.budget(minAvailable="50%")
    world.settle(currentHealthy=3)
    world.play("deployment 3")
    world.must("PATCH", world.apps("deployments/d/scale"), {"spec": {"replicas": 5}}, MERGE)
    world.settle(expectedPods=5)


@setup("pdb-update-bumps-generation")
def _generations(world: World) -> None:
    world.node()
    world.pod("a")
    world.pod("b")
    world.budget(minAvailable=2)
    world.play("loosen")
    world.settle()
    world.play("both")
    world.settle()


@setup("pdb-list-and-table")
def _two_budgets(world: World) -> None:
    world.node()
    world.pod("a")
    world.budget("one", minAvailable=1)
    world.budget("two", selector={"matchLabels": {"q": "q"}}, maxUnavailable="50%")


# Budgets whose numbers are written by hand, while no controller computes them.


@setup("static-observed-generation-lag")
def _lag(world: World) -> None:
    world.node()
    world.pod("a")
    world.pod("b")
    world.budget(is_awaited=False, minAvailable=1)
    world.play("never observed")
    world.set_budget()


@setup("static-decrement")
def _decrement(world: World) -> None:
    world.node()
    for name in "abc":
        world.pod(name)
    world.budget(is_awaited=False, minAvailable=1)
    world.set_budget(currentHealthy=3, disruptionsAllowed=2, expectedPods=3)


@setup("static-zero-with-spare-health")
def _zero(world: World) -> None:
    world.node()
    world.pod("a")
    world.budget(is_awaited=False, minAvailable=1)
    world.set_budget(currentHealthy=3, disruptionsAllowed=0)
    world.play("no condition")
    said: Json = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "because I say so",
    }
    said |= {"observedGeneration": 1, "lastTransitionTime": now_text()}
    for label, healthy, desired, change in (
        ("condition with message", 3, 1, {}),
        ("condition without message", 3, 1, {"message": ""}),
        ("sync failed", 1, 3, {"reason": "SyncFailed", "message": "boom"}),
        ("unhealthy wins over message", 1, 3, {}),
    ):
        conditions = [{**said, **change}]
        world.set_budget(currentHealthy=healthy, desiredHealthy=desired, disruptionsAllowed=0, conditions=conditions)
        world.play(label)


@setup("static-too-many-disrupted")
def _too_many(world: World) -> None:
    world.node()
    world.pod("a")
    world.budget(is_awaited=False, minAvailable=1)
    for count in (2000, 2001):
        world.set_budget(disruptedPods={f"x{number}": now_text() for number in range(count)})
        world.play(f"{count} entries")


@setup("static-unready-boundaries")
def _boundaries(world: World) -> None:
    world.node()
    for name in "abcdef":
        world.pod(name, ready=False)
    world.budget(is_awaited=False, minAvailable=1)
    for healthy, desired, allowed, label in (
        (1, 1, 0, "pdb a"),
        (0, 1, 0, "0 < 1"),
        (0, 0, 0, "0 = 0"),
        (2, 0, 2, "pdb d"),
        (2, 1, 1, "pdb e"),
    ):
        world.set_budget(currentHealthy=healthy, desiredHealthy=desired, disruptionsAllowed=allowed)
        world.play(label)
