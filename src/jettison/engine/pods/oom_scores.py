"""oom_score_adj: which process the kernel's OOM killer takes first when eviction comes too late."""

from __future__ import annotations

from collections.abc import Iterator

from jettison.engine.numbers.quantity import ZERO, wrapped
from jettison.engine.pods.pod import MEMORY, Container, Pod, Qos, aggregate, is_pod_level_resource

GUARANTEED_SCORE = -997
BEST_EFFORT_SCORE = 1000
# Burstable containers lie strictly between: below BestEffort, and with room under them for what guards the node.
BURSTABLE_MINIMUM = 1000 + GUARANTEED_SCORE


def oom_score(pod: Pod, container: str, memory_capacity: int) -> int:
    """oom_score_adj of one container. One that the pod does not name was added for debugging: it asks for nothing."""
    added = Container(container)
    return dict(_oom_scores(pod, memory_capacity, (added,)))[container]


def oom_score_adjustments(pod: Pod, memory_capacity: int) -> dict[str, int]:
    """oom_score_adj of each regular and init container, by name."""
    return dict(_oom_scores(pod, memory_capacity))


def _oom_scores(pod: Pod, capacity: int, added: tuple[Container, ...] = ()) -> Iterator[tuple[str, int]]:
    share = _pod_level_share(pod)
    regular = [_memory_of(container) for container in pod.containers]
    for container in (*added, *pod.containers, *pod.init_containers):
        if pod.is_node_critical or pod.qos == Qos.GUARANTEED:
            yield container.name, GUARANTEED_SCORE
        elif pod.qos == Qos.BEST_EFFORT:
            yield container.name, BEST_EFFORT_SCORE
        else:
            score = _burstable_score(_memory_of(container) + share, capacity)
            if container.is_sidecar and regular:
                # A sidecar must not die before the container it serves.
                score = min(score, _burstable_score(min(regular) + share, capacity))
            yield container.name, BEST_EFFORT_SCORE - 1 if score == BEST_EFFORT_SCORE else max(score, BURSTABLE_MINIMUM)


def _memory_of(container: Container) -> int:
    return container.requests.get(MEMORY, ZERO).value


def _pod_level_share(pod: Pod) -> int:
    """What the pod as a whole asked for beyond its containers, spread evenly over them."""
    if pod.resources is None or not any(is_pod_level_resource(name) for name in pod.resources.requests):
        return 0
    own = pod.resources.requests.get(MEMORY)
    count = len(pod.containers) + len(pod.init_containers)
    if not own or count == 0:
        return 0
    containers = aggregate(pod, lambda container: container.requests).get(MEMORY, ZERO)
    return _divide(wrapped(own.value - containers.value), count)


def _burstable_score(request: int, capacity: int) -> int:
    """Multiplied in 64 bits, as Go does: a request of 8589935Gi and more wraps around."""
    return wrapped(1000 - _divide(wrapped(1000 * request), capacity)) if capacity else 1000


def _divide(number: int, by: int) -> int:
    """Go truncates towards zero where Python floors."""
    quotient = abs(number) // abs(by)
    return quotient if (number < 0) == (by < 0) else -quotient
