"""The four kinds of patches, each a pure function from the old document and the patch to the new one.

Whether the result is valid is not asked here. Nothing of the old document may be changed: it is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jettison.apiserver.objects.patch.json_patch import apply_json_patch
from jettison.apiserver.objects.patch.strategic import apply_strategic_patch

Json = dict[str, Any]
Patcher = Callable[[Json, Any, str], Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

PATCHERS: Final[dict[str, Patcher]] = {
    JSON_PATCH: lambda document, patch, _: apply_json_patch(document, patch),
    MERGE_PATCH: lambda document, patch, _: apply_merge_patch(document, patch),
    STRATEGIC_PATCH: apply_strategic_patch,
    # Without a record of which manager owns which field, what is applied is merged in, and a field that is left out
    # is not removed.
    APPLY_PATCH: apply_strategic_patch,
}


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386): an object says what changes, null removes, everything else replaces.

    The new value shares with the old one whatever the patch does not touch.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged
