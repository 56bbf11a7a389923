"""How a patch is refused. Kubernetes does not say what was wrong with it, so the reason is ours to log at most."""

from __future__ import annotations

from jettison.apiserver.http.statuses import bad_request
from jettison.errors import ApiError


def impossible() -> ApiError:
    """The patch does not fit the object: a test failed, or a path leads nowhere."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(message, code=422, reason="Invalid", details={})


def undecodable(why: str) -> ApiError:
    """The patch is no patch."""
    return bad_request(f"error decoding patch: {why}")
