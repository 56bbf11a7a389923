"""The query of a write: dry run, field validation, field manager; and the numbers that a query may hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jettison.apiserver.http.requests import Request
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    forbidden,
    invalid,
    refusal,
    required,
    shown,
    too_long,
    unsupported,
)
from jettison.engine.numbers.strconv import atoi
from jettison.errors import ApiError, InputError

DRY_RUN_ALL: Final = "All"
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_LONGEST_MANAGER: Final = 128


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Checked options of a create, update or patch."""

    dry_run: tuple[str, ...]
    validation: str
    manager: str

    @property
    def is_dry_run(self) -> bool:
        """Whether everything is to happen but the write."""
        return bool(self.dry_run)


def write_options(request: Request, kind: str) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions: the complaint names it."""
    options = _read(request)
    if mistakes := list(_mistakes(options)):
        raise invalid_options(kind, mistakes)
    return options


def _read(request: Request) -> WriteOptions:
    return WriteOptions(
        tuple(request.parameters.get("dryRun", ())),
        request.parameter("fieldValidation"),
        request.parameter("fieldManager"),
    )


def patch_options(request: Request, *, is_apply: bool) -> WriteOptions:
    """An apply must name its field manager; `force` is for applies only."""
    options = _read(request)
    mistakes = list(_mistakes(options))
    if is_apply and not options.manager:
        mistakes.insert(0, required("fieldManager", "is required for apply patch"))
    if not is_apply and "force" in request.parameters:
        mistakes.insert(0, forbidden("force", "may not be specified for non-apply patch"))
    if mistakes:
        raise invalid_options("PatchOptions", mistakes)
    return options


def _mistakes(options: WriteOptions) -> Iterable[Mistake]:
    manager = options.manager.encode("utf-8", "replace")
    if len(manager) > _LONGEST_MANAGER:
        yield too_long("fieldManager", _LONGEST_MANAGER)
    at = 0
    for char in options.manager:
        if not char.isprintable():
            why = f"invalid character U+{ord(char):04X} (at position {at})"
            yield invalid("fieldManager", options.manager, why)
        at += len(char.encode("utf-8", "replace"))
    yield from dry_run_mistakes(options.dry_run)
    if options.validation not in _VALIDATIONS:
        yield unsupported("fieldValidation", options.validation, _VALIDATIONS)


def dry_run_mistakes(dry_run: Iterable[str]) -> Iterable[Mistake]:
    """`All` is the only value."""
    listed = list(dry_run)
    if any(each != DRY_RUN_ALL for each in listed):
        text = f'Unsupported value: {shown(listed)}: supported values: "{DRY_RUN_ALL}"'
        yield Mistake("dryRun", "FieldValueNotSupported", text)


def invalid_options(kind: str, mistakes: Iterable[Mistake]) -> ApiError:
    """422 about the options of a request."""
    return refusal("meta.k8s.io", kind, "", mistakes)


def integer(request: Request, name: str) -> int | None:
    """A number in the query; 400 for something else, and an empty text is something else."""
    if name not in request.parameters:
        return None
    try:
        return atoi(request.parameter(name))
    except InputError as error:
        raise bad_request(str(error).replace("strconv.Atoi", "strconv.ParseInt", 1)) from error


def boolean(request: Request, name: str) -> bool | None:
    """A yes or no in the query. As in Go everything is a yes that is not clearly a no."""
    if name not in request.parameters:
        return None
    return request.parameter(name).lower() not in ("0", "false")
