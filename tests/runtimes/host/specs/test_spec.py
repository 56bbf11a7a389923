"""What a document asks for, and what a bare host refuses."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from jettison.engine.lifecycle.rules import ProbeKind, RestartPolicy
from jettison.errors import ManifestError
from jettison.runtimes.host.specs.content import FieldRef
from jettison.runtimes.host.specs.probes import ExecAction
from jettison.runtimes.host.specs.security import NO_SECURITY
from jettison.runtimes.host.specs.spec import pod_spec
from tests.runtimes.host.scenes import SLEEPS, container, document


def test_everything_that_can_be_asked_for() -> None:
    spec = pod_spec(
        document(
            container(
                ["app"],
                args=["--name", "$(NAME)"],
                workingDir="/srv",
                env=[
                    {"name": "A", "value": "1"},
                    {"name": "EMPTY"},
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                ],
                volumeMounts=[{"name": "cache", "mountPath": "/var/cache", "subPath": "x"}],
                livenessProbe={"exec": {"command": ["true"]}},
                lifecycle={"preStop": {"exec": {"command": ["sync"]}}},
                image="ignored:1",
            ),
            initContainers=[container(["setup"], "first"), container(["proxy"], "side", restartPolicy="Always")],
            volumes=[{"name": "cache", "emptyDir": {}}],
            restartPolicy="OnFailure",
            terminationGracePeriodSeconds=5,
            activeDeadlineSeconds=600,
            securityContext={"runAsUser": 1000, "runAsGroup": 2000, "runAsNonRoot": True},
        )
    )
    app = spec.containers[0]
    assert app.command == ("app", "--name", "$(NAME)")
    assert dict(app.env) == {
        "A": "1",
        "EMPTY": "",
        "NAME": FieldRef("metadata.name"),
        "NAMESPACE": FieldRef("metadata.namespace"),
        "UID": FieldRef("metadata.uid"),
    }
    assert app.has_references
    assert app.literals == (("A", "1"), ("EMPTY", ""))
    assert app.working_dir == "/srv"
    assert [(each.volume, each.path, each.sub_path) for each in app.mounts] == [
        ("cache", PurePosixPath("var/cache"), PurePosixPath("x"))
    ]
    assert [each.kind for each in app.probes] == [ProbeKind.LIVENESS]
    assert app.pre_stop == ExecAction(("sync",))
    assert (app.security.user, app.security.group) == (1000, 2000)
    assert [(each.name, each.is_init, each.is_sidecar) for each in spec.init_containers] == [
        ("first", True, False),
        ("side", True, True),
    ]
    assert spec.restart_policy is RestartPolicy.ON_FAILURE
    assert (spec.grace_seconds, spec.deadline_seconds) == (5, 600)


def test_what_is_left_out_is_as_kubernetes_has_it() -> None:
    spec = pod_spec(document(container(SLEEPS)))
    assert spec.restart_policy is RestartPolicy.ALWAYS
    assert (spec.grace_seconds, spec.deadline_seconds) == (30, None)
    assert spec.containers[0].security is NO_SECURITY


def test_a_containers_own_identity_wins_over_the_pods() -> None:
    own = container(SLEEPS, securityContext={"runAsUser": 1, "runAsNonRoot": False})
    spec = pod_spec(document(own, securityContext={"runAsUser": 0, "runAsGroup": 3, "runAsNonRoot": True}))
    assert (spec.containers[0].security.user, spec.containers[0].security.group) == (1, 3)


def one(**more: Any) -> dict[str, Any]:
    return document(container(SLEEPS, **more))


REFUSED = [
    (document(), "spec.containers: required value"),
    (document(container([])), "container `c`: no command"),
    (document(container([""])), "container `c`: no command"),
    (document({"name": "c", "args": ["x"]}), "container `c`: no command"),
    (document(container(SLEEPS), container(SLEEPS)), "two containers are called `c`"),
    (document(container(SLEEPS), initContainers=[container(SLEEPS)]), "two containers are called `c`"),
    (document(container(SLEEPS, "../x")), "container name `../x` is not"),
    (document(container(SLEEPS, "tasks\n")), "container name"),
    (document(container(["a\0b"])), "command: `a"),
    (one(args=["\ud800"]), "command"),
    (one(workingDir="/a\0"), "workingDir"),
    (one(env=[{"name": "A=B", "value": ""}]), "env: `A=B` is not a name"),
    (one(env=[{"name": "", "value": ""}]), "env: `` is not a name"),
    (one(env=[{"name": "A", "value": "\0"}]), "env `A`"),
    (one(env=[{"name": "A", "value": 1}]), "expected `str"),
    (one(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a/b"}}}]), "key `a/b` is not made of"),
    (
        one(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "../s", "key": "k"}}}]),
        "secret name `../s` is not",
    ),
    (one(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]), "is not known, there are"),
    (one(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]), "is not known, there are"),
    (one(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.x"}}}]), "unsupported container"),
    (one(env=[{"name": "A", "valueFrom": {"fileKeyRef": {}}}]), "valueFrom: a node has fieldRef, resourceFieldRef"),
    (one(envFrom=[{}]), "envFrom: one of configMapRef and secretRef is required"),
    (one(volumeMounts=[{"name": "x", "mountPath": "/x"}]), "there is no volume `x`"),
    (one(restartPolicy="Always"), "only on init containers"),
    (document(container(SLEEPS), initContainers=[container(SLEEPS, "i", restartPolicy="Never")]), "may only be"),
    (document(container(SLEEPS), initContainers=[container(SLEEPS, "i", livenessProbe={})]), "probes and hooks"),
    (one(lifecycle={"preStop": {"tcpSocket": {"port": 1}}}), "preStop: tcpSocket does nothing in a hook"),
    (one(lifecycle={"preStop": {"exec": {}}}), "preStop: exec.command: required value"),
    (one(lifecycle={"preStop": {}}), "preStop: exactly one of exec, httpGet and sleep is needed, got 0"),
    (one(lifecycle={"postStart": {"sleep": {"seconds": 1}, "exec": {"command": ["x"]}}}), "needed, got 2"),
    (one(lifecycle={"postStart": {"sleep": {"seconds": 31}}}), "sleep.seconds is `31`, must be non-negative and at"),
    (one(lifecycle={"preStop": {"sleep": {"seconds": -1}}}), "sleep.seconds is `-1`"),
    (one(lifecycle={"postStart": {"httpGet": {"port": "web"}}}), "no port called `web`"),
    (one(securityContext={"runAsNonRoot": True}), "container has runAsNonRoot and image will run as root"),
    (one(securityContext={"runAsUser": -1}), "expected `int` >= 0"),
    (document(container(SLEEPS), restartPolicy="Sometimes"), "spec.restartPolicy is `Sometimes`"),
    (document(container(SLEEPS), activeDeadlineSeconds=0), "expected `int` >= 1"),
    (document(container(SLEEPS), activeDeadlineSeconds=2**31), "expected `int` <= 2147483647"),
    (document(container(SLEEPS), terminationGracePeriodSeconds=-1), "expected `int` >= 0"),
    (one(resources={"limits": {"memory": -5}}), "container `c`: resources.limits[memory]: `-5` must be greater than"),
    (
        one(resources={"requests": {"cpu": "-100m"}}),
        "resources.requests[cpu]: `-100m` must be greater than",
    ),
    (one(resources={"limits": {"memory": "much"}}), "resources.limits[memory]: "),
    (one(resources={"limits": {"memory": 10**5000}}), "resources.limits[memory]: "),
    (document(container(SLEEPS), resources={"limits": {"cpu": "-1"}}), "spec.resources.limits[cpu]: `-1` must be"),
    (document(container(SLEEPS), volumes=[{"name": "v"}]), "a node has configMap, downwardAPI, emptyDir"),
    (document(container(SLEEPS), volumes=[{"name": "v", "emptyDir": {}}] * 2), "two volumes are called `v`"),
    (document(container(SLEEPS), name="../../etc"), "metadata.name"),
    (document(container(SLEEPS), name="a" * 125), "do not fit into the 255 characters"),
    ({"metadata": {"name": "a", "namespace": "x/y"}, "spec": {"containers": []}}, "metadata.namespace"),
    ({"metadata": {"name": "a", "namespace": "n", "uid": "u" * 201}}, "metadata.uid has 201 characters"),
    ({"metadata": 3}, "expected `object"),
    ("not a pod", "expected `object"),
    (None, "expected `object"),
    ({"metadata": {"name": "a", "namespace": "n"}, "spec": {"containers": {"name": "c"}}}, "expected `array"),
]


@pytest.mark.parametrize(("asked", "complaint"), REFUSED)
def test_what_cannot_be_had_is_refused_and_named(asked: object, complaint: str) -> None:
    with pytest.raises(ManifestError) as caught:
        pod_spec(asked, "file.yaml")
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("file.yaml: ")
