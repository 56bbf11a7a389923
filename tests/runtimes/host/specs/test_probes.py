"""Probes out of a document: defaults, names of ports, and what would let a manifest write a request of its own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jettison.engine.lifecycle.rules import ProbeKind
from jettison.errors import ManifestError
from jettison.runtimes.host.specs.pod_documents import ContainerWire
from jettison.runtimes.host.specs.probes import ExecAction, HttpAction, ProbeSpec, TcpAction, probe_specs


def parsed(**fields: Any) -> tuple[ProbeSpec, ...]:
    return probe_specs(msgspec.convert({"name": "c", **fields}, ContainerWire))


def test_defaults_are_kubernetes() -> None:
    (probe,) = parsed(readinessProbe={"exec": {"command": ["true"]}})
    assert probe == ProbeSpec(ProbeKind.READINESS, ExecAction(("true",)), 0, 10, 1, 1, 3, None)


def test_all_numbers_are_taken_and_zero_means_the_default() -> None:
    numbers = {
        "initialDelaySeconds": 2,
        "periodSeconds": 3,
        "timeoutSeconds": 4,
        "successThreshold": 5,
        "failureThreshold": 6,
    }
    (probe,) = parsed(readinessProbe={"tcpSocket": {"port": 80}, **numbers})
    assert (probe.initial_delay, probe.period, probe.timeout, probe.successes, probe.failures) == (2, 3, 4, 5, 6)
    (probe,) = parsed(readinessProbe={"tcpSocket": {"port": 80}, **dict.fromkeys(numbers, 0)})
    assert (probe.initial_delay, probe.period, probe.timeout, probe.successes, probe.failures) == (0, 10, 1, 1, 3)


def test_the_startup_probe_comes_first() -> None:
    action = {"tcpSocket": {"port": 1}}
    found = parsed(readinessProbe=action, livenessProbe=action, startupProbe=action)
    assert [probe.kind for probe in found] == [ProbeKind.STARTUP, ProbeKind.LIVENESS, ProbeKind.READINESS]


def test_a_port_may_be_named() -> None:
    ports = [{"name": "web", "containerPort": 8080}]
    (probe,) = parsed(livenessProbe={"tcpSocket": {"port": "web"}}, ports=ports)
    assert probe.action == TcpAction("", 8080)


def test_a_page() -> None:
    page = {"port": 443, "path": "ok now", "scheme": "https", "host": "h", "httpHeaders": [{"name": "X", "value": "y"}]}
    (probe,) = parsed(livenessProbe={"httpGet": page, "terminationGracePeriodSeconds": 0})
    assert probe.action == HttpAction("h", 443, "/ok%20now", (("X", "y"),), is_https=True)
    assert probe.grace == 0


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of exec, httpGet and tcpSocket is needed, got 0"),
    ({"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}, "got 2"),
    ({"exec": {"command": []}}, "exec.command: required value"),
    ({"exec": {"command": ["\0"]}}, "no program can be given"),
    ({"tcpSocket": {"port": 0}}, "must be between 1 and 65535"),
    ({"tcpSocket": {"port": 65536}}, "must be between 1 and 65535"),
    ({"tcpSocket": {"port": "web"}}, "no port called `web`"),
    ({"tcpSocket": {"port": 1, "host": "a b"}}, "is no host"),
    ({"httpGet": {"port": 1, "path": "/\r\nX: y"}}, "cannot be part of an HTTP request"),
    ({"httpGet": {"port": 1, "httpHeaders": [{"name": "A", "value": "b\n"}]}}, "cannot be part of an HTTP request"),
    ({"httpGet": {"port": 1, "httpHeaders": [{"name": "A:", "value": "b"}]}}, "no name of a header"),
    ({"httpGet": {"port": 1, "httpHeaders": [{"name": "", "value": "b"}]}}, "no name of a header"),
    ({"httpGet": {"port": 1, "scheme": "FTP"}}, "scheme is `FTP`"),
    ({"tcpSocket": {"port": 1}, "successThreshold": 2}, "successThreshold is `2`, must be 1"),
]


@pytest.mark.parametrize(("probe", "complaint"), REFUSED)
def test_nonsense_is_refused_and_named(probe: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parsed(livenessProbe=probe)
    assert str(caught.value).startswith("livenessProbe")
    assert complaint in str(caught.value)


def test_no_container_is_ended_by_a_readiness_probe() -> None:
    with pytest.raises(ManifestError, match="terminationGracePeriodSeconds must not be set"):
        parsed(readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 1})
