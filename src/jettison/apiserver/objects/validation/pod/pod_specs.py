"""The spec of a pod, in a pod or in a template; and what it asks for as a whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.addresses import validate_address
from jettison.apiserver.objects.validation.go_values import go_value
from jettison.apiserver.objects.validation.metadata import NameRule, label_name, subdomain_name, validate_labels
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_long,
)
from jettison.apiserver.objects.validation.pod.containers import AroundContainer, one_of, validate_containers
from jettison.apiserver.objects.validation.pod.placement import (
    validate_affinity,
    validate_gates,
    validate_spread,
    validate_tolerations,
)
from jettison.apiserver.objects.validation.pod.security import validate_host_users, validate_pod_security
from jettison.apiserver.objects.validation.pod.systems import containers_of, validate_host_processes, validate_system
from jettison.apiserver.objects.validation.pod.volumes import usable_volumes, validate_volumes
from jettison.apiserver.objects.validation.resources import validate_pod_requirements, validate_requirements
from jettison.engine.numbers.quantity import parse
from jettison.engine.pods.pod import HUGEPAGES_PREFIX, aggregate
from jettison.manifests.pods import pod_from

Json = dict[str, Any]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_MOST_NAMESERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCH_LIST: Final = 2048
_LONGEST_HOST_NAME: Final = 64
_UNDERSCORED: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH: Final = rf"{_UNDERSCORED}(\.{_UNDERSCORED})*"
_SEARCH_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SEARCH}')"
)


def validate_pod_spec(
    spec: Json, field: str, name: str = "", *, is_pod: bool = False, empties: Collection[str] = ()
) -> Iterator[Mistake]:
    """The spec of a pod, which has a name, or of a template. `empties`: lists and maps that are there and empty."""
    volumes = spec.get("volumes") or []
    yield from validate_volumes(volumes, f"{field}.volumes", name, is_pod=is_pod)
    yield from _validate_claims(spec.get("resourceClaims") or (), f"{field}.resourceClaims")
    around = AroundContainer(
        usable_volumes(volumes, name, is_pod=is_pod),
        frozenset(each["name"] for each in spec.get("resourceClaims") or () if each["name"]),
        spec.get("terminationGracePeriodSeconds"),
        spec.get("restartPolicy", ""),
        spec.get("hostUsers", True),
        empties,
    )
    yield from validate_containers(spec, field, around)
    yield from _validate_whole(spec, field, around)
    yield from _validate_host_network(spec, field, is_pod=is_pod)
    yield from one_of(spec, "restartPolicy", field, _RESTART_POLICIES)
    yield from one_of(spec, "dnsPolicy", field, _DNS_POLICIES)
    yield from validate_labels(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    yield from validate_pod_security(spec, f"{field}.securityContext")
    yield from validate_affinity(spec.get("affinity") or {}, f"{field}.affinity")
    yield from _validate_dns(spec, f"{field}.dnsConfig")
    yield from validate_gates(spec, field)
    yield from validate_spread(spec.get("topologySpreadConstraints") or [], f"{field}.topologySpreadConstraints")
    yield from validate_host_processes(spec, field)
    yield from validate_host_users(spec, field)
    yield from _validate_names(spec, field)
    yield from validate_tolerations(spec.get("tolerations") or [], f"{field}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        where = f"{field}.hostAliases[{index}]"
        yield from validate_address(alias["ip"], f"{where}.ip")
        for number, host in enumerate(alias.get("hostnames") or ()):
            yield from (invalid(f"{where}.hostnames[{number}]", host, why) for why in subdomain_name(host))
    yield from _validate_name(spec, field, "priorityClassName", subdomain_name)
    if "runtimeClassName" in spec:
        runtime = spec["runtimeClassName"]
        yield from (invalid(f"{field}.runtimeClassName", runtime, why) for why in subdomain_name(runtime))
    if "preemptionPolicy" in spec:
        yield from one_of(spec, "preemptionPolicy", field, _PREEMPTION_POLICIES)
    if spec.get("overhead"):
        yield from validate_requirements({"limits": spec["overhead"]}, f"{field}.overhead")
    yield from validate_system(spec, field)
    yield from _validate_files(spec, field)


def _validate_name(spec: Json, field: str, key: str, rule: NameRule) -> Iterator[Mistake]:
    if spec.get(key):
        yield from (invalid(f"{field}.{key}", spec[key], why) for why in rule(spec[key]))


def _validate_names(spec: Json, field: str) -> Iterator[Mistake]:
    override = spec.get("hostnameOverride")
    if override is not None:
        where = f"{field}.hostnameOverride"
        if spec.get("setHostnameAsFQDN"):
            yield forbidden(where, "may not be specified when setHostnameAsFQDN is true")
        if spec.get("hostNetwork"):
            yield forbidden(where, "may not be specified when hostNetwork is true")
        if len(override.encode()) > _LONGEST_HOST_NAME:
            yield too_long(where, _LONGEST_HOST_NAME)
        yield from (invalid(where, override, why) for why in subdomain_name(override))
    yield from _validate_name(spec, field, "serviceAccountName", subdomain_name)
    yield from _validate_name(spec, field, "nodeName", subdomain_name)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        yield invalid(f"{field}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    yield from _validate_name(spec, field, "hostname", label_name)
    yield from _validate_name(spec, field, "subdomain", label_name)


def _validate_claims(claims: Iterable[Json], field: str) -> Iterator[Mistake]:
    """Devices that the pod asks for, of a claim that is there or of one that is made from a template."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{field}[{index}]", claim["name"]
        if not name:
            yield required(f"{where}.name")
        elif name in seen:
            yield duplicate(f"{where}.name", name)
        else:
            yield from (invalid(f"{where}.name", name, why) for why in label_name(name))
            seen.add(name)
        named = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if key in claim]
        if len(named) > 1:
            why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(where, go_value("PodResourceClaim", claim), why)
        elif not named:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid(where, go_value("PodResourceClaim", claim), why)
        for key in named:
            yield from (invalid(f"{where}.{key}", claim[key], why) for why in subdomain_name(claim[key]))


def _validate_whole(spec: Json, field: str, around: AroundContainer) -> Iterator[Mistake]:
    """What the pod asks for as a whole must have room for what its containers ask for."""
    whole = spec.get("resources")
    if whole is None:
        return
    where = f"{field}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden(where, "may not be set for a windows pod")
        return
    if whole.get("claims") or f"{where}.claims" in around.empties:
        yield forbidden(f"{where}.claims", "claims may not be set for Resources at pod-level")
    yield from validate_pod_requirements(whole, where, around.claims)
    pod = pod_from({"metadata": {"name": "pod"}, "spec": spec})
    limits, requests = whole.get("limits") or {}, whole.get("requests") or {}
    for name, amount in aggregate(pod, lambda container: container.requests).items():
        if name in requests and parse(requests[name]) < amount:
            why = f"must be greater than or equal to aggregate container requests of {amount}"
            yield invalid(f"{where}.requests[{name}]", requests[name], why)
    for name, amount in aggregate(pod, lambda container: container.limits).items():
        if name.startswith(HUGEPAGES_PREFIX) and name in limits and parse(limits[name]) < amount:
            why = f"must be greater than or equal to aggregate container limits of {amount}"
            yield invalid(f"{where}.limits[{name}]", limits[name], why)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in (container["resources"].get("limits") or {}).items():
            if name in limits and parse(limits[name]) < parse(limit):
                why = f"must be less than or equal to pod limits of {limits[name]}"
                yield invalid(f"{where}.containers[{index}][{name}].limits", limit, why)


def _validate_host_network(spec: Json, field: str, *, is_pod: bool) -> Iterator[Mistake]:
    """On the host's network a port is the host's; a template may leave that out."""
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            on_host = port.get("hostPort", 0)
            if (is_pod or on_host) and on_host != port.get("containerPort", 0):
                where = f"{field}.containers[{index}].ports[{number}].hostPort"
                yield invalid(where, on_host, "must match `containerPort` when `hostNetwork` is true")


def _validate_dns(spec: Json, field: str) -> Iterator[Mistake]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(field, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{field}.nameservers", why)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _MOST_NAMESERVERS:
        yield invalid(f"{field}.nameservers", servers, f"must not have more than {_MOST_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from validate_address(server, f"{field}.nameservers[{index}]")
    if len(searches) > _MOST_SEARCHES:
        yield invalid(f"{field}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > _LONGEST_SEARCH_LIST:
        why = f"must not have more than {_LONGEST_SEARCH_LIST} characters (including spaces) in the search list"
        yield invalid(f"{field}.searches", searches, why)
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != "." and not re.fullmatch(_SEARCH, domain):
            yield invalid(f"{field}.searches[{index}]", domain, _SEARCH_RULE)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{field}.options[{index}]", "must not be empty")


def _validate_files(spec: Json, field: str) -> Iterator[Mistake]:
    """Environment variables from files live in volumes that are empty at first."""
    volumes = {each["name"]: each for each in spec.get("volumes") or ()}
    for place, container in containers_of(spec, field):
        for number, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            where = f"{place}.env[{number}].valueFrom.fileKeyRef.volumeName"
            name = reference.get("volumeName", "")
            if name not in volumes:
                yield not_found(where, name)
            elif "emptyDir" not in volumes[name]:
                yield invalid(where, name, "referenced volume must be of type emptyDir")
