"""Local-storage limits (spec §6, §16 examples 29 to 32)."""

from __future__ import annotations

import pytest

from jettison.engine.node.evictions import HARD_GRACE
from jettison.engine.node.local_storage import CONTAINER, EMPTY_DIR, POD, over_limit
from jettison.engine.node.snapshot import ContainerUsage, Layout, PodUsage, VolumeUsage
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import Container, Pod, Volume
from tests.builders import DEDICATED, GI, MI, SHARED, SPLIT, container, pod, sidecar


def emptydir(name: str = "a", limit: str | None = "100Mi") -> Pod:
    return pod(name, volumes=[Volume("v", is_local=True, size_limit=None if limit is None else parse(limit))])


def holding(used: int | None, *, storage: int | None = None) -> PodUsage:
    return PodUsage(ephemeral_storage_bytes=storage, volumes=[VolumeUsage("v", used)])


def limited(name: str, limit: str | None) -> Container:
    return container(name, {} if limit is None else {"ephemeral_storage": limit})


@pytest.mark.parametrize(
    ("used", "is_over"), [(104857600, False), (104857601, True), (0, False), (None, False), (-1, False)]
)
def test_an_emptydir_over_its_size(used: int | None, is_over: bool) -> None:
    """Strictly over; where upstream crashes on an unmeasured volume nothing is known and nothing done."""
    found = over_limit([emptydir()], {"a": holding(used)}, SHARED)
    assert bool(found) is is_over
    if is_over:
        assert found[0].message == 'Usage of EmptyDir volume "v" exceeds the limit "100Mi". '
        assert (found[0].signal, found[0].grace_seconds) == (EMPTY_DIR, HARD_GRACE)
        assert found[0].condition is None
        assert found[0].annotations is None


def test_every_pod_over_a_limit_goes_in_one_step() -> None:
    """In the order of the pods."""
    pods = [emptydir("c"), emptydir("a"), emptydir("b")]
    usages = {"a": holding(GI), "b": holding(MI), "c": holding(GI)}
    assert [each.pod.name for each in over_limit(pods, usages, SHARED)] == ["c", "a"]


def test_no_size_is_no_limit() -> None:
    """Nor is a volume of another name, nor a pod without statistics."""
    assert over_limit([emptydir(limit=None)], {"a": holding(GI)}, SHARED) == []
    assert over_limit([emptydir()], {"a": PodUsage(volumes=[VolumeUsage("w", GI)])}, SHARED) == []
    assert over_limit([emptydir()], {}, SHARED) == []


def test_all_usage_counts_against_the_limits_that_are_set() -> None:
    """A has a limit of 1Gi and B none: 1.2Gi, mostly B's, are too much for the pod."""
    both = Pod("a", uid="a", containers=(limited("A", "1Gi"), limited("B", None)))
    (found,) = over_limit([both], {"a": holding(None, storage=1288490189)}, SHARED)
    assert found.message == "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
    assert found.signal == POD
    assert over_limit([both], {"a": holding(None, storage=GI)}, SHARED) == []
    assert over_limit([both], {"a": PodUsage()}, SHARED) == []


TWO = Pod("a", uid="a", containers=(limited("A", "2Gi"), limited("B", "4Gi")))
A_USAGE = ContainerUsage("A", None, rootfs_bytes=1843 * MI, logs_bytes=500 * MI)
B_USAGE = ContainerUsage("B", None, rootfs_bytes=MI, logs_bytes=MI)


@pytest.mark.parametrize(("layout", "is_over"), [(SHARED, True), (DEDICATED, False), (SPLIT, False)])
def test_a_containers_own_limit(layout: Layout, is_over: bool) -> None:
    """Logs and writable layer on one filesystem; with a dedicated image filesystem only the logs."""
    usage = PodUsage(ephemeral_storage_bytes=2343 * MI, containers=[A_USAGE, B_USAGE])
    found = over_limit([TWO], {"a": usage}, layout)
    assert [each.message for each in found] == (
        ['Container A exceeded its local ephemeral storage limit "2Gi". '] if is_over else []
    )
    assert all(each.signal == CONTAINER for each in found)


@pytest.mark.parametrize(
    ("rootfs", "logs", "is_over"),
    [
        (MI, 0, False),
        (MI, 1, True),
        (0, MI, False),
        (None, MI, False),
        (None, MI + 1, True),
        (MI, None, False),
        (None, None, False),
    ],
)
def test_a_container_may_use_all_of_its_limit(rootfs: int | None, logs: int | None, is_over: bool) -> None:
    """Strictly over; what was not measured counts as nothing."""
    limited_pod = Pod("a", uid="a", containers=(limited("A", "1Mi"), limited("B", "4Gi")))
    usage = PodUsage(containers=[ContainerUsage("A", None, rootfs_bytes=rootfs, logs_bytes=logs)])
    assert bool(over_limit([limited_pod], {"a": usage}, SHARED)) is is_over


@pytest.mark.parametrize("layout", [SHARED, DEDICATED])
def test_the_pods_limit_is_looked_at_before_its_containers(layout: Layout) -> None:
    """With A alone the pod's limit is A's, and all usage counts against it in every layout."""
    alone = Pod("a", uid="a", containers=(limited("A", "2Gi"),))
    usage = PodUsage(ephemeral_storage_bytes=2343 * MI, containers=[A_USAGE])
    (found,) = over_limit([alone], {"a": usage}, layout)
    assert found.signal == POD


def test_a_sidecars_own_limit_is_never_checked() -> None:
    """It raises the pod's limit and that is all."""
    helped = Pod(
        "a", uid="a", containers=(container("A"),), init_containers=(sidecar("S", {"ephemeral_storage": "1Mi"}),)
    )
    logs = ContainerUsage("S", None, logs_bytes=GI)
    assert over_limit([helped], {"a": PodUsage(containers=[logs])}, SHARED) == []


def test_critical_pods_are_spared() -> None:
    """Without a trace, as upstream does it."""
    static = Pod("a", uid="a", is_static=True, volumes=emptydir().volumes)
    assert over_limit([static], {"a": holding(GI)}, SHARED) == []


def test_of_two_entries_of_one_volume_the_last_counts() -> None:
    """Here; in rankings it is the first."""
    usage = PodUsage(volumes=[VolumeUsage("v", GI), VolumeUsage("v", 1)])
    assert over_limit([emptydir()], {"a": usage}, SHARED) == []
