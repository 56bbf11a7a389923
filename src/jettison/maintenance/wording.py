"""Errors of an API in kubectl's words."""

from __future__ import annotations

from jettison.errors import ApiError, JettisonError


def server_text(error: JettisonError) -> str:
    """As the last line of a failed command. Errors that are not the server's speak for themselves."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.reason == "Unauthorized":
        return f"error: You must be logged in to the server ({error.message})"
    return f"Error from server ({error.reason}): {error.message}" if error.reason else f"Error from server: {error}"


def causes(error: ApiError) -> str:
    """What kubectl hides: which budget refuses, and why. The message alone where there is nothing more."""
    listed = (error.details or {}).get("causes")
    texts = [
        each["message"]
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("message"), str)
    ]
    return "; ".join(texts) or error.message


def has_cause(error: ApiError, reason: str) -> bool:
    """Does the error give this reason among its causes?"""
    listed = (error.details or {}).get("causes")
    return isinstance(listed, list) and any(isinstance(each, dict) and each.get("reason") == reason for each in listed)
