"""Readiness, liveness and startup probes out of a pod's document, with Kubernetes' defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping

from jettison.engine.lifecycle.rules import ProbeKind
from jettison.errors import ManifestError
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.host.specs import texts
from jettison.runtimes.host.specs.pod_documents import ContainerWire, ExecWire, HandlerWire, HttpWire, ProbeWire
from jettison.values import frozen


@frozen
class ExecAction:
    """Run a command inside the container's place; 0 is success."""

    command: tuple[str, ...]


@frozen
class HttpAction:
    """Fetch a page; 200 to 399 is success. Certificates are not checked, as in Kubernetes.

    Without a `host` it is the pod's address.
    """

    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    is_https: bool = False


@frozen
class TcpAction:
    """Connect; being accepted is success."""

    host: str
    port: int


@frozen
class SleepAction:
    """Wait."""

    seconds: int


Action = ExecAction | HttpAction | TcpAction
Hook = ExecAction | HttpAction | SleepAction


@frozen
class ProbeSpec:
    """Times are seconds; `successes` and `failures` are how many in a row it takes to change the verdict."""

    kind: ProbeKind
    action: Action
    initial_delay: int = 0
    period: int = 10
    timeout: int = 1
    successes: int = 1
    failures: int = 3
    # How long a container that failed may take to end; None: the pod's own period.
    grace: int | None = None


_MOST_WORDS = 1000
_HOOKS = "exec, httpGet and sleep"
# What servers take at the most.
_LARGEST_REQUEST = 8192
_LONGEST_HOST = 255


def probe_specs(container: ContainerWire) -> tuple[ProbeSpec, ...]:
    """All probes of one container."""
    ports = _ports(container)
    found = (
        (ProbeKind.STARTUP, container.startup_probe),
        (ProbeKind.LIVENESS, container.liveness_probe),
        (ProbeKind.READINESS, container.readiness_probe),
    )
    return tuple(_probe(kind, probe, ports) for kind, probe in found if probe is not None)


def hook_spec(handler: HandlerWire | None, container: ContainerWire, grace_seconds: int, where: str) -> Hook | None:
    """What a lifecycle hook does; None where there is none."""
    if handler is None:
        return None
    if handler.tcp_socket is not None:
        raise ManifestError(f"{where}: tcpSocket does nothing in a hook, in Kubernetes neither; allowed: {_HOOKS}")
    given = [each for each in (handler.exec, handler.http_get, handler.sleep) if each is not None]
    if len(given) != 1:
        raise ManifestError(f"{where}: exactly one of {_HOOKS} is needed, got {len(given)}")
    if handler.exec is not None:
        return _exec_action(handler.exec, where)
    if handler.http_get is not None:
        return _http_action(handler.http_get, _ports(container), where)
    assert handler.sleep is not None
    seconds = handler.sleep.seconds
    if not 0 <= seconds <= grace_seconds:
        why = f"must be non-negative and at most terminationGracePeriodSeconds ({grace_seconds})"
        raise ManifestError(f"{where}: sleep.seconds is `{texts.shown(seconds)}`, {why}")
    return SleepAction(seconds)


def _ports(container: ContainerWire) -> Mapping[str, int]:
    return {port.name: port.container_port for port in container.ports or () if port.name}


def _exec_action(action: ExecWire, where: str) -> ExecAction:
    if not action.command:
        raise ManifestError(f"{where}: exec.command: required value")
    words = texts.at_most(_MOST_WORDS, action.command, f"{where}: exec.command")
    return ExecAction(tuple(texts.passable(word, where) for word in words))


def _probe(kind: ProbeKind, probe: ProbeWire, ports: Mapping[str, int]) -> ProbeSpec:
    where = f"{kind}Probe"
    successes = probe.success_threshold or 1
    if successes != 1 and kind is not ProbeKind.READINESS:
        raise ManifestError(f"{where}: successThreshold is `{successes}`, must be 1")
    if kind is ProbeKind.READINESS and probe.termination_grace_period_seconds is not None:
        raise ManifestError(f"{where}: terminationGracePeriodSeconds must not be set, it ends no container")
    return ProbeSpec(
        kind,
        _action(probe, ports, where),
        probe.initial_delay_seconds or 0,
        probe.period_seconds or 10,
        probe.timeout_seconds or 1,
        successes,
        probe.failure_threshold or 3,
        probe.termination_grace_period_seconds,
    )


def _action(probe: ProbeWire, ports: Mapping[str, int], where: str) -> Action:
    given = [action for action in (probe.exec, probe.http_get, probe.tcp_socket) if action is not None]
    if len(given) != 1:
        raise ManifestError(f"{where}: exactly one of exec, httpGet and tcpSocket is needed, got {len(given)}")
    if probe.exec is not None:
        return _exec_action(probe.exec, where)
    if probe.http_get is not None:
        return _http_action(probe.http_get, ports, where)
    tcp = probe.tcp_socket
    assert tcp is not None
    return TcpAction(_host(tcp.host, where), _port(tcp.port, ports, where))


def _http_action(http: HttpWire, ports: Mapping[str, int], where: str) -> HttpAction:
    scheme = texts.choice((http.scheme or "HTTP").upper(), ("HTTP", "HTTPS"), f"{where}: scheme")
    path = http.path or "/"
    headers = tuple((header.name, header.value) for header in http.http_headers or ())
    size = len(path) + sum(len(name) + len(value) for name, value in headers)
    if size > _LARGEST_REQUEST:
        raise ManifestError(f"{where}: path and httpHeaders have {size} bytes, at most {_LARGEST_REQUEST} are allowed")
    # A line break in any of these would let the manifest write a request of its own.
    for text in (path, *(part for header in headers for part in header)):
        if not text.isprintable() or not text.isascii():
            raise ManifestError(f"{where}: `{texts.shown(text)}` cannot be part of an HTTP request")
    for name, _ in headers:
        if not name or set(name) & set(" :"):
            raise ManifestError(f"{where}: `{shortened(name)}` is no name of a header")
    path = path.replace(" ", "%20") if path.startswith("/") else "/" + path.replace(" ", "%20")
    return HttpAction(_host(http.host, where), _port(http.port, ports, where), path, headers, scheme == "HTTPS")


def _host(host: str | None, where: str) -> str:
    text = host or ""
    if len(text) > _LONGEST_HOST or not text.isascii() or not text.isprintable() or " " in text:
        raise ManifestError(f"{where}: `{texts.shown(text)}` is no host")
    return text


def _port(port: int | str, ports: Mapping[str, int], where: str) -> int:
    if isinstance(port, str):
        if port not in ports:
            raise ManifestError(f"{where}: the container has no port called `{texts.shown(port)}`")
        port = ports[port]
    if not 0 < port < 65_536:
        raise ManifestError(f"{where}: port is `{port}`, must be between 1 and 65535")
    return port
