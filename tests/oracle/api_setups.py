"""What has to be there before the recorded requests of a scenario make sense, and what must happen between them.

A setup gets a world, prepares it and plays the recorded steps; what it leaves is played afterwards. Scenarios that need
nothing have no setup. The setups themselves are in `api_setups_pods`, `api_setups_budgets` and `api_setups_cluster`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from api_world import World

Json = dict[str, Any]
Setup = Callable[[World], None]

SETUPS: dict[str, Setup] = {}


def setup(*names: str) -> Callable[[Setup], Setup]:
    """This function prepares the scenarios of these names."""

    def keep(function: Setup) -> Setup:
        SETUPS.update(dict.fromkeys(names, function))
        return function

    return keep


def eviction(name: str, options: Json | None = None) -> Json:
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**body, "deleteOptions": options} if options is not None else body
