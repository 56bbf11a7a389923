"""A short name for a pod template, as in `pod-template-hash` and `controller-revision-hash`.

Deliberately not Kubernetes' value, which is a 32-bit hash of how Go happens to print a structure and changes when a
field is added to it. All that matters is that equal templates have equal names, today and after an upgrade, and that
different ones do not; where a name is taken by a different template, the hash is made again with a collision count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which a Deployment tells the pods of its ReplicaSets apart."""

# Without vowels, so that no word comes out, and without what looks alike: as the ends of generated names.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


def template_hash(template: object, collision_count: int | None = None) -> str:
    """Ten characters that may stand in a label and a name; 27^10 of them, some 47 bits."""
    # ASCII: what a plain repr leaves unescaped depends on the Unicode tables of the Python that runs.
    text = ascii(_canonical(template))
    if collision_count is not None:
        text += f"#{collision_count}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16])
    letters = []
    for _ in range(_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def is_same_template(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether pods of the two would be alike; the hash that a ReplicaSet's template carries does not count."""
    return is_alike(_without_hash(one), _without_hash(other))


def is_alike(one: object, other: object) -> bool:
    """Whether Go would read the same from both."""
    return one == other or _canonical(one) == _canonical(other)


def _without_hash(template: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != POD_TEMPLATE_HASH}
    return {**template, "metadata": {**metadata, "labels": labels or None}}


def _canonical(value: object) -> object:
    """Null and an empty list are as good as absent to Go; an empty object is not, see `emptyDir: {}`."""
    if isinstance(value, Mapping):
        items = sorted((str(key), _canonical(each)) for key, each in value.items() if each not in (None, [], ()))
        return tuple(items)
    return [_canonical(each) for each in value] if isinstance(value, list | tuple) else value
