"""What only pods of Windows have, and what those cannot have. The mistakes are those that Kubernetes v1.36.4 named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import PODS, Served

Json = dict[str, Any]

OPTIONS = "spec.securityContext.windowsOptions"
USER = f"{OPTIONS}.runAsUserName: Invalid value: "
ON_HOST = "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"
NO_WINDOWS = "Forbidden: cannot be set for a windows pod"


def refused(api: Served, spec: Json, container: Json | None = None) -> list[str]:
    containers = [{"name": "c", "image": "i", "securityContext": container or {}}]
    answer = api.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers, **spec}})
    assert answer.code == 422, answer.body
    return [f"{each['field']}: {each['message']}" for each in answer.body["details"]["causes"]]


@pytest.mark.parametrize(
    ("name", "shown", "complaints"),
    [
        ("", '""', [" cannot be an empty string"]),
        ("a\x01", '"a\\u0001"', [" cannot contain control characters"]),
        ("<\x01", '"\\u003c\\u0001"', [" cannot contain control characters"]),
        ("a\\b\\c", '"a\\\\b\\\\c"', [" cannot contain more than one backslash"]),
        (
            "a:b\\...",
            '"a:b\\\\..."',
            ["'s Domain doesn't match the NetBios nor the DNS format", "'s User cannot contain only periods or spaces"],
        ),
        (
            "a.b\\" + "u" * 105,
            '"a.b\\\\' + "u" * 105 + '"',
            ["'s User length must not be longer than 104 characters"],
        ),
        ("DOM\\", '"DOM\\\\"', ["'s User cannot be empty"]),
        ("a@b", '"a@b"', ["'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"]),
    ],
)
def test_a_user_of_windows(api: Served, name: str, shown: str, complaints: list[str]) -> None:
    spec = {"securityContext": {"windowsOptions": {"runAsUserName": name}}}
    assert refused(api, spec) == [f"{USER}{shown}: runAsUserName{each}" for each in complaints]


def test_credentials_of_windows(api: Served) -> None:
    wrong = {"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": ""}
    name, content = refused(api, {"securityContext": {"windowsOptions": wrong}})
    assert name.startswith(f'{OPTIONS}.gmsaCredentialSpecName: Invalid value: "A": a lowercase RFC 1123 subdomain')
    assert content == f'{OPTIONS}.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string'
    (large,) = refused(api, {"securityContext": {"windowsOptions": {"gmsaCredentialSpec": "x" * 65537}}})
    assert large.endswith(": gmsaCredentialSpec size must be under 64 KiB")


def test_processes_of_the_host(api: Served) -> None:
    spec: Json = {"securityContext": {"windowsOptions": {"hostProcess": True}}}
    assert refused(api, spec) == [ON_HOST]
    where = "spec.containers[0].securityContext.windowsOptions.hostProcess"
    assert refused(api, spec, {"windowsOptions": {"hostProcess": False}}) == [
        f"{where}: Invalid value: false: pod hostProcess value must be identical if both are specified, was true"
    ]
    assert refused(api, {**spec, "os": {"name": "linux"}}) == [
        ON_HOST,
        f"{OPTIONS}: Forbidden: windows options cannot be set for a linux pod",
    ]


def test_what_windows_does_not_know(api: Served) -> None:
    context = {
        "runAsUser": 1, "seLinuxOptions": {}, "fsGroup": 1, "sysctls": [{"name": "a.b", "value": "c"}],
        "supplementalGroups": [1],
    }  # fmt: skip
    spec = {"securityContext": context, "os": {"name": "windows"}, "hostPID": True, "hostUsers": False}
    container = {"privileged": True, "capabilities": {}, "runAsGroup": 1}
    first, *rest = refused(api, spec, container)
    assert first == "spec.HostPID: Forbidden: when `hostUsers` is false"
    of_pod = (
        *("securityContext.seLinuxOptions", "hostUsers", "hostPID", "securityContext.fsGroup"),
        *("securityContext.sysctls", "securityContext.runAsUser", "securityContext.supplementalGroups"),
    )
    of_container = ("capabilities", "privileged", "runAsGroup")
    assert rest == [
        *(f"spec.{each}: {NO_WINDOWS}" for each in of_pod),
        *(f"spec.containers[0].securityContext.{each}: {NO_WINDOWS}" for each in of_container),
    ]
