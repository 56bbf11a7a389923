"""Pods that are evicted, deleted, listed, watched and changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from api_masking import at_path
from api_setups import eviction, setup
from api_world import MERGE, World

NO_UID = "00000000-0000-0000-0000-000000000000"

Json = dict[str, Any]

# One pod, nothing else.


@setup(
    "evict-running-no-pdb",
    "evict-grace-zero-deletes-at-once",
    "evict-grace-negative",
    "evict-twice",
    "evict-v1beta1-body",
    "evict-wrong-gvk",
    "delete-shorten-and-lengthen",
)
def _one_pod(world: World) -> None:
    world.node()
    world.pod("p")


@setup("evict-grace-longer-than-pod")
def _short_grace(world: World) -> None:
    world.node()
    world.pod("p", terminationGracePeriodSeconds=10)


@setup("evict-pod-with-zero-termination-grace")
def _no_grace(world: World) -> None:
    world.node()
    world.pod("p", terminationGracePeriodSeconds=0)


@setup("evict-succeeded-terminating-with-finalizer")
def _held(world: World) -> None:
    world.node()
    world.pod("p", finalizers=["example.com/hold"])


@setup("evict-content-types", "delete-grace-by-query")
def _two_pods(world: World) -> None:
    world.node()
    world.pod("p")
    world.pod("q")


@setup("evict-field-validation")
def _three_pods(world: World) -> None:
    world.node()
    for name in "abc":
        world.pod(name)


@setup("delete-grace-variants")
def _pods_by_number(world: World) -> None:
    world.node()
    for number in range(6):
        world.pod(f"p{number}")


@setup("evict-uid-precondition")
def _uid(world: World) -> None:
    world.node()
    uid = world.pod("p")["metadata"]["uid"]
    world.play("mismatch", body=eviction("p", {"preconditions": {"uid": NO_UID}}))
    world.play("match", body=eviction("p", {"preconditions": {"uid": uid}}))


@setup("evict-rv-precondition")
def _version(world: World) -> None:
    world.node()
    world.pod("p")
    world.play("mismatch", body=eviction("p", {"preconditions": {"resourceVersion": "1"}}))
    version = world.must("GET", world.pods("p"))["metadata"]["resourceVersion"]
    world.play("match", body=eviction("p", {"preconditions": {"resourceVersion": version}}))


@setup("delete-preconditions")
def _delete_preconditions(world: World) -> None:
    world.node()
    uid = world.pod("p")["metadata"]["uid"]
    world.play("uid mismatch", body={"preconditions": {"uid": NO_UID}})
    world.play("rv mismatch", body={"preconditions": {"resourceVersion": "1"}})
    world.play("uid match", body={"preconditions": {"uid": uid}, "gracePeriodSeconds": 0})


# Pods, namespaces, lists.


@setup("pod-qos-and-resource-defaults")
def _only_a_node(world: World) -> None:
    world.node()


@setup("namespace-lifecycle")
def _namespace(world: World) -> None:
    world.play("create again")
    other = f"/api/v1/namespaces/{world.namespace}-x"
    pod = {"metadata": {"name": "p", "finalizers": ["example.com/hold"]}}
    spec = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
    world.must("POST", f"{other}/pods", {**pod, "spec": spec})
    world.play("pod in terminating namespace")
    world.raw("PATCH", f"{other}/pods/p", b'{"metadata":{"finalizers":null}}', headers=MERGE)
    world.note("gone", world.wait(lambda: world.raw("GET", other).code == 404, 30))


@setup("list-label-selectors")
def _labelled(world: World) -> None:
    world.node()
    labels: dict[str, Json] = {"a": {"app": "web", "tier": "front"}, "b": {"app": "web", "tier": "back"}}
    for name, each in {**labels, "c": {"app": "db"}, "d": {}}.items():
        world.pod(name, labels=each, phase=None)


@setup("list-field-selectors")
def _placed(world: World) -> None:
    one, two = world.node(), world.node("n2")
    world.pod("a", node=one)
    world.pod("b", node=two, phase="Pending", ready=None)
    world.pod("c", node=one, phase="Failed", ready=False)
    world.pod("d", node="", phase=None)


@setup("list-limit-continue")
def _pages(world: World) -> None:
    for name in "abcde":
        world.pod(name, phase=None)
    page = world.play("page 1")
    for label in ("page 2", "page 3"):
        page = world.play(label, params={"limit": "2", "continue": page["metadata"]["continue"]})
    world.play("bad token", params={"limit": "2", "continue": "garbage"})


@setup("list-resource-versions")
def _versions(world: World) -> None:
    world.pod("a", phase=None)
    world.play("rv 0", params={"resourceVersion": "0"})
    world.play("rv text", params={"resourceVersion": "x"})
    world.play("bad match", params={"resourceVersion": "1", "resourceVersionMatch": "Foo"})
    world.play("get rv 0", params={"resourceVersion": "0"})


@setup("table-pods")
def _states(world: World) -> None:
    world.node()
    world.pod("run")
    world.pod("notready", ready=False)
    world.pod("pend", phase="Pending", ready=None)
    world.pod("fail", phase="Failed", ready=False)
    world.status("fail", "Failed", False, reason="Evicted", message="low")
    world.pod("done", phase="Succeeded", ready=False)
    world.pod("term")
    world.must("DELETE", world.pods("term"))


# Watches.


def _shown(events: list[Json], *paths: str) -> Iterator[Json]:
    for event in events:
        found = {path: at_path(event["object"], path) for path in paths}
        yield {"type": event["type"], "kind": event["object"]["kind"], **found}


def _list_version(world: World) -> str:
    return str(world.must("GET", world.pods())["metadata"]["resourceVersion"])


@setup("watch-pod-life")
def _life(world: World) -> None:
    world.node()
    finish = world.watch(world.pods(), 4, resourceVersion=_list_version(world))
    world.pod("p")
    world.must("POST", f"{world.pods('p')}/eviction", eviction("p", {"gracePeriodSeconds": 10}))
    world.must("DELETE", world.pods("p"), {"gracePeriodSeconds": 0})
    target = "status.conditions[type=DisruptionTarget].status"
    grace = "metadata.deletionGracePeriodSeconds"
    world.note("events", list(_shown(finish(), "metadata.name", grace, "status.phase", target)))


@setup("watch-initial-state")
def _initial(world: World) -> None:
    for name in "ab":
        world.pod(name, phase=None)
    for label, params in (("no rv", {}), ("rv 0", {"resourceVersion": "0"})):
        events = _shown(world.watch(world.pods(), 2, **params)(), "metadata.name")
        world.note(label, sorted(events, key=str))


@setup("watch-label-transitions")
def _transitions(world: World) -> None:
    finish = world.watch(world.pods(), 4, resourceVersion=_list_version(world), labelSelector="app=web")
    world.pod("p", labels={"app": "db"}, phase=None)
    for labels in ({"app": "web"}, {"x": "y"}, {"app": "db"}, {"app": "web"}):
        world.must("PATCH", world.pods("p"), {"metadata": {"labels": labels}}, MERGE)
    world.must("DELETE", world.pods("p"), {"gracePeriodSeconds": 0})
    world.note("events", list(_shown(finish(), "metadata.name", "metadata.labels")))


@setup("watch-by-node")
def _bound(world: World) -> None:
    node = world.node()
    field = f"spec.nodeName={node}"
    finish = world.watch("/api/v1/pods", 4, resourceVersion=_list_version(world), fieldSelector=field)
    world.pod("other", node="", phase=None)
    world.pod("p", node="", phase=None)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}
    world.must("POST", f"{world.pods('p')}/binding", binding)
    for grace in (5, 0):
        world.must("DELETE", world.pods("p"), {"gracePeriodSeconds": grace})
    world.note("events", list(_shown(finish(), "metadata.name", "metadata.deletionGracePeriodSeconds")))


# Changes.


@setup("patch-types")
def _patches(world: World) -> None:
    world.node()
    world.pod("p", phase=None)
    stale = json.dumps({"metadata": {"resourceVersion": "1", "labels": {"q": "q"}}})
    world.play("stale rv", body={"<data>": stale})


@setup("put-conflicts")
def _puts(world: World) -> None:
    world.pod("p", phase=None)
    pod = world.must("GET", world.pods("p"))
    pod["metadata"]["labels"]["v"] = "1"
    world.play("put", body=pod)
    world.play("stale put", body=pod)
    del pod["metadata"]["resourceVersion"]
    world.play("unconditional put", body=pod)
    world.play("name mismatch", body=pod)
    world.play("put creates?", body={**pod, "metadata": {**pod["metadata"], "name": "fresh", "uid": None}})
    world.play("wrong kind")
    world.budget("d", selector={"matchLabels": {"q": "q"}}, minAvailable=1, is_awaited=False)
    budget = world.must("GET", world.budgets("d"))
    del budget["metadata"]["resourceVersion"]
    world.play("pdb put without rv", body=budget)
