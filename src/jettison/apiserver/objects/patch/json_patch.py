"""JSON patch (RFC 6902): a list of operations on paths, all or nothing."""

from __future__ import annotations

import copy
import re
from typing import Any, Final

import msgspec

from jettison.apiserver.http.json_texts import depth_of
from jettison.apiserver.http.statuses import undecodable_patch, unfit_patch
from jettison.errors import ApiError
from jettison.manifests.files.decoding import DEEPEST

MOST_OPERATIONS: Final = 10_000
MOST_COPIED_BYTES: Final = 3 * 1024 * 1024
"""Of all copies of a patch together. 17 copies of the whole into itself would make a gigabyte of a pod."""

_encode = msgspec.json.Encoder().encode
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")


def apply_json_patch(document: Any, patch: Any) -> Any:
    """The new document."""
    if not isinstance(patch, list) or not all(isinstance(each, dict) for each in patch):
        raise undecodable_patch("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(patch) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        raise ApiError(message, code=413, reason="RequestEntityTooLarge")
    # The old document is stored, and operations go anywhere in it.
    root = [copy.deepcopy(document)]
    copied = 0
    for operation in patch:
        copied += _apply(root, operation, MOST_COPIED_BYTES - copied)
    return root[0]


def _apply(root: list[Any], operation: dict[str, Any], most_bytes: int) -> int:
    """Apply one operation; the answer is how many bytes it copied, of at most `most_bytes`."""
    name, path = operation.get("op"), _split(operation.get("path"))
    if name in ("add", "replace") and "value" not in operation:
        raise unfit_patch()
    match name:
        case "add":
            _add(root, path, _at_depth(path, copy.deepcopy(operation["value"])))
        case "remove":
            _remove(root, path)
        case "replace":
            _find(root, path)
            _set(root, path, _at_depth(path, copy.deepcopy(operation["value"])))
        case "move":
            source = _split(operation.get("from"))
            if path[: len(source)] == source and path != source:
                raise unfit_patch()
            value = _find(root, source)
            # Moving copies nothing, but measuring the depth of a value takes as long as copying it.
            size = _size(value, most_bytes)
            _remove(root, source)
            _add(root, path, _at_depth(path, value))
            return size
        case "copy":
            value = _find(root, _split(operation.get("from")))
            size = _size(value, most_bytes)
            _add(root, path, _at_depth(path, copy.deepcopy(value)))
            return size
        case "test":
            _test(root, path, operation.get("value"))
        case _:
            raise unfit_patch()
    return 0


def _size(value: Any, most_bytes: int) -> int:
    size = len(_encode(value))
    if size > most_bytes:
        raise unfit_patch()
    return size


def _at_depth(path: list[str], value: Any) -> Any:
    """The value, if the document does not become deeper by it than one that is sent whole may be."""
    if len(path) - 1 + depth_of(value) > DEEPEST:
        raise unfit_patch()
    return value


def _split(path: object) -> list[str]:
    """The steps from the root. The document is the only element of a list, so the first step always exists."""
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise unfit_patch()
    return ["0", *(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])]


def _find(root: list[Any], path: list[str]) -> Any:
    value: Any = root
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(step, len(value) - 1)]
        else:
            raise unfit_patch()
    return value


def _index(step: str, last: int) -> int:
    if not _INDEX.fullmatch(step) or int(step) > last:
        raise unfit_patch()
    return int(step)


def _add(root: list[Any], path: list[str], value: Any) -> None:
    parent = _find(root, path[:-1])
    if isinstance(parent, list) and parent is not root:
        step = path[-1]
        parent.insert(len(parent) if step == "-" else _index(step, len(parent)), value)
    else:
        _set(root, path, value)


def _set(root: list[Any], path: list[str], value: Any) -> None:
    parent = _find(root, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        raise unfit_patch()


def _remove(root: list[Any], path: list[str]) -> None:
    parent = _find(root, path[:-1])
    if parent is root:
        raise unfit_patch()
    if isinstance(parent, dict) and path[-1] in parent:
        del parent[path[-1]]
    elif isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1)]
    else:
        raise unfit_patch()


def _test(root: list[Any], path: list[str], expected: Any) -> None:
    try:
        found = _find(root, path)
    except ApiError:
        if expected is None:
            return
        raise
    # 1 and true are equal to Python.
    if found != expected or isinstance(found, bool) is not isinstance(expected, bool):
        raise unfit_patch()
