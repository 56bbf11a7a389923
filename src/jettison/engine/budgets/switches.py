"""Where evictions through the API may be better than upstream's (docs/faithfulness.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class ApiSwitches:
    """All off is upstream."""

    # Options and preconditions are checked before anything is written, a resourceVersion that the client gave counts,
    # and what cannot succeed is not tried again. Upstream a wrong uid costs a disruption for two minutes, and ten
    # seconds of the server.
    strict_evictions: bool = False
    # Where no healthy pod is required an unready one may go; upstream it may not, unless something is healthy.
    free_unready_pods: bool = False
    # A pod with several budgets goes when all of them let it, and is taken from each; upstream it never goes.
    join_budgets: bool = False
    # A budget that cannot be counted says why no pod may go; upstream it always claims to be still in process.
    observe_failed_syncs: bool = False


EXACT = ApiSwitches()
BETTER = ApiSwitches(**{switch.name: True for switch in fields(ApiSwitches)})
API_PROFILES: Mapping[str, ApiSwitches] = {"kubelet": EXACT, "improved": BETTER}
