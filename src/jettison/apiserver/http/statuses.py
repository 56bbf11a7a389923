"""Kubernetes Status documents: what a client gets instead of, or after, an object.

Every refusal of the server is an ApiError made here, so that code, reason, message and details agree everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jettison.apiserver.objects.resources import ABSENT, Resource
from jettison.apiserver.objects.validation.metadata import path_segment_name
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, Conflict, NotFound

Json = dict[str, Any]

_INCONSISTENT: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def failure_status(error: ApiError) -> Json:
    """The document for an error; what is empty is left out, as Go does."""
    metadata = {"continue": error.token} if isinstance(error, ContinuationExpired) else {}
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
    status["message"] = error.message
    if error.reason:
        status["reason"] = error.reason
    if error.details is not None:
        status["details"] = dict(error.details)
    status["code"] = error.code
    return status


def success_status(code: int | None = None, details: Mapping[str, Any] | None = None) -> Json:
    """The document for a success that has no object to show."""
    status: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = dict(details)
    if code is not None:
        status["code"] = code
    return status


def bad_request(message: str) -> ApiError:
    """The request makes no sense."""
    return ApiError(message, code=400, reason="BadRequest")


def not_found(resource: Resource, name: str) -> ApiError:
    """There is no such object. Of a name that no object can have, Kubernetes says that instead."""
    if complaints := ";".join(path_segment_name(name)):
        return bad_request(f"Name parameter invalid: {quote(name)}: {complaints}")
    return NotFound(f"{resource.qualified} {quote(name)} not found", details=_named(resource, name))


def unknown_path() -> NotFound:
    """There is no such resource at all."""
    return NotFound("the server could not find the requested resource", details={})


def unknown_resource(group: str, plural: str) -> NotFound:
    """As above; of what Kubernetes would have, a client is told whose lack it is."""
    if plural not in ABSENT.get(group, ()):
        return unknown_path()
    return NotFound(f"Jettison does not serve {f'{plural}.{group}' if group else plural}", details={})


def already_exists(resource: Resource, name: str, *, is_generated: bool = False) -> ApiError:
    """The name is taken. With `generateName` the client may try again, even if it chose the name itself."""
    message, details = f"{resource.qualified} {quote(name)} already exists", _named(resource, name)
    if is_generated:
        message += ", the server was not able to generate a unique name for the object"
        details["retryAfterSeconds"] = 1
    return ApiError(message, code=409, reason="AlreadyExists", details=details)


def conflict(resource: Resource, name: str, why: str) -> Conflict:
    """The object has changed since the client read it."""
    message = f"Operation cannot be fulfilled on {resource.qualified} {quote(name)}: {why}"
    return Conflict(message, details=_named(resource, name))


def forbidden(resource: Resource, name: str, why: str, causes: Iterable[Mapping[str, str]] = ()) -> ApiError:
    """Not allowed, for this user or for any."""
    return refused(resource.group, resource.plural, name, why, causes)


def refused(group: str, plural: str, name: str, why: str, causes: Iterable[Mapping[str, str]] = ()) -> ApiError:
    """As above, also for resources of which nothing but the name exists, such as users."""
    qualified = f"{plural}.{group}" if group else plural
    message = f"{qualified} {quote(name)} is forbidden: {why}" if name else f"{qualified} is forbidden: {why}"
    details = _details(group, plural, name)
    if listed := [dict(cause) for cause in causes]:
        details["causes"] = listed
    return ApiError(message, code=403, reason="Forbidden", details=details)


def too_large(most_bytes: int) -> ApiError:
    """More than is read at once, or kept as one object."""
    message = f"Request entity too large: limit is {most_bytes}"
    return ApiError(message, code=413, reason="RequestEntityTooLarge")


def expired(message: str) -> ApiError:
    """The version that was asked for is no longer known."""
    return ApiError(message, code=410, reason="Expired")


class ContinuationExpired(ApiError):  # noqa: N818  as its reason is called
    """A list that came in parts cannot go on as it began. `token` is for the rest of it as it is now."""

    def __init__(self, token: str) -> None:
        super().__init__(_INCONSISTENT, code=410, reason="Expired")
        self.token = token


def internal_error(message: str) -> ApiError:
    """The server's fault."""
    details = {"causes": [{"message": message}]}
    return ApiError(f"Internal error occurred: {message}", code=500, reason="InternalError", details=details)


def unfit_patch() -> ApiError:
    """The patch does not fit the object: a test failed, or a path leads nowhere. Kubernetes does not say which."""
    message = "the server rejected our request due to an error in our request"
    return ApiError(message, code=422, reason="Invalid", details={})


def undecodable_patch(why: str) -> ApiError:
    """The patch is no patch."""
    return bad_request(f"error decoding patch: {why}")


def _named(resource: Resource, name: str) -> Json:
    return _details(resource.group, resource.plural, name)


def _details(group: str, plural: str, name: str) -> Json:
    details = {"name": name} if name else {}
    if group:
        details["group"] = group
    return {**details, "kind": plural}
