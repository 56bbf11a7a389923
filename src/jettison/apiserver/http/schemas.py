"""OpenAPI schemas of the kinds that are served, for `kubectl explain`: fields and types from the table of structs, what
they mean from `field_words.txt`, and which of them must be there, or be one of a few texts, from `field_marks.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

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


class FieldMarks(NamedTuple):
    """What a schema says about a field beside its type."""

    is_required: bool = False
    choices: tuple[str, ...] = ()


def component(struct: str, row: Resource) -> str:
    """The name of a schema: the struct's, without the group and version that tell it from another one here."""
    return struct.removeprefix(row.group.partition(".")[0].title() + row.version.title())


def components(rows: list[Resource]) -> Json:
    """The schemas of these resources, and of everything in them. All are of one group and version."""
    if not rows:
        return {}
    first = rows[0]
    prefix = f"io.k8s.api.{first.group.partition('.')[0] or 'core'}.{first.version}."
    kinds: dict[str, Resource] = {row.struct: row for row in rows}
    names = {struct: prefix + component(struct, first) for struct in sorted(set(_closure(kinds)))}
    names |= {base: prefix + name for base, name in _NAMED.items()}
    found = {names[struct]: _schema(struct, names, kinds.get(struct)) for struct in names if struct not in _NAMED}
    return found | {names[base]: dict(_SCALARS[base]) for base in _NAMED}


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


def _schema(name: str, names: Mapping[str, str], row: Resource | None) -> Json:
    fields = structs()[name].fields
    properties = {each.name: _property(name, each, names) for each in fields.values()}
    schema: Json = {"type": "object", "properties": properties}
    if text := _words().get(name, {}).get(_ITSELF):
        schema["description"] = text
    if required := [each for each, marks in _marks().get(name, {}).items() if marks.is_required]:
        schema["required"] = required
    if row is not None:
        schema["properties"] = {**_EVERY_KIND, **properties}
        schema["x-kubernetes-group-version-kind"] = [{"group": row.group, "version": row.version, "kind": row.kind}]
    return schema


def _property(struct: str, field: Field, names: Mapping[str, str]) -> Json:
    schema = _typed(field.type, names)
    if choices := _marks().get(struct, {}).get(field.name, FieldMarks()).choices:
        (schema["items"] if field.type.shape else schema)["enum"] = list(choices)
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


def _typed(kind: Type, names: Mapping[str, str]) -> Json:
    if kind.shape:
        inner = _typed(kind.element, names)
        return {"type": "array", "items": inner} if kind.shape[0] == "[]" else {
            "type": "object", "additionalProperties": inner,
        }  # fmt: skip
    if kind.is_struct or kind.base in _NAMED:
        return {"$ref": f"#/components/schemas/{names[kind.base]}"}
    return dict(_SCALARS[kind.base])


@cache
def _words() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for title, lines in _paragraphs("field_words.txt").items():
        struct, _, other = title.partition(" = ")
        fields = structs()[struct].fields
        shared = {name: text for name, text in found[other].items() if name in fields} if other else {}
        found[struct] = {**shared, **{name: text for name, _, text in (line.partition(": ") for line in lines)}}
    return found


@cache
def _marks() -> Mapping[str, Mapping[str, FieldMarks]]:
    found: dict[str, dict[str, FieldMarks]] = {}
    for struct, lines in _paragraphs("field_marks.txt").items():
        fields = found[struct] = {}
        for each in re.sub(r",\s+", ",", " ".join(lines)).split():
            name, _, texts = each.partition(":")
            choices = tuple("" if text == "-" else text for text in texts.split(",")) if texts else ()
            fields[name.removesuffix("!")] = FieldMarks(name.endswith("!"), choices)
    return found


def _paragraphs(name: str) -> Mapping[str, list[str]]:
    """The structs of a table, with the lines that are indented below each."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in files(__package__).joinpath(name).read_text("utf-8").splitlines():
        if line.startswith("  "):
            lines.append(line.strip())
        elif line and not line.startswith("#"):
            lines = found[line] = []
    return found
