"""At which thresholds relief acts: above the kubelet's own hard ones, so that there is time to ask and to end well.

Only memory and process ids: those a kubelet cannot free without ending a pod. Before it evicts for disk it deletes
images and dead containers, which no client of an API can do for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jettison.engine.config.policy import Policy
from jettison.engine.node.signals import Signal
from jettison.engine.node.thresholds import Threshold
from jettison.engine.numbers.quantity import binary_text
from jettison.errors import InputError, PolicyError

RELIEVED = (Signal.MEMORY_AVAILABLE, Signal.PID_AVAILABLE)

_FACTOR = 2
"""Where the operator says nothing: as far above the kubelet's threshold as that is above nothing."""


_ITS_OWN = 2**31 - 1
"""Seconds: the largest grace period there is, so that every pod has its own."""


def kubelet_thresholds(kubelet: Policy) -> dict[Signal, Threshold]:
    """The kubelet's hard ones, of the signals that relief knows."""
    return {each.signal: each for each in kubelet.thresholds if each.is_hard and each.signal in RELIEVED}


def relief_policy(kubelet: Policy, capacity: Mapping[Signal, int], at: Mapping[str, str]) -> Policy:
    """The kubelet's policy with thresholds of our own: `at`, as in evictionHard, or twice the kubelet's for memory.

    Raises InputError where one of them is not above the kubelet's, because then the kubelet would act first, or not
    below what the node has, because then it would never be resolved.
    """
    own = kubelet_thresholds(kubelet)
    wanted = dict(at) or _usual(own, capacity)
    if unknown := sorted(set(wanted) - {signal.value for signal in RELIEVED}):
        allowed = " and ".join(signal.value for signal in RELIEVED)
        raise InputError(f"--at `{unknown[0]}`: relief knows {allowed}; for disk a kubelet frees images first")
    if not wanted:
        raise InputError("the kubelet has no hard threshold for memory: say at which one to relieve with --at")
    document = {
        "evictionHard": {},
        # Soft, because a hard one gives a pod one second; and at once, because the kubelet's is near.
        "evictionSoft": wanted,
        "evictionSoftGracePeriod": dict.fromkeys(wanted, "1ms"),
        "evictionMaxPodGracePeriod": _ITS_OWN,
        # What relief measures is the node; limits of pods are the kubelet's business.
        "enforceNodeAllocatable": ["none"],
        "localStorageCapacityIsolation": False,
    }
    try:
        policy = Policy.of(document)
    except PolicyError as error:
        raise InputError(f"--at: {error}") from error
    if not policy.thresholds:
        raise InputError("--at: 0% and 100% are no threshold: say at which one to relieve")
    for threshold in policy.thresholds:
        _check(threshold, own.get(threshold.signal), capacity)
    return replace(policy, switches=replace(kubelet.switches, kill_hard_at_once=False, cut_grace_short=False))


def _usual(own: Mapping[Signal, Threshold], capacity: Mapping[Signal, int]) -> dict[str, str]:
    found = own.get(Signal.MEMORY_AVAILABLE)
    amount = 0 if found is None else found.quantity(capacity[Signal.MEMORY_AVAILABLE]).value
    return {Signal.MEMORY_AVAILABLE.value: binary_text(_FACTOR * amount)} if amount > 0 else {}


def _check(threshold: Threshold, kubelet: Threshold | None, capacity: Mapping[Signal, int]) -> None:
    # Without its grace period, which is ours.
    written = f"{threshold.signal}<{threshold.amount}"
    whole = capacity.get(threshold.signal)
    if whole is None:
        raise InputError(f"--at `{written}`: this machine does not say how many there are")
    if kubelet is not None and threshold.quantity(whole) <= kubelet.quantity(whole):
        raise InputError(
            f"--at `{written}` is not above the kubelet's own hard threshold `{kubelet}`: the kubelet would act first"
        )
    if threshold.quantity(whole).value >= whole:
        has = binary_text(whole) if threshold.signal is Signal.MEMORY_AVAILABLE else str(whole)
        raise InputError(f"--at `{written}` is not below the {has} that there are: pods would go until none is left")
