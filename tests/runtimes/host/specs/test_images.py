"""What a document asks a container runtime for: which pods run in containers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.errors import ImageError, ManifestError
from jettison.runtimes.containers import BoxSecurity
from jettison.runtimes.host.specs.spec import ImageOffer, PodSpec, no_image, pod_spec

ANY, ONLY, MIGHTY = ImageOffer(), ImageOffer(is_only=True), ImageOffer(allows_privileged=True)


def read(offer: ImageOffer | None, *containers: dict[str, Any], **spec: Any) -> PodSpec:
    named = [{"name": f"c{number}", **each} for number, each in enumerate(containers)]
    metadata = {"name": "a", "namespace": "default", "uid": "uid-a"}
    return pod_spec({"metadata": metadata, "spec": {"containers": named, **spec}}, "pod", offer)


IMAGE, COMMAND = {"image": "box:1"}, {"command": ["sleep"]}


@pytest.mark.parametrize(
    ("offer", "containers", "is_boxed"),
    [
        (None, [IMAGE | COMMAND], False),
        (ANY, [IMAGE | COMMAND], True),
        (ANY, [IMAGE], True),
        (ANY, [COMMAND], False),
        (ANY, [IMAGE | COMMAND, COMMAND], False),
        (ONLY, [IMAGE, IMAGE], True),
    ],
)
def test_a_pod_with_images_runs_in_containers_where_there_are_some(
    offer: ImageOffer | None, containers: list[dict[str, Any]], is_boxed: bool
) -> None:
    """One pod is one kind, and an image is optional as long as there is a command."""
    assert read(offer, *containers).is_boxed is is_boxed


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("box", "Always"),
        ("box:latest", "Always"),
        ("box:1", "IfNotPresent"),
        ("host:5000/box", "Always"),
        ("host:5000/box:1", "IfNotPresent"),
        ("box@sha256:abc", "IfNotPresent"),
        ("box:latest@sha256:abc", "IfNotPresent"),
    ],
)
def test_the_usual_pull_policy_is_kubernetes_own(image: str, policy: str) -> None:
    (found,) = read(ANY, {"image": image}).containers
    assert found.image is not None
    assert (found.image.name, found.image.pull_policy) == (image, policy)


def test_command_and_arguments_are_kept_apart() -> None:
    """Without a command the image's own runs, with these arguments."""
    (found,) = read(ANY, {"image": "box:1", "args": ["-v"], "imagePullPolicy": "Never"}).containers
    assert found.image is not None
    assert (found.command, found.image.args, found.image.pull_policy) == ((), ("-v",), "Never")


def test_a_security_context_is_passed_on() -> None:
    own = {
        "runAsUser": 7,
        "runAsGroup": 8,
        "capabilities": {"add": ["CAP_NET_ADMIN"], "drop": ["all"]},
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
    }
    pod = {"supplementalGroups": [5], "fsGroup": 6, "seccompProfile": {"type": "RuntimeDefault"}}
    (found,) = read(ANY, IMAGE | {"securityContext": own}, securityContext=pod).containers
    assert found.image is not None
    assert found.image.security == BoxSecurity(
        7, 8, (5, 6), ("NET_ADMIN",), ("ALL",), False, True, True, has_seccomp=True, must_not_be_root=True
    )
    assert read(MIGHTY, IMAGE | {"securityContext": {"privileged": True}}).is_boxed


def test_mounts_may_lie_inside_one_another() -> None:
    """The outer one first; a process refuses them."""
    mounts = [{"name": "v", "mountPath": "/a/b", "readOnly": True}, {"name": "v", "mountPath": "/a"}]
    (found,) = read(ANY, IMAGE | {"volumeMounts": mounts}, volumes=[{"name": "v", "emptyDir": {}}]).containers
    assert [(str(each.path), each.is_read_only) for each in found.mounts] == [("a", False), ("a/b", True)]


VOLUMES = [{"name": "v", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("offer", "container", "error"),
    [
        (ONLY, COMMAND, "image: required value"),
        (ONLY, {"image": 7, **COMMAND}, "image: required value"),
        (ANY, {"image": "a b"}, "is not the name of an image"),
        (ANY, {"image": "box\x1b[31m"}, "is not the name of an image"),
        (ANY, {"image": "b" * 5000}, "is not the name of an image"),
        (ANY, IMAGE | {"imagePullPolicy": "Sometimes"}, "imagePullPolicy is `Sometimes`"),
        (ANY, IMAGE | {"securityContext": {"privileged": True}}, "--allow-privileged"),
        (ANY, IMAGE | {"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}, "breaks non-root policy"),
        (ANY, IMAGE | {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "../b"}]}, "subPath"),
    ],
)
def test_what_no_container_can_have_is_refused(offer: ImageOffer, container: dict[str, Any], error: str) -> None:
    with pytest.raises(ManifestError, match=error):
        read(offer, container, volumes=VOLUMES)


def test_a_pod_without_its_image_waits_with_the_kubelets_reason() -> None:
    pulled, never = no_image(ImageError("a", "no route")), no_image(ImageError("a", "not here", is_never_pulled=True))
    assert (pulled.reason, pulled.message) == ("ImagePullBackOff", 'Back-off pulling image "a": ErrImagePull: no route')
    assert (never.reason, never.message) == ("ErrImageNeverPull", "not here")
