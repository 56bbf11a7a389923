"""Which securityContexts a bare host honours, and what it says to the others."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.errors import ManifestError
from jettison.runtimes.host.processes import capabilities
from jettison.runtimes.host.specs.security import NO_SECURITY, SecuritySpec
from jettison.runtimes.host.specs.spec import pod_spec
from tests.runtimes.host.scenes import SLEEPS, container, document


def asked(own: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    one = container(SLEEPS) if own is None else container(SLEEPS, securityContext=own)
    return document(one, **spec) if pod is None else document(one, securityContext=pod, **spec)


def security(own: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **spec: Any) -> SecuritySpec:
    return pod_spec(asked(own, pod, **spec)).containers[0].security


HONOURED: list[tuple[dict[str, Any], dict[str, Any], SecuritySpec]] = [
    ({}, {}, NO_SECURITY),
    ({"privileged": True}, {}, NO_SECURITY),
    ({"allowPrivilegeEscalation": True, "readOnlyRootFilesystem": False, "procMount": "Default"}, {}, NO_SECURITY),
    ({"readOnlyRootFilesystem": True}, {}, SecuritySpec(is_sealed=True)),
    ({"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}, {}, NO_SECURITY),
    ({"privileged": True}, {"seccompProfile": {"type": "RuntimeDefault"}}, NO_SECURITY),
    ({"seccompProfile": {"type": "Unconfined"}}, {"seccompProfile": {"type": "RuntimeDefault"}}, NO_SECURITY),
    ({"seLinuxOptions": {}}, {"sysctls": [], "supplementalGroupsPolicy": "Strict"}, NO_SECURITY),
    ({"runAsUser": 1}, {"runAsUser": 2, "runAsGroup": 3, "runAsNonRoot": True}, SecuritySpec(1, 3)),
    ({}, {"supplementalGroups": [5, 4, 5], "fsGroup": 4}, SecuritySpec(groups=(5, 4))),
    ({"privileged": False}, {}, SecuritySpec(capabilities=capabilities.DEFAULT)),
    ({"capabilities": {}}, {}, SecuritySpec(capabilities=capabilities.DEFAULT)),
    ({"capabilities": {"drop": ["ALL"]}}, {}, SecuritySpec(capabilities=0)),
    ({"capabilities": {"drop": ["ALL"], "add": ["cap_chown"]}}, {}, SecuritySpec(capabilities=1, added=1)),
    ({"privileged": True, "capabilities": {"drop": ["ALL"]}}, {}, SecuritySpec(capabilities=0)),
    ({"allowPrivilegeEscalation": False}, {}, SecuritySpec(has_no_new_privileges=True)),
]


@pytest.mark.parametrize(("own", "pod", "expected"), HONOURED)
def test_what_is_honoured(own: dict[str, Any], pod: dict[str, Any], expected: SecuritySpec) -> None:
    assert security(own, pod) == expected


def test_a_profile_of_the_pod_holds_for_its_containers() -> None:
    assert security({}, {"seccompProfile": {"type": "RuntimeDefault"}}).seccomp


REFUSED: list[tuple[dict[str, Any], str]] = [
    (asked({"runAsNonRoot": True}), "container has runAsNonRoot and image will run as root"),
    (asked({"runAsNonRoot": True, "runAsUser": 0}), "container's runAsUser breaks non-root policy"),
    (asked({"capabilities": {"drop": ["NET_RAWW"]}}), "capabilities.drop: there is no capability `NET_RAWW`"),
    (asked({"capabilities": {"add": [""]}}), "capabilities.add: there is no capability ``"),
    (asked({"capabilities": {"remove": ["ALL"]}}), "unknown field `remove`"),
    (asked({"capabilities": ["ALL"]}), "expected `object"),
    (asked({"capabilites": {"drop": ["ALL"]}}), "unknown field `capabilites`"),
    (asked({}, {"runAsUsr": 1}), "unknown field `runAsUsr`"),
    (asked({}, {"capabilities": {"drop": ["ALL"]}}), "unknown field `capabilities`"),
    (
        asked({"allowPrivilegeEscalation": False, "privileged": True}),
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
    ),
    (
        asked({"allowPrivilegeEscalation": False, "capabilities": {"add": ["SYS_ADMIN"]}}),
        "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
    ),
    (asked({"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}}), "`Localhost` is not available"),
    (asked({"seccompProfile": {"type": "Localhost"}}), "must be set when seccomp type is Localhost"),
    (
        asked({"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}),
        "can only be set when seccomp type is Localhost",
    ),
    (asked({"seccompProfile": {"type": "Strict"}}), "seccompProfile.type is `Strict`, allowed: `RuntimeDefault`"),
    (asked({"seccompProfile": {}}), "seccompProfile.type is ``"),
    (asked({"appArmorProfile": {"type": "RuntimeDefault"}}), "a bare host has no profile `RuntimeDefault`"),
    (asked({}, {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"}}), "no profile `Localhost`"),
    (asked({"seLinuxOptions": {"level": "s0"}}), "seLinuxOptions: not available"),
    (asked({}, {"windowsOptions": {}}), "windowsOptions: this is Linux"),
    (asked({}, {"sysctls": [{"name": "a", "value": "1"}]}), "sysctls: not available"),
    (asked({}, {"supplementalGroupsPolicy": "Some"}), "supplementalGroupsPolicy is `Some`"),
    (asked({}, {"supplementalGroups": [-1]}), "expected `int` >= 0"),
    (asked({}, {"supplementalGroups": list(range(2000))}), "2000 groups, at most 1024 fit"),
    (asked({}, {"fsGroupChangePolicy": "Never"}), "fsGroupChangePolicy is `Never`"),
    (asked({"procMount": "Unmasked"}), "`hostUsers` must be false if `procMount` is `Unmasked`"),
    (asked({"procMount": "Odd"}), "procMount is `Odd`"),
    (asked(hostUsers=False), "hostUsers: `false` needs a user namespace"),
    (asked(runtimeClassName="gvisor"), "runtimeClassName: `gvisor` needs a container runtime"),
    (asked(hostPID=True, shareProcessNamespace=True), "ShareProcessNamespace and HostPID cannot both be enabled"),
]


@pytest.mark.parametrize(("wanted", "complaint"), REFUSED)
def test_what_is_refused_and_why(wanted: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError) as caught:
        pod_spec(wanted)
    assert complaint in str(caught.value)


def test_the_old_annotation_for_apparmor_is_not_passed_over() -> None:
    pod = asked()
    pod["metadata"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/c": "runtime/default"}
    with pytest.raises(ManifestError, match="AppArmor"):
        pod_spec(pod)
    pod["metadata"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
    assert pod_spec(pod).containers[0].security is NO_SECURITY
