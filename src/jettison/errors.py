"""Everything that Jettison itself can report as having gone wrong.

    JettisonError                 exit 1   something we named went wrong
    ├─ InputError                 exit 2   a file or a value that we were given cannot be used
    │  ├─ QuantityError                    not a Kubernetes quantity
    │  ├─ DurationError                    not a Go duration
    │  └─ ManifestError                    not the Kubernetes object it should be
    ├─ PolicyError                exit 2   the operator asked for the impossible; carries every complaint
    ├─ ApiError                            a Kubernetes API said no: code, reason and details of its Status document
    │  ├─ NotFound                         404: there is no such object, or no longer
    │  └─ Conflict                         409: another writer was faster, or a precondition does not hold
    └─ RuntimeFailure                      the machine did not do its part; worth another try at the next step
       ├─ ObservationError                 something could not be measured or read: nothing is decided from it
       ├─ UnreachableError                 a server did not answer
       │  └─ ConnectionBroken              it hung up, or sent something that is no answer
       ├─ StreamError                      what the other side of a stream sends is not what its protocol allows
       ├─ ContentError                     what a pod's volumes or variables refer to is not there, or not to be had
       └─ ActionError                      something could not be done; only its kinds are raised
          ├─ WriteError                    a file or a setting of the kernel could not be written
          ├─ RemovalError                  a file, a directory or a cgroup could not be removed
          ├─ MountError                    a volume could not be set up, mounted or unmounted
          ├─ StartError                    a process could not be started
          ├─ SignalError                   a process could not be signalled, or outlived SIGKILL
          ├─ ServeError                    an endpoint could not be opened
          ├─ ContainerRuntimeError         a container runtime said no: its own words, and the code of the answer
          ├─ ImageError                    an image cannot be had, or may not be pulled
          ├─ EvictionRefused               the pod may not be ended now: it is protected, or too many were
          ├─ PodGone                       there is no such pod (any more): as good as done
          └─ StillRunning                  the pod has not stopped; the killing goes on

An error ends in `Error` or says what is the case, a fact (`events.py`) says what happened: `ObservationError` is
raised, `ObservationFailed` is recorded. Foreign exceptions are translated once, at the edge that met them, with `from`.
A message says what, which value and what is allowed: lower case, no full stop. Where Kubernetes has a text for the same
mistake, the text is Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jettison.values import frozen

_KINDS: Final[Mapping[type, str]] = {
    dict: "a map",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


def kind_in_words(value: object) -> str:
    """What a value of a document is, for a message: its author may not know what Python calls it."""
    return _KINDS.get(type(value), "empty")


class JettisonError(Exception):
    """Something we named went wrong."""

    exit_code = 1


class InputError(JettisonError):
    """A file or a value that we were given cannot be used."""

    exit_code = 2


class QuantityError(InputError):
    """Not a Kubernetes quantity."""


class DurationError(InputError):
    """Not a Go duration."""


class ManifestError(InputError):
    """Not the Kubernetes object it should be."""


@frozen
class Complaint:
    """One mistake in a configuration: which key, and what is wrong with its value."""

    key: str
    text: str
    # The file, drop-in or flag that set the key; empty where nothing set it.
    origin: str = ""


class PolicyError(JettisonError):
    """The operator asked for the impossible.

    Kubernetes stops at the first mistake it happens to meet in a hash map; we collect them all, so that a
    configuration is mended in one round.
    """

    exit_code = 2

    def __init__(self, complaints: Iterable[Complaint]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("; ".join(complaint.text for complaint in self.complaints))

    @property
    def leading(self) -> tuple[Complaint, ...]:
        """Those of the first field with mistakes: Kubernetes would have stopped at any one of them."""
        field = self.complaints[0].key.partition(".")[0]
        return tuple(each for each in self.complaints if each.key.partition(".")[0] == field)


class ApiError(JettisonError):
    """A Kubernetes API said no, ours or another: what its Status document carries.

    Absent details (None) and empty ones are different documents, and clients see the difference. So are an absent
    reason and `InternalError`: an eviction under two budgets answers 500 without one.
    """

    code = 500
    reason = ""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.code if code is None else code
        self.reason = self.reason if reason is None else reason
        self.details = details

    @property
    def retry_after_seconds(self) -> int:
        """How long to wait before the next try; 0 where the server named no time."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return seconds if isinstance(seconds, int) else 0


class NotFound(ApiError):  # noqa: N818  as its reason is called
    """There is no such object, or no longer."""

    code = 404
    reason = "NotFound"


class Conflict(ApiError):  # noqa: N818  as its reason is called
    """Another writer was faster, or a precondition does not hold."""

    code = 409
    reason = "Conflict"


class RuntimeFailure(JettisonError):  # noqa: N818  the machine failed, the program made no error
    """The machine did not do its part; worth another try at the next step."""


class ObservationError(RuntimeFailure):
    """Something could not be measured or read, so nothing may be decided from it."""


class UnreachableError(RuntimeFailure):
    """A server did not answer, so that nothing is known of what it did with the request."""


class ConnectionBroken(UnreachableError):  # noqa: N818  what is the case
    """The server hung up in the middle, or sent something that is no answer."""


class StreamError(RuntimeFailure):
    """What the other side of a stream sends is not what its protocol allows. `code` is what WebSocket closes with."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class ContentError(RuntimeFailure):
    """What a pod's volumes or variables refer to is not there, or cannot be asked for now."""


class ActionError(RuntimeFailure):
    """Something could not be done; the world is as it was, or half way. Only its kinds are raised."""


class WriteError(ActionError):
    """A file or a setting of the kernel could not be written, or a directory or cgroup could not be created."""


class RemovalError(ActionError):
    """A file, a directory or a cgroup could not be removed."""


class MountError(ActionError):
    """A volume could not be set up, mounted or unmounted."""


class StartError(ActionError):
    """A process could not be started, and there is none."""


class SignalError(ActionError):
    """A process could not be signalled, or outlived SIGKILL."""


class ServeError(ActionError):
    """An endpoint could not be opened: its address is taken, or there is no certificate for it."""


class ContainerRuntimeError(ActionError):
    """A container runtime said no. `code` is gRPC's: 5 where there is no such thing, 12 for an unknown call."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class ImageError(ActionError):
    """An image cannot be had: the container runtime's own words. Where `is_never_pulled`, it may not be fetched."""

    def __init__(self, image: str, why: str, *, is_never_pulled: bool = False) -> None:
        super().__init__(why)
        self.image = image
        self.is_never_pulled = is_never_pulled


class EvictionRefused(ActionError):  # noqa: N818  says what is the case
    """The pod may not be ended now."""


class PodGone(ActionError):  # noqa: N818  no failure: the pod is where it should be
    """There is no such pod (any more): as good as done."""


class StillRunning(ActionError):  # noqa: N818  says what is the case
    """The pod has not stopped (in time); the killing goes on."""
