"""Pods by their labels: a selected pod is found, whatever labels it had before."""

from __future__ import annotations

from jettison.clock import SystemClock
from jettison.controllers.disruption.disruption import GuardedPods
from jettison.engine.labels.selectors import SelectorObject, select
from jettison.runtimes.kube.cache import Caches, Change
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import PODS
from jettison.runtimes.kube.kubeconfig import Access

WEB = select(SelectorObject({"app": "web"}))
ALL = select(SelectorObject())


def _pod(name: str, namespace: str = "a", **labels: str) -> Document:
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {}}


def test_pods_move_between_shelves() -> None:
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)

    def names(namespace: str = "a") -> tuple[list[str], list[str]]:
        web, everything = (guarded.matching(namespace, each) for each in (WEB, ALL))
        return sorted(pod.name for pod in web), sorted(pod.name for pod in everything)

    one, two, three = _pod("1", app="web", tier="x"), _pod("2", app="web"), _pod("3")
    bare = {"metadata": {"name": "4", "namespace": "a"}}
    for each in (one, two, three, bare, _pod("5", "b", app="web")):
        cache._store((each["metadata"]["namespace"], each["metadata"]["name"]), Change(None, each))
    assert names() == (["1", "2"], ["1", "2", "3", "4"])
    assert names("b") == (["5"], ["5"])
    assert names("c") == ([], [])
    moved = _pod("1", app="db")
    cache._store(("a", "1"), Change(one, moved))
    cache._store(("a", "2"), Change(two, None))
    assert names() == ([], ["1", "3", "4"])
    cache._store(("a", "1"), Change(moved, one))
    assert names() == (["1"], ["1", "3", "4"])


def test_a_mirror_counts_for_no_budget() -> None:
    """Or else a node that was broken into makes a hundred of them, and every budget has room."""
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)
    mirror = _pod("m", app="web")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "u"}
    for name, pod in (("m", mirror), ("1", _pod("1", app="web"))):
        cache._store(("a", name), Change(None, pod))
    assert [pod.name for pod in guarded.matching("a", WEB)] == ["1"]
    cache._store(("a", "1"), Change(_pod("1", app="web"), None))
    cache._store(("a", "m"), Change(mirror, None))
    assert (guarded.matching("a", ALL), guarded._shelves) == ([], {})


def test_what_goes_leaves_nothing_behind_whatever_its_last_words_are() -> None:
    """Every Job has labels of its own, and a pod may lose its finalizer and change its labels in one breath."""
    cache = Caches(KubeClient(Access("https://127.0.0.1:1")), SystemClock()).of(PODS)
    guarded = GuardedPods(cache)
    for number in range(100):
        pod = _pod("p", app="web", run=str(number))
        cache._store(("a", "p"), Change(None, pod))
        cache._store(("a", "p"), Change(_pod("p", app="other"), None))
    assert guarded.matching("a", ALL) == []
    assert guarded._shelves == {}
