"""Volumes out of a document."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from jettison.errors import ManifestError
from jettison.runtimes.host.specs.pod_documents import MountWire, VolumeWire
from jettison.runtimes.host.specs.volumes import MountSpec, VolumeSpec, mount_specs, volume_spec

MI = 2**20


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"emptyDir": {}}, VolumeSpec("v")),
        ({"emptyDir": {"sizeLimit": "1Mi"}}, VolumeSpec("v", size_limit=MI)),
        ({"emptyDir": {"sizeLimit": 5}}, VolumeSpec("v", size_limit=5)),
        ({"emptyDir": {"sizeLimit": "0"}}, VolumeSpec("v")),
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}, VolumeSpec("v", is_memory=True, size_limit=MI)),
        ({"hostPath": {"path": "/srv"}}, VolumeSpec("v", host_path="/srv")),
        ({"hostPath": {"path": "/srv", "type": "File"}}, VolumeSpec("v", host_path="/srv", host_path_type="File")),
    ],
)
def test_both_kinds(asked: dict[str, Any], found: VolumeSpec) -> None:
    assert volume_spec(msgspec.convert({"name": "v", **asked}, VolumeWire)) == found


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"name": "V"}, "volume name"),
        ({"nfs": {"server": "m"}}, "a node has configMap, downwardAPI, emptyDir"),
        ({"emptyDir": {"medium": "HugePages"}}, "medium is `HugePages`"),
        ({"emptyDir": {"sizeLimit": "lots"}}, "sizeLimit"),
        ({"emptyDir": {"sizeLimit": []}}, "sizeLimit is a list"),
        ({"emptyDir": {"sizeLimit": True}}, "sizeLimit is true or false"),
        ({"hostPath": {"path": "srv"}}, "must be absolute"),
        ({"hostPath": {"path": "/srv/../etc"}}, "must be absolute and without"),
        ({"hostPath": {"path": "/a\0"}}, "no program can be given"),
        ({"hostPath": {"path": "/", "type": "Pipe"}}, "type is `Pipe`"),
    ],
)
def test_other_kinds_are_refused(asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError) as caught:
        volume_spec(msgspec.convert({"name": "v", **asked}, VolumeWire))
    assert complaint in str(caught.value)


def mounts(*asked: dict[str, Any]) -> tuple[MountSpec, ...]:
    return mount_specs(msgspec.convert([{"name": "v", **each} for each in asked], list[MountWire]), frozenset("v"))


def test_a_mount_is_relative_to_the_writable_directory() -> None:
    assert mounts({"mountPath": "//a//b/"}) == (MountSpec("v", PurePosixPath("a/b"), PurePosixPath()),)


@pytest.mark.parametrize("path", ["", "a", "/", "//", "/../a", "/a/../../b"])
def test_a_mount_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ManifestError, match="mountPath"):
        mounts({"mountPath": path})


@pytest.mark.parametrize(("one", "other"), [("/a", "/a"), ("/a", "/a/b"), ("/a/b", "/a")])
def test_a_mount_inside_another_is_refused(one: str, other: str) -> None:
    with pytest.raises(ManifestError, match="lie inside one another"):
        mounts({"mountPath": one}, {"mountPath": other})


def test_names_with_a_common_beginning_do_not_lie_inside_one_another() -> None:
    assert len(mounts({"mountPath": "/a"}, {"mountPath": "/ab"})) == 2


@pytest.mark.parametrize("more", [{"subPath": "/etc"}, {"subPath": "../x"}, {"subPathExpr": "$(A)"}])
def test_a_sub_path_stays_inside(more: dict[str, str]) -> None:
    with pytest.raises(ManifestError, match="subPath"):
        mounts({"mountPath": "/a", **more})
