"""What goes into files and variables of a pod and is not in its document: ConfigMaps, Secrets, tokens, and what the
pod is told about itself. Here are the references, checked; what they refer to is asked for when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from jettison.errors import ManifestError
from jettison.manifests.kept_objects import is_key
from jettison.manifests.pod_fields import ResourceField, check_field, check_resource
from jettison.runtimes.configuration import ObjectKind
from jettison.runtimes.host.specs import pod_documents as wire
from jettison.runtimes.host.specs import texts
from jettison.values import frozen

USUAL_MODE = 0o644
USUAL_SECONDS = 3600

# Far more than any volume has: each source is a request, each file a file.
_MOST_SOURCES, _MOST_ITEMS = 64, 1000
_LONGEST_PATH = 1000


@frozen
class ObjectRef:
    """A ConfigMap or Secret of the pod's namespace."""

    kind: ObjectKind
    name: str
    is_optional: bool = False


@frozen
class KeyRef:
    """One of its values."""

    object: ObjectRef
    key: str


@frozen
class FieldRef:
    """A field of the pod."""

    path: str


Reference = KeyRef | FieldRef | ResourceField
"""Where the value of a variable comes from."""


@frozen
class AllKeys:
    """A variable for each key of an object."""

    object: ObjectRef
    prefix: str = ""


@frozen
class KeyFile:
    """A value of an object as a file; `mode` None is the volume's."""

    key: str
    path: PurePosixPath
    mode: int | None = None


@frozen
class FromObject:
    """Files from an object: those that are named, or all."""

    object: ObjectRef
    files: tuple[KeyFile, ...] = ()


@frozen
class FromPod:
    """One file that tells about the pod."""

    value: FieldRef | ResourceField
    path: PurePosixPath
    mode: int | None = None


@frozen
class FromToken:
    """A token of the pod's service account."""

    path: PurePosixPath
    audience: str = ""
    seconds: int = USUAL_SECONDS


Source = FromObject | FromPod | FromToken


@frozen
class ContentSpec:
    """The files of a volume; of two with one path the later counts. `is_memory`: they are never on a disk."""

    sources: tuple[Source, ...]
    mode: int = USUAL_MODE
    is_memory: bool = True


def volume_content(volume: wire.VolumeWire) -> ContentSpec | None:
    """What the volume shows; None for a volume of another kind. Raises ManifestError."""
    if volume.config_map is not None:
        found = volume.config_map
        sources = (_from_config_map(found, ObjectKind.CONFIG_MAP),)
        return ContentSpec(sources, _mode(found.default_mode), is_memory=False)
    if volume.secret is not None:
        secret = volume.secret
        reference = _object(ObjectKind.SECRET, secret.secret_name, secret.optional)
        return ContentSpec((FromObject(reference, _files(secret.items)),), _mode(secret.default_mode))
    if volume.downward_api is not None:
        return ContentSpec(tuple(_from_pod(volume.downward_api)), _mode(volume.downward_api.default_mode))
    if volume.projected is not None:
        listed = texts.at_most(_MOST_SOURCES, volume.projected.sources, "projected.sources")
        return ContentSpec(
            tuple(each for source in listed for each in _projected(source)), _mode(volume.projected.default_mode)
        )
    return None


def _projected(source: wire.SourceWire) -> Iterator[Source]:
    if source.config_map is not None:
        yield _from_config_map(source.config_map, ObjectKind.CONFIG_MAP)
    elif source.secret is not None:
        yield _from_config_map(source.secret, ObjectKind.SECRET)
    elif source.downward_api is not None:
        yield from _from_pod(source.downward_api)
    elif source.service_account_token is not None:
        token = source.service_account_token
        yield FromToken(
            file_path(token.path), texts.passable(token.audience or "", "audience"), token.expiration_seconds or 3600
        )
    else:
        raise ManifestError(
            "projected.sources: a node has configMap, secret, downwardAPI and serviceAccountToken, nothing else"
        )


def _from_config_map(found: wire.ConfigMapWire, kind: ObjectKind) -> FromObject:
    return FromObject(_object(kind, found.name, found.optional), _files(found.items))


def _from_pod(found: wire.DownwardWire) -> Iterator[FromPod]:
    for item in texts.at_most(_MOST_ITEMS, found.items, "downwardAPI.items"):
        yield FromPod(
            _pod_value(item.field_ref, item.resource_field_ref, is_file=True), file_path(item.path), item.mode
        )


def _pod_value(
    field: wire.FieldRefWire | None, resource: wire.ResourceRefWire | None, *, is_file: bool, container: str = ""
) -> FieldRef | ResourceField:
    if field is not None:
        return FieldRef(check_field(field.field_path, is_file=is_file))
    if resource is None:
        raise ManifestError("one of fieldRef and resourceFieldRef is required")
    name = resource.container_name or container
    divisor = "1" if resource.divisor is None else str(resource.divisor)
    return check_resource(ResourceField(texts.label(name, "containerName"), resource.resource, divisor))


def variable_reference(source: wire.ValueFromWire, container: str) -> Reference:
    """Where a variable of this container comes from. Raises ManifestError."""
    if source.config_map_key_ref is not None:
        return _key(ObjectKind.CONFIG_MAP, source.config_map_key_ref)
    if source.secret_key_ref is not None:
        return _key(ObjectKind.SECRET, source.secret_key_ref)
    if source.field_ref is None and source.resource_field_ref is None:
        known = "fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef"
        raise ManifestError(f"valueFrom: a node has {known}, nothing else")
    return _pod_value(source.field_ref, source.resource_field_ref, is_file=False, container=container)


def all_keys(sources: Iterable[wire.EnvFromWire]) -> Iterator[AllKeys]:
    """What `envFrom` names. Raises ManifestError."""
    for each in sources:
        prefix = texts.passable(each.prefix or "", "envFrom.prefix")
        if each.config_map_ref is not None:
            reference = _object(ObjectKind.CONFIG_MAP, each.config_map_ref.name, each.config_map_ref.optional)
        elif each.secret_ref is not None:
            reference = _object(ObjectKind.SECRET, each.secret_ref.name, each.secret_ref.optional)
        else:
            raise ManifestError("envFrom: one of configMapRef and secretRef is required")
        yield AllKeys(reference, prefix)


def _object(kind: ObjectKind, name: str, optional: bool | None) -> ObjectRef:
    return ObjectRef(kind, texts.subdomain(name, f"{kind} name"), bool(optional))


def _key(kind: ObjectKind, reference: wire.KeyRefWire) -> KeyRef:
    return KeyRef(_object(kind, reference.name, reference.optional), key_name(reference.key))


def key_name(key: str) -> str:
    """The key, if an object may have it: it becomes a file's name."""
    if not is_key(key):
        raise ManifestError(f"key `{texts.shown(key)}` is not made of letters, digits, `-`, `_` and `.`")
    return key


def _files(items: list[wire.ItemWire] | None) -> tuple[KeyFile, ...]:
    listed = texts.at_most(_MOST_ITEMS, items, "items")
    return tuple(KeyFile(key_name(each.key), file_path(each.path), each.mode) for each in listed)


def file_path(path: str) -> PurePosixPath:
    """A path inside a volume; names that begin with two dots are the node's own."""
    found = texts.below(path, "path")
    if not found.parts or any(each.startswith("..") for each in found.parts) or len(path) > _LONGEST_PATH:
        raise ManifestError(f"path `{texts.shown(path)}` must be relative, and no name in it may start with `..`")
    return found


def _mode(mode: int | None) -> int:
    return USUAL_MODE if mode is None else mode
