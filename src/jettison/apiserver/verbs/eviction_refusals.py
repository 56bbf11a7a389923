"""What a client is told whose eviction was refused."""

from __future__ import annotations

from typing import Any

from jettison.apiserver.objects.resources import BUDGETS
from jettison.engine.budgets.verdict import Refusal, Refused
from jettison.errors import ApiError

Json = dict[str, Any]


def refused(verdict: Refused) -> ApiError:
    """The answer to a client that must wait, or can never succeed."""
    match verdict.refusal:
        case Refusal.SEVERAL_BUDGETS:
            return ApiError(verdict.message)
        case Refusal.NEGATIVE | Refusal.OVERFULL:
            name = verdict.budget.name if verdict.budget is not None else ""
            details: Json = {"name": name, "group": BUDGETS.group, "kind": BUDGETS.singular}
            return ApiError(verdict.message, code=403, reason="Forbidden", details=details)
        case _:
            details = {"causes": [{"reason": "DisruptionBudget", "message": verdict.cause}]}
            if verdict.retry_after_seconds:
                details["retryAfterSeconds"] = verdict.retry_after_seconds
            return ApiError(verdict.message, code=429, reason="TooManyRequests", details=details)
