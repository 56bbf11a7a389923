"""`--controllers`, as kube-controller-manager has it: `*` is all, `foo` adds one, `-foo` leaves one out.

The first entry that names a controller decides about it, whatever comes later; without a `*`, only what is named runs.
A `-` alone is none at all, which is easier to see in a command line than nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jettison.errors import InputError

CONTROLLERS: Mapping[str, str] = {
    "daemonset-controller": "daemonset",
    "deployment-controller": "deployment",
    "disruption-controller": "disruption",
    "garbage-collector-controller": "garbagecollector",
    "job-controller": "job",
    "namespace-controller": "namespace",
    "node-lifecycle-controller": "nodelifecycle",
    "pod-garbage-collector-controller": "podgc",
    "replicaset-controller": "replicaset",
    "scheduler": "",
    "statefulset-controller": "statefulset",
    "taint-eviction-controller": "",
    "ttl-after-finished-controller": "ttl-after-finished",
}
"""Names with their short forms of old. Kubernetes runs its scheduler apart; here it is one of them."""

NONE = "-"

_FULL_NAMES = {short: name for name, short in CONTROLLERS.items() if short}


def choose_controllers(texts: Iterable[str]) -> frozenset[str]:
    """The full names of those that are to run; each text may hold several, with commas between them."""
    entries = [each.strip() for text in texts for each in text.split(",") if each.strip()]
    if entries == [NONE]:
        return frozenset()
    wanted = [_entry(each) for each in entries]
    return frozenset(name for name in CONTROLLERS if _is_chosen(name, wanted))


def _entry(text: str) -> str:
    if text == NONE:
        raise InputError("--controllers: `-` is none of them, so nothing else can stand beside it")
    sign = "-" if text.startswith("-") else ""
    name = text.removeprefix("-")
    name = _FULL_NAMES.get(name, name)
    if text != "*" and name not in CONTROLLERS:
        raise InputError(f"--controllers: `{name}` is not in the list of known controllers: {', '.join(CONTROLLERS)}")
    return f"{sign}{name}"


def _is_chosen(name: str, wanted: Iterable[str]) -> bool:
    first = next((each for each in wanted if each in (name, f"-{name}")), None)
    return first == name if first is not None else "*" in wanted
