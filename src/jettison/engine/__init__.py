"""The engine decides. Here live the rules: what is starved, what to free, which pods to evict, in which order and why.

Everything in here is pure: values in, values out, the standard library only. No clock, no log, no file, no socket, no
JSON. The world comes in as a `Snapshot`, the operator's wishes as a `Policy`, the past as a `History`; out comes an
`Outcome`. Code that measures, waits or acts belongs into `runtimes` or `agent`.

Instants are integer nanoseconds since the epoch and carry `_ns` in their name, as do lengths of time finer than
seconds. What could not be measured is None, never zero.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jettison.engine.config.policy import Policy
    from jettison.engine.node.decide import Evict, Nothing, Outcome, Reclaim, decide
    from jettison.engine.node.evictions import Eviction
    from jettison.engine.node.pressure import History
    from jettison.engine.node.ranking import rank
    from jettison.engine.node.signals import Signal
    from jettison.engine.node.snapshot import NodeStats, PodUsage, Snapshot
    from jettison.engine.pods.pod import Pod

__all__ = [
    "Evict",
    "Eviction",
    "History",
    "NodeStats",
    "Nothing",
    "Outcome",
    "Pod",
    "PodUsage",
    "Policy",
    "Reclaim",
    "Signal",
    "Snapshot",
    "decide",
    "rank",
]

_MODULES = {
    "Evict": "node.decide",
    "Eviction": "node.evictions",
    "History": "node.pressure",
    "NodeStats": "node.snapshot",
    "Nothing": "node.decide",
    "Outcome": "node.decide",
    "Pod": "pods.pod",
    "PodUsage": "node.snapshot",
    "Policy": "config.policy",
    "Reclaim": "node.decide",
    "Signal": "node.signals",
    "Snapshot": "node.snapshot",
    "decide": "node.decide",
    "rank": "node.ranking",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A public name, from its module: a program that needs one rule does not load the others."""
        if name not in _MODULES:
            raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
