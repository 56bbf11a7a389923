"""OpenAPI schemas of the kinds that are served, for `kubectl explain`: fields and types from the table of structs, and
what they mean from `field_words.txt`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jettison.apiserver.objects.resources import Resource
from jettison.manifests.files.kinds import Field, Type, structs

Json = dict[str, Any]

_SCALARS: Final[Mapping[str, Json]] = {
    "any": {"type": "object"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "float64": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "intOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "string": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}
# Shown by a name, which says more than the texts and numbers that they are.
_NAMED: Final = {"intOrString": "IntOrString", "quantity": "Quantity"}
_ITSELF: Final = "."
_EVERY_KIND: Final[Mapping[str, Json]] = {
    "apiVersion": {"description": "The group and version of its kind, such as apps/v1.", "type": "string"},
    "kind": {"description": "The kind of object that it is.", "type": "string"},
}


def components(rows: list[Resource]) -> Json:
    """The schemas of these resources, and of everything in them. All are of one group and version."""
    if not rows:
        return {}
    prefix = f"io.k8s.api.{rows[0].group.partition('.')[0] or 'core'}.{rows[0].version}."
    kinds: dict[str, Resource] = {row.struct: row for row in rows}
    found = {prefix + name: _schema(name, prefix, kinds.get(name)) for name in sorted(set(_closure(kinds)))}
    return found | {prefix + name: dict(_SCALARS[base]) for base, name in _NAMED.items()}


def _closure(roots: Mapping[str, Resource]) -> Iterator[str]:
    known = structs()
    seen: set[str] = set()
    waiting = [name for name in roots if name in known]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        yield name
        waiting += (each.type.base for each in known[name].fields.values() if each.type.base in known)


def _schema(name: str, prefix: str, row: Resource | None) -> Json:
    fields = structs()[name].fields
    properties = {each.name: _property(name, each, prefix) for each in fields.values()}
    schema: Json = {"type": "object", "properties": properties}
    if text := _words().get(name, {}).get(_ITSELF):
        schema["description"] = text
    if required := sorted(each.name for each in fields.values() if _is_required(each)):
        schema["required"] = required
    if row is not None:
        schema["properties"] = {**_EVERY_KIND, **properties}
        schema["x-kubernetes-group-version-kind"] = [{"group": row.group, "version": row.version, "kind": row.kind}]
    return schema


def _is_required(field: Field) -> bool:
    """Go writes it even when it is empty, and it is not a struct with defaults of its own."""
    return field.is_always_written and not field.is_pointer and field.type.base in ("string", "int32", "int64")


def _property(struct: str, field: Field, prefix: str) -> Json:
    schema = _typed(field.type, prefix)
    text = _words().get(struct, {}).get(field.name)
    if text is None and field.type.is_struct:
        text = _words().get(field.type.base, {}).get(_ITSELF)
    if "$ref" in schema and text is not None:
        schema = {"allOf": [schema]}
    if text is not None:
        schema = {"description": text, **schema}
    if field.merge_key is not None and field.type.shape[:1] == ("[]",):
        schema["x-kubernetes-patch-strategy"] = "merge"
        if field.merge_key:
            schema["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.keys is not None:
        schema["x-kubernetes-list-type"] = "map" if field.keys else "set"
        if field.keys:
            schema["x-kubernetes-list-map-keys"] = list(field.keys)
    return schema


def _typed(kind: Type, prefix: str) -> Json:
    if kind.shape:
        inner = _typed(kind.element, prefix)
        return {"type": "array", "items": inner} if kind.shape[0] == "[]" else {
            "type": "object", "additionalProperties": inner,
        }  # fmt: skip
    if kind.is_struct or kind.base in _NAMED:
        return {"$ref": f"#/components/schemas/{prefix}{_NAMED.get(kind.base, kind.base)}"}
    return dict(_SCALARS[kind.base])


@cache
def _words() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in files(__package__).joinpath("field_words.txt").read_text("utf-8").splitlines():
        if line.startswith("  "):
            name, _, text = line.strip().partition(": ")
            current[name] = text
        elif line and not line.startswith("#"):
            current = found[line] = {}
    return found
