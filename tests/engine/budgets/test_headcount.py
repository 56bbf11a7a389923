from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from jettison.engine.budgets.headcount import Counted, Headcount
from jettison.engine.pods.api_pod import ApiPod
from jettison.engine.workloads.owners import OwnerReference

OWNERS = (None, OwnerReference("apps/v1", "ReplicaSet", "web", "1"), OwnerReference("batch/v1", "Job", "once", "2"))

PODS = some.builds(
    ApiPod,
    name=some.sampled_from([f"pod-{number}" for number in range(6)]),
    controller=some.sampled_from(OWNERS),
    is_terminating=some.booleans(),
    is_ready=some.booleans(),
)


def seen(count: Headcount) -> object:
    owners = {owner: set(names) for owner, names in count.owners.items()}
    return owners, count.staying, count.healthy, count.total


@given(some.lists(PODS, max_size=30), some.lists(some.booleans(), max_size=30))
def test_a_count_that_was_kept_is_the_count_of_the_pods_that_are_there(pods: list[ApiPod], stays: list[bool]) -> None:
    """Pods come, change and go."""
    kept, there = Headcount(), dict[str, ApiPod]()
    for index, pod in enumerate(pods):
        if pod.name in there:
            kept.discard(Counted.of(there.pop(pod.name)))
        if index >= len(stays) or stays[index]:
            kept.add(Counted.of(pod))
            there[pod.name] = pod
    assert seen(kept) == seen(Headcount.of(there.values()))


@given(some.lists(PODS, unique_by=lambda pod: pod.name), some.integers(0, 6))
def test_a_sum_is_the_count_of_all_and_shares_nothing(pods: list[ApiPod], split: int) -> None:
    parts = [Headcount.of(pods[:split]), Headcount.of(pods[split:])]
    whole = Headcount.together(parts)
    assert seen(whole) == seen(Headcount.of(pods))
    for pod in pods[:split]:
        parts[0].discard(Counted.of(pod))
    assert seen(whole) == seen(Headcount.of(pods))
    assert parts[0].total == 0


def test_a_terminating_pod_counts_but_is_not_healthy() -> None:
    """`minAvailable` counts the pods that are there, in whatever state."""
    count = Headcount.of([ApiPod("a", is_ready=True, is_terminating=True), ApiPod("b", is_ready=True), ApiPod("c")])
    assert (count.total, count.staying, count.healthy) == (3, {"b", "c"}, {"b"})
