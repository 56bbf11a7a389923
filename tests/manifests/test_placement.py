"""Taints and tolerations as a server sends them."""

from __future__ import annotations

from jettison.engine.scheduling.placement import Taint, Toleration
from jettison.manifests.placement import taints_from, tolerations_from


def test_what_is_absent_is_empty() -> None:
    taints = [{"key": "a", "value": "b", "effect": "NoExecute", "timeAdded": "2030-01-01T00:00:00Z"}, {"key": "c"}]
    assert taints_from({"spec": {"taints": taints}}) == (Taint("a", "b", "NoExecute"), Taint("c"))
    assert taints_from({}) == taints_from({"spec": {"taints": None}}) == ()
    tolerations = [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0}, {}]
    assert tolerations_from({"tolerations": tolerations}) == (
        Toleration("a", "Equal", "b", "NoExecute", 0),
        Toleration(),
    )
    assert tolerations_from({"tolerations": None}) == ()
