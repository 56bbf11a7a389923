"""The query of a write: dry run, field validation, field manager; and the numbers that a query may hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jettison.apiserver.requests import Request
from jettison.apiserver.statuses import bad_request
from jettison.apiserver.validation.mistakes import Mistake, forbidden, invalid, refusal, required, shown, unsupported
from jettison.engine.strconv import parse_int64, quote
from jettison.errors import ApiError

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
    options = WriteOptions(
        tuple(each for each in request.parameters.get("dryRun", ()) if each),
        request.parameter("fieldValidation"),
        request.parameter("fieldManager"),
    )
    if mistakes := list(_mistakes(options)):
        raise invalid_options(kind, mistakes)
    return options


def patch_options(request: Request, *, is_apply: bool) -> WriteOptions:
    """An apply must say who applies; `force` is for applies only."""
    options = write_options(request, "PatchOptions")
    if is_apply and not options.manager:
        raise invalid_options("PatchOptions", [required("fieldManager", "is required for apply patch")])
    if not is_apply and request.parameter("force"):
        raise invalid_options("PatchOptions", [forbidden("force", "may not be specified for non-apply patch")])
    return options


def _mistakes(options: WriteOptions) -> Iterable[Mistake]:
    yield from dry_run_mistakes(options.dry_run)
    if options.validation not in _VALIDATIONS:
        yield unsupported("fieldValidation", options.validation, _VALIDATIONS)
    if len(options.manager) > _LONGEST_MANAGER:
        yield Mistake("fieldManager", "FieldValueTooLong", f"Too long: may not be more than {_LONGEST_MANAGER} bytes")
    elif not options.manager.isprintable():
        yield invalid("fieldManager", options.manager, "should only contain printable characters")


def dry_run_mistakes(dry_run: Iterable[str]) -> Iterable[Mistake]:
    """There is one value."""
    listed = list(dry_run)
    if any(each != DRY_RUN_ALL for each in listed):
        text = f'Unsupported value: {shown(listed)}: supported values: "{DRY_RUN_ALL}"'
        yield Mistake("dryRun", "FieldValueNotSupported", text)


def invalid_options(kind: str, mistakes: Iterable[Mistake]) -> ApiError:
    """422 about the options of a request."""
    return refusal("meta.k8s.io", kind, "", mistakes)


def integer(request: Request, name: str) -> int | None:
    """A number in the query; 400 for something else."""
    text = request.parameter(name)
    if not text:
        return None
    number = parse_int64(text)
    if number is None:
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    return number


def boolean(request: Request, name: str) -> bool | None:
    """A yes or no in the query."""
    return request.is_set(name) if request.parameter(name) else None
