"""The Pod Security Standards: what each check says, and what labels of a namespace ask for, in Kubernetes' texts."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from jettison.apiserver.objects.pod_security import SecurityLevel, warn_of_pods
from jettison.apiserver.objects.security_checks import CHECKS, NEWEST, secured_pod, violations
from jettison.clock import SystemClock
from tests.apiserver.served import MERGE, Served

Json = dict[str, Any]

PREFIX = "pod-security.kubernetes.io"
GOOD: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(
    context: Json | None = None, annotations: Json | None = None, container: Json | None = None, **spec: Any
) -> Json:
    """One that `restricted` accepts, but for what is given."""
    whole = {"name": "c", "image": "i", "securityContext": {**GOOD, **(context or {})}, **(container or {})}
    return {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": {"containers": [whole], **spec}}


def without(key: str) -> Json:
    found = pod()
    del found["spec"]["containers"][0]["securityContext"][key]
    return found


def two(context: Json) -> Json:
    found = pod(context)
    found["spec"]["initContainers"] = [{**copy.deepcopy(found["spec"]["containers"][0]), "name": "a"}]
    return found


def said(document: Json, level: str = "restricted", minor: int = NEWEST) -> str:
    return ", ".join(map(str, violations(secured_pod(document), level, minor)))


MUST = "must set securityContext"
MUST_NOT = "must not set securityContext"
BASELINE: list[tuple[str, Json, str]] = [
    (
        "appArmorProfile",
        pod({"appArmorProfile": {"type": "Unconfined"}}),
        'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
    ),
    (
        "appArmorProfile",
        pod(
            annotations={"container.apparmor.security.beta.kubernetes.io/c": "unconfined"},
            securityContext={"appArmorProfile": {"type": "Unconfined"}},
        ),
        (
            "forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to "
            '"Unconfined", "container.apparmor.security.beta.kubernetes.io/c="unconfined"")'
        ),
    ),
    (
        "hostNamespaces",
        pod(hostNetwork=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostIPC=true)",
    ),
    (
        "hostPorts",
        pod(container={"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 10}]}),
        'hostPort (container "c" uses hostPorts 10, 9)',
    ),
    (
        "hostProbesAndHostLifecycle",
        pod(
            container={
                "livenessProbe": {"httpGet": {"port": 1, "host": "1.2.3.4"}},
                "lifecycle": {"preStop": {"tcpSocket": {"port": 1, "host": "h"}}},
            }
        ),
        'probe or lifecycle host (container "c" uses probe or lifecycle hosts "1.2.3.4", "h")',
    ),
    ("privileged", two({"privileged": True}), f'privileged (containers "a", "c" {MUST_NOT}.privileged=true)'),
    (
        "procMount",
        pod({"procMount": "Unmasked"}),
        f'procMount (container "c" {MUST_NOT}.procMount to "Unmasked")',
    ),
    (
        "seLinuxOptions",
        pod(
            {"seLinuxOptions": {"type": "odd_t", "user": "u"}},
            securityContext={"seLinuxOptions": {"type": "even_t", "role": "r"}},
        ),
        (
            'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: types "even_t", '
            '"odd_t"; user may not be set; role may not be set)'
        ),
    ),
    (
        "sysctls",
        pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "net.ipv4.tcp_rmem"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        "windowsHostProcess",
        pod({"windowsOptions": {"hostProcess": True}}, securityContext={"windowsOptions": {"hostProcess": True}}),
        f'hostProcess (pod and container "c" {MUST_NOT}.windowsOptions.hostProcess=true)',
    ),
]
ONLY_BASELINE: list[tuple[str, Json, str]] = [
    (
        "capabilities_baseline",
        pod({"capabilities": {"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}}),
        (
            'non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in '
            "securityContext.capabilities.add)"
        ),
    ),
    (
        "hostPathVolumes",
        pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/"}}]),
        'hostPath volumes (volumes "v", "w")',
    ),
    (
        "seccompProfile_baseline",
        pod({"seccompProfile": {"type": "Unconfined"}}),
        f'seccompProfile (container "c" {MUST_NOT}.seccompProfile.type to "Unconfined")',
    ),
]
RESTRICTED: list[tuple[str, Json, str]] = [
    (
        "allowPrivilegeEscalation",
        without("allowPrivilegeEscalation"),
        f'allowPrivilegeEscalation != false (container "c" {MUST}.allowPrivilegeEscalation=false)',
    ),
    (
        "capabilities_restricted",
        pod({"capabilities": {"add": ["CHOWN", "NET_BIND_SERVICE"]}}),
        (
            f'unrestricted capabilities (container "c" {MUST}.capabilities.drop=["ALL"]; container "c" must not '
            'include "CHOWN" in securityContext.capabilities.add)'
        ),
    ),
    (
        "restrictedVolumes",
        pod(volumes=[{"name": "v", "nfs": {}}, {"name": "w", "hostPath": {}}, {"name": "x", "emptyDir": {}}]),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
    (
        "runAsNonRoot",
        without("runAsNonRoot"),
        f'runAsNonRoot != true (pod or container "c" {MUST}.runAsNonRoot=true)',
    ),
    (
        "runAsNonRoot",
        pod({"runAsNonRoot": False}, securityContext={"runAsNonRoot": True}),
        f'runAsNonRoot != true (container "c" {MUST_NOT}.runAsNonRoot=false)',
    ),
    (
        "runAsUser",
        pod({"runAsUser": 0}, securityContext={"runAsUser": 0}),
        'runAsUser=0 (pod and container "c" must not set runAsUser=0)',
    ),
    (
        "seccompProfile_restricted",
        without("seccompProfile"),
        f'seccompProfile (pod or container "c" {MUST}.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    ),
    (
        "procMount_restricted",
        pod({"procMount": "Unmasked"}, hostUsers=False),
        f'procMount (container "c" {MUST_NOT}.procMount to "Unmasked")',
    ),
]


@pytest.mark.parametrize(("name", "document", "text"), [*BASELINE, *ONLY_BASELINE])
def test_baseline(name: str, document: Json, text: str) -> None:
    assert name in CHECKS
    assert said(document, "baseline") == text


@pytest.mark.parametrize(("name", "document", "text"), [*BASELINE, *RESTRICTED])
def test_restricted(name: str, document: Json, text: str) -> None:
    assert name in CHECKS
    assert said(document) == text


def test_every_row_is_tried() -> None:
    assert {name for name, _, _ in (*BASELINE, *ONLY_BASELINE, *RESTRICTED)} == set(CHECKS)


BARE = {"name": "c", "securityContext": {"runAsNonRoot": True}}
WINDOWS: Json = {"spec": {"os": {"name": "windows"}, "containers": [BARE]}}


@pytest.mark.parametrize(
    ("document", "level", "minor", "text"),
    [
        (pod(), "restricted", NEWEST, ""),
        # What a later release forbids, or allows, does not matter to a namespace that stays with an older one.
        (BASELINE[4][1], "baseline", 33, ""),
        (
            pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}),
            "baseline",
            31,
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
        (pod({"procMount": "Unmasked"}, hostUsers=False), "baseline", NEWEST, ""),
        (
            pod({"procMount": "Unmasked"}, hostUsers=False),
            "baseline",
            34,
            f'procMount (container "c" {MUST_NOT}.procMount to "Unmasked")',
        ),
        (pod({"runAsUser": 0, "runAsNonRoot": False}, hostUsers=False), "restricted", 99, ""),
        (without("seccompProfile"), "restricted", 18, ""),
        (
            pod(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
            "baseline",
            18,
            'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")',
        ),
        # Of a pod for Windows these are no questions.
        (WINDOWS, "restricted", NEWEST, ""),
    ],
)
def test_versions(document: Json, level: str, minor: int, text: str) -> None:
    assert said(document, level, minor) == text


NAKED: Json = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
NAKED_IS = (
    f'allowPrivilegeEscalation != false (container "c" {MUST}.allowPrivilegeEscalation=false), '
    f'unrestricted capabilities (container "c" {MUST}.capabilities.drop=["ALL"]), '
    f'runAsNonRoot != true (pod or container "c" {MUST}.runAsNonRoot=true), '
    f'seccompProfile (pod or container "c" {MUST}.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)


def room(api: Served, **labels: str) -> str:
    given = {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in labels.items()}
    made = api.post("/api/v1/namespaces", {"metadata": {"name": "room", "labels": given}})
    assert made.code == 201, made.content
    return "/api/v1/namespaces/room/pods"


def warnings_of(answer: Any) -> str:
    return str(answer.headers.get("warning", "")).replace('\\"', '"')


def test_a_pod_that_is_refused(api: Served) -> None:
    path = room(api, enforce="restricted", enforce_version="v1.30")
    answer = api.post(path, NAKED)
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == f'pods "p" is forbidden: violates PodSecurity "restricted:v1.30": {NAKED_IS}'
    assert "warning" not in answer.headers
    assert api.post(path, pod()).code == 201
    assert api.get(path).body["items"][0]["metadata"]["name"] == "p"


def test_the_generated_name_is_told(api: Served) -> None:
    path = room(api, enforce="restricted")
    answer = api.post(path, {**NAKED, "metadata": {"generateName": "web-"}})
    assert answer.message.startswith('pods "web-')
    assert len(answer.body["details"]["name"]) == len("web-") + 5


def test_mistakes_are_told_before_security(api: Served) -> None:
    path = room(api, enforce="restricted")
    assert api.post(path, {**NAKED, "spec": {"containers": []}}).code == 422


def test_warnings(api: Served) -> None:
    """Of pods and of templates; a dry run is told the same."""
    path = room(api, warn="restricted")
    answer = api.post(path, NAKED, query="dryRun=All")
    assert answer.code == 201
    assert warnings_of(answer) == f'299 - "would violate PodSecurity "restricted:latest": {NAKED_IS}"'
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": NAKED["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    sets = "/apis/apps/v1/namespaces/room/deployments"
    made = api.post(sets, {"metadata": {"name": "d"}, "spec": spec})
    assert (made.code, "would violate PodSecurity" in warnings_of(made)) == (201, True)
    changed = api.patch(f"{sets}/d", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert "would violate PodSecurity" in warnings_of(changed)
    assert "warning" not in api.patch(f"{sets}/d/scale", {"spec": {"replicas": 0}}, MERGE).headers
    assert "warning" not in api.patch(f"{sets}/d/status", {"status": {"replicas": 0}}, MERGE).headers


def test_what_is_enforced_is_told_of_workloads(api: Served) -> None:
    """Their pods would be refused; the workload itself is not."""
    room(api, enforce="baseline")
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {**NAKED["spec"], "hostPID": True}}
    path = "/api/v1/namespaces/room/replicationcontrollers"
    made = api.post(path, {"metadata": {"name": "rc"}, "spec": {"template": template}})
    assert made.code == 201
    assert warnings_of(made) == '299 - "would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)"'


def test_changes_of_a_pod(api: Served) -> None:
    """Only those that bring in other images are looked at."""
    path = room(api)
    api.post(path, NAKED)
    labels = {f"{PREFIX}/enforce": "restricted"}
    raised = api.patch("/api/v1/namespaces/room", {"metadata": {"labels": labels}}, MERGE)
    assert raised.code == 200
    reasons = "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"
    assert warnings_of(raised) == (
        '299 - "existing pods in namespace "room" violate the new PodSecurity enforce level "restricted:latest"", '
        f'299 - "p: {reasons}"'
    )
    assert api.patch(f"{path}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE).code == 200
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}]
    assert api.patch(f"{path}/p", image, "application/json-patch+json").code == 403
    debugging = {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}
    assert api.patch(f"{path}/p/ephemeralcontainers", debugging, MERGE).code == 403
    assert api.patch(f"{path}/p/status", {"status": {"phase": "Running"}}, MERGE).code == 200


def test_many_pods_of_a_namespace(api: Served) -> None:
    path = room(api)
    for name in ("b", "a", "c"):
        api.post(path, {"metadata": {"name": name}, "spec": {**NAKED["spec"], "hostNetwork": True}})
    raised = api.patch("/api/v1/namespaces/room", {"metadata": {"labels": {f"{PREFIX}/enforce": "baseline"}}}, MERGE)
    assert "a (and 2 other pods): host namespaces" in warnings_of(raised)
    relaxed = api.patch("/api/v1/namespaces/room", {"metadata": {"labels": {f"{PREFIX}/enforce": "privileged"}}}, MERGE)
    assert "warning" not in relaxed.headers


def test_labels_that_make_no_sense(api: Served) -> None:
    labels = {f"{PREFIX}/enforce": "strict", f"{PREFIX}/warn-version": "v2"}
    answer = api.post("/api/v1/namespaces", {"metadata": {"name": "room", "labels": labels}})
    assert (answer.code, [each["field"] for each in answer.body["details"]["causes"]]) == (
        422,
        [f"metadata.labels[{PREFIX}/enforce]", f"metadata.labels[{PREFIX}/warn-version]"],
    )
    assert (
        'Invalid value: "strict": must be one of privileged, baseline, restricted, metadata.labels[' in answer.message
    )
    assert answer.message.endswith('Invalid value: "v2": must be "latest" or "v1.x"]')


def test_many_large_pods_do_not_hold_the_server() -> None:
    """As far as there is time: the rest is told as unlooked at, in Kubernetes' words."""

    class Ticking(SystemClock):
        """A tenth of a second for every look at it."""

        ticks = 0

        def monotonic_ns(self) -> int:
            self.ticks += 1
            return self.ticks * 10**8

    pods = [{"metadata": {"name": f"p{index}"}, "spec": {**NAKED["spec"], "hostPID": True}} for index in range(9)]
    warnings = warn_of_pods("room", SecurityLevel("baseline"), pods, Ticking())
    assert warnings == [
        "new PodSecurity enforce level only checked against the first 3 of 9 existing pods",
        'existing pods in namespace "room" violate the new PodSecurity enforce level "baseline:latest"',
        "p0 (and 2 other pods): host namespaces",
    ]
