"""Services and the addresses behind them: Endpoints and EndpointSlices. Nothing routes by them here."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.addresses import (
    address_warnings,
    network_warnings,
    read_address,
    validate_address,
    validate_canonical_address,
    validate_network,
)
from jettison.apiserver.objects.validation.metadata import label_name, subdomain_name, validate_labels
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from jettison.apiserver.objects.validation.pod.containers import one_of, port_or_name
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints

Json = dict[str, Any]

_OLD_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_SLICE_MAKERS: Final = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_POLICIES: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_MODES: Final = ("Proxy", "VIP")
_FAMILIES: Final = ("IPv4", "IPv6")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PORT_RULE: Final = "must be between 1 and 65535, inclusive"
_LONGEST_AFFINITY_SECONDS: Final = 86400
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20_000
_MOST_HINTS: Final = 8
_ONLY_BALANCED: Final = "may only be used when `type` is 'LoadBalancer'"


def is_headless(spec: Json) -> bool:
    """Whether a service asks for no address of its own."""
    return bool((spec.get("clusterIPs") or [spec.get("clusterIP", "")])[0] == "None")


def validate_service(service: Json, old: Json | None = None) -> Iterator[Mistake]:
    """A new one, or one that has changed: that may keep addresses which a new one cannot have."""
    spec, former = service["spec"], {} if old is None else old["spec"]
    kind, ports = spec.get("type", ""), spec.get("ports") or []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        yield required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    elif kind == "ExternalName":
        yield from _validate_external_name(spec)
    yield from _validate_ports(ports)
    yield from validate_labels(spec.get("selector") or {}, "spec.selector")
    yield from one_of(spec, "sessionAffinity", "spec", _AFFINITIES)
    yield from _validate_affinity(spec)
    yield from validate_cluster_addresses(spec, former)
    for index, text in enumerate(spec.get("externalIPs") or ()):
        where = f"spec.externalIPs[{index}]"
        wrong = list(validate_address(text, where, former.get("externalIPs") or ()))
        yield from wrong or _validate_reachable(text, where)
    yield from one_of(spec, "type", "spec", _TYPES)
    yield from _validate_port_numbers(ports, kind)
    yield from _validate_balancing(spec, former)
    if spec.get("internalTrafficPolicy", "Local") not in _POLICIES:
        yield unsupported("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], _POLICIES)
    if spec.get("trafficDistribution", "PreferClose") not in _DISTRIBUTIONS:
        yield unsupported("spec.trafficDistribution", spec["trafficDistribution"], _DISTRIBUTIONS)


def validate_service_update(new: Json, old: Json) -> Iterator[Mistake]:
    """An address that a service has stays."""
    before, after = old["spec"].get("clusterIPs") or [], new["spec"].get("clusterIPs") or []
    if "ExternalName" not in (new["spec"].get("type"), old["spec"].get("type")):
        if before and not after:
            yield invalid("spec.clusterIPs[0]", after or None, "primary clusterIP can not be unset")
        elif before and before[0] != after[0]:
            yield invalid("spec.clusterIPs[0]", after, "may not change once set")
    yield from _validate_class_change(new["spec"], old["spec"])
    if is_checked(new["spec"]) and is_checked(old["spec"]):
        key = "healthCheckNodePort"
        if new["spec"].get(key) != old["spec"].get(key):
            yield forbidden(f"spec.{key}", "field is immutable")
    yield from validate_service(new, old)


def _validate_class_change(spec: Json, former: Json) -> Iterator[Mistake]:
    name, is_balanced = spec.get("loadBalancerClass"), spec.get("type") == former.get("type") == "LoadBalancer"
    if is_balanced and name != former.get("loadBalancerClass"):
        yield invalid("spec.loadBalancerClass", name, "may not change once set")
    yield from _validate_class(spec)


def _validate_class(spec: Json) -> Iterator[Mistake]:
    if (name := spec.get("loadBalancerClass")) is None:
        return
    if spec.get("type") == "LoadBalancer":
        yield from (invalid("spec.loadBalancerClass", name, why) for why in label_key_complaints(name))
    else:
        yield forbidden("spec.loadBalancerClass", _ONLY_BALANCED)


def is_checked(spec: Json) -> bool:
    """Whether its load balancer asks a port of the nodes how they are."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def warn_service(service: Json) -> Iterator[str]:
    """What has no effect."""
    yield "services are kept for clients only: nothing routes traffic to their pods here"
    yield from warn_changed_service(service)


def warn_changed_service(service: Json) -> Iterator[str]:
    """The same, in Kubernetes' own words."""
    spec = service["spec"]
    if _OLD_HINTS in (service["metadata"].get("annotations") or {}):
        yield f"annotation {_OLD_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
    if not is_headless(spec):
        yield from _address_warnings(spec, "clusterIPs")
    if spec.get("type") == "ClusterIP" and is_headless(spec):
        for key, is_ignored in (
            ("loadBalancerIP", bool(spec.get("loadBalancerIP"))),
            ("externalIPs", bool(spec.get("externalIPs"))),
            ("SessionAffinity", spec.get("sessionAffinity") != "None"),
        ):
            if is_ignored:
                yield f"spec.{key} is ignored for headless services"
        yield from _address_warnings(spec, "externalIPs")
    else:
        yield from _address_warnings(spec, "externalIPs")
        if spec.get("externalIPs") and spec.get("type") != "ExternalName":
            yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    yield from address_warnings(spec.get("loadBalancerIP", ""), "spec.loadBalancerIP")
    for index, each in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from network_warnings(each, f"spec.loadBalancerSourceRanges[{index}]")
    if spec.get("externalIPs") and spec.get("type") == "ExternalName":
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if spec.get("externalName") and spec.get("type") != "ExternalName":
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _address_warnings(spec: Json, key: str) -> Iterator[str]:
    for index, each in enumerate(spec.get(key) or ()):
        yield from address_warnings(each, f"spec.{key}[{index}]")


def warn_endpoints(endpoints: Json) -> Iterator[str]:
    """Addresses that should be written otherwise."""
    if (endpoints["metadata"].get("labels") or {}).get("endpoints.kubernetes.io/managed-by") == "endpoint-controller":
        return
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        for key in ("addresses", "notReadyAddresses"):
            for number, each in enumerate(subset.get(key) or ()):
                yield from address_warnings(each.get("ip", ""), f"subsets[{index}].{key}[{number}].ip")


def warn_endpoint_slice(value: Json) -> Iterator[str]:
    """The same, and names in the place of addresses."""
    if value.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"
    yield from warn_changed_slice(value)


def warn_changed_slice(value: Json) -> Iterator[str]:
    """Of one that is there."""
    labels = value["metadata"].get("labels") or {}
    if labels.get("endpointslice.kubernetes.io/managed-by") in _SLICE_MAKERS:
        return
    for index, each in enumerate(value.get("endpoints") or ()):
        for number, address in enumerate(each.get("addresses") or ()):
            yield from address_warnings(address, f"endpoints[{index}].addresses[{number}]")


def _validate_external_name(spec: Json) -> Iterator[Mistake]:
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            yield forbidden(f"spec.{key}", "may not be set for ExternalName services")
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    else:
        yield from (invalid("spec.externalName", name, why) for why in subdomain_name(name))


def _validate_ports(ports: list[Json]) -> Iterator[Mistake]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            yield from (invalid(f"{where}.name", name, why) for why in label_name(name))
            if name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        elif len(ports) > 1:
            yield required(f"{where}.name")
        if not 1 <= port["port"] <= 65535:
            yield invalid(f"{where}.port", port["port"], _PORT_RULE)
        yield from one_of(port, "protocol", where, _PROTOCOLS)
        yield from port_or_name(port.get("targetPort", 0), f"{where}.targetPort")
        if "appProtocol" in port:
            kind = port["appProtocol"]
            yield from (invalid(f"{where}.appProtocol", kind, why) for why in label_key_complaints(kind))


def _validate_port_numbers(ports: list[Json], kind: str) -> Iterator[Mistake]:
    on_nodes: set[tuple[str, int]] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        where, on_node, protocol = f"spec.ports[{index}]", port.get("nodePort", 0), port.get("protocol", "")
        if on_node and kind == "ClusterIP":
            yield forbidden(f"{where}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if on_node and (protocol, on_node) in on_nodes:
            yield duplicate(f"{where}.nodePort", on_node)
        on_nodes.add((protocol, on_node))
        if (protocol, port["port"]) in numbers:
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port["port"], "TargetPort": 0}
            yield duplicate(where, {**shown, "NodePort": 0})
        numbers.add((protocol, port["port"]))


def _validate_affinity(spec: Json) -> Iterator[Mistake]:
    config, where = spec.get("sessionAffinityConfig"), "spec.sessionAffinityConfig"
    if spec.get("sessionAffinity") == "None" and config is not None:
        yield forbidden(where, "must not be set when session affinity is None")
    if spec.get("sessionAffinity") != "ClientIP":
        return
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None:
        yield required(where, "when session affinity type is ClientIP")
    elif not 1 <= seconds <= _LONGEST_AFFINITY_SECONDS:
        why = f"must be greater than 0 and less than {_LONGEST_AFFINITY_SECONDS}"
        yield invalid(f"{where}.clientIP.timeoutSeconds", seconds, why)


def validate_cluster_addresses(spec: Json, former: Json) -> Iterator[Mistake]:
    """The addresses of a service, and of which kinds they are; those of the `former` spec may stay."""
    if spec.get("type") == "ExternalName":
        return
    first, listed = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if first and not listed:
        yield required("spec.clusterIPs")
    elif first and first != listed[0]:
        yield invalid("spec.clusterIPs", listed, "first value must match `clusterIP`")
    elif listed and not first:
        yield invalid("spec.clusterIPs", listed, "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in _FAMILIES:
            yield unsupported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in spec["ipFamilies"][:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", family)
    if spec.get("ipFamilyPolicy", "SingleStack") not in _FAMILY_POLICIES:
        yield unsupported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _FAMILY_POLICIES)
    for index, text in enumerate(listed):
        if text != "None" or index:
            yield from validate_address(text, f"spec.clusterIPs[{index}]", former.get("clusterIPs") or ())
        elif len(listed) > 1:
            yield invalid("spec.clusterIPs", listed, "'None' must be the first and only value")
    if len(listed) > 2:
        yield invalid("spec.clusterIPs", listed, "may only hold up to 2 values")


def is_open(spec: Json) -> bool:
    """Whether clients outside the cluster reach it."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _validate_balancing(spec: Json, former: Json) -> Iterator[Mistake]:
    """What only a service with a load balancer has, and what only one that is open to the outside has."""
    is_balanced = spec.get("type") == "LoadBalancer"
    if ranges := spec.get("loadBalancerSourceRanges"):
        if not is_balanced:
            yield forbidden("spec.LoadBalancerSourceRanges", _ONLY_BALANCED)
        known = [text.strip() for text in former.get("loadBalancerSourceRanges") or ()]
        for index, text in enumerate(ranges):
            yield from validate_network(text.strip(), f"spec.LoadBalancerSourceRanges[{index}]", known)
    if not is_balanced and "allocateLoadBalancerNodePorts" in spec:
        yield forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED)
    yield from _validate_class(spec)
    policy, port = spec.get("externalTrafficPolicy", ""), spec.get("healthCheckNodePort", 0)
    if not is_open(spec):
        if policy:
            why = "may only be set for externally-accessible services"
            yield invalid("spec.externalTrafficPolicy", policy, why)
    elif policy not in _POLICIES:
        yield unsupported("spec.externalTrafficPolicy", policy, _POLICIES)
    if is_balanced and policy == "Local":
        if port and not 0 < port < 65536:
            yield invalid("spec.healthCheckNodePort", port, _PORT_RULE)
    elif port:
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", port, why)


def validate_service_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Where its load balancer is reached."""
    ways, where = new["status"]["loadBalancer"].get("ingress") or (), "status.loadBalancer.ingress"
    if ways and new["spec"].get("type") != "LoadBalancer":
        yield forbidden(where, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    former = [each.get("ip", "") for each in old["status"]["loadBalancer"].get("ingress") or ()]
    for index, way in enumerate(ways):
        field, mode, host = f"{where}[{index}]", way.get("ipMode"), way.get("hostname")
        if way.get("ip"):
            yield from validate_address(way["ip"], f"{field}.ip", former)
        elif mode is not None:
            yield forbidden(f"{field}.ipMode", "may not be specified when `ip` is not set")
        if way.get("ip") and mode is not None and mode not in _MODES:
            yield unsupported(f"{field}.ipMode", mode, _MODES)
        if host:
            yield from (invalid(f"{field}.hostname", host, why) for why in subdomain_name(host))
            if read_address(host) is not None:
                yield invalid(f"{field}.hostname", host, "must be a DNS name, not an IP address")


def _validate_reachable(text: str, field: str) -> Iterator[Mistake]:
    """An address that others can reach: none of this host alone. What is no address at all was refused before."""
    address = read_address(text)
    if address is None:
        yield invalid(field, text, "must be a valid IP address")
    elif address.is_unspecified:
        yield invalid(field, text, f"may not be unspecified ({text})")
    elif address.is_loopback:
        yield invalid(field, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    elif address.is_link_local:
        yield invalid(field, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    elif address.is_multicast and address in ipaddress.ip_network(
        "224.0.0.0/24" if address.version == 4 else "ff02::/16"
    ):
        yield invalid(field, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


# The addresses behind a service.
def validate_endpoints(endpoints: Json) -> Iterator[Mistake]:
    """The old form."""
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        where = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(where, "must specify `addresses` or `notReadyAddresses`")
        for key in ("addresses", "notReadyAddresses"):
            for number, each in enumerate(subset.get(key) or ()):
                yield from _validate_endpoint_address(each, f"{where}.{key}[{number}]")
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            yield from _validate_endpoint_port(port, f"{where}.ports[{number}]", needs_name=len(ports) > 1)


def validate_endpoints_update(new: Json, old: Json) -> Iterator[Mistake]:
    """What was accepted before stays so."""
    if new.get("subsets") != old.get("subsets"):
        yield from validate_endpoints(new)


def _validate_endpoint_address(address: Json, field: str) -> Iterator[Mistake]:
    yield from validate_address(address["ip"], f"{field}.ip")
    if address.get("hostname"):
        yield from (invalid(f"{field}.hostname", address["hostname"], why) for why in label_name(address["hostname"]))
    if "nodeName" in address:
        yield from (
            invalid(f"{field}.nodeName", address["nodeName"], why) for why in subdomain_name(address["nodeName"])
        )
    # Kubernetes looks twice whether it is an address, and says it twice.
    yield from _validate_reachable(address["ip"], f"{field}.ip")


def _validate_endpoint_port(port: Json, field: str, *, needs_name: bool) -> Iterator[Mistake]:
    name = port.get("name", "")
    if name:
        yield from (invalid(f"{field}.name", name, why) for why in label_name(name))
    elif needs_name:
        yield required(f"{field}.name")
    if not 1 <= port["port"] <= 65535:
        yield invalid(f"{field}.port", port["port"], _PORT_RULE)
    yield from one_of(port, "protocol", field, _PROTOCOLS)
    yield from _validate_app_protocol(port, field)


def _validate_app_protocol(port: Json, field: str) -> Iterator[Mistake]:
    if (protocol := port.get("appProtocol")) is not None:
        yield from (invalid(f"{field}.appProtocol", protocol, why) for why in label_key_complaints(protocol))


def validate_endpoint_slice(value: Json) -> Iterator[Mistake]:
    """The new form."""
    kind = value.get("addressType", "")
    if not kind:
        yield required("addressType")
    elif kind not in _ADDRESS_TYPES:
        yield unsupported("addressType", kind, _ADDRESS_TYPES)
    yield from _validate_slice_ports(value.get("ports") or [])
    endpoints = value.get("endpoints") or []
    if len(endpoints) > _MOST_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        yield from _validate_endpoint(endpoint, f"endpoints[{index}]", kind)


def validate_endpoint_slice_update(new: Json, old: Json) -> Iterator[Mistake]:
    """The type of its addresses stays."""
    is_same = new.get("endpoints") == old.get("endpoints")
    yield from validate_endpoint_slice({**new, "endpoints": []} if is_same else new)
    if new.get("addressType") != old.get("addressType"):
        yield invalid("addressType", new.get("addressType", ""), "field is immutable")


def _validate_slice_ports(ports: list[Json]) -> Iterator[Mistake]:
    if len(ports) > _MOST_PORTS:
        yield too_many("ports", len(ports), _MOST_PORTS)
        return
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"ports[{index}]", port.get("name", "")
        if name:
            yield from (invalid(f"{where}.name", name, why) for why in label_name(name))
        if name in names:
            yield duplicate(f"{where}.name", name)
        names.add(name)
        if port.get("protocol", "") not in _PROTOCOLS:
            yield unsupported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS)
        yield from _validate_app_protocol(port, where)


def _validate_endpoint(endpoint: Json, field: str, kind: str) -> Iterator[Mistake]:
    addresses = endpoint.get("addresses") or []
    if not addresses:
        yield required(f"{field}.addresses", "must contain at least 1 address")
    elif len(addresses) > _MOST_ADDRESSES:
        yield too_many(f"{field}.addresses", len(addresses), _MOST_ADDRESSES)
    for index, text in enumerate(addresses):
        where = f"{field}.addresses[{index}]"
        if kind == "FQDN":
            yield from (invalid(where, text, why) for why in subdomain_name(text)) if text else (required(where),)
        if kind not in ("IPv4", "IPv6"):
            continue
        wrong = list((validate_address if kind == "IPv4" else validate_canonical_address)(text, where))
        if wrong:
            yield from wrong
            continue
        address = read_address(text)
        if address is not None and f"IPv{address.version}" != kind:
            yield invalid(f"{field}.addresses", text, f"must be an {kind} address")
        yield from _validate_reachable(text, where)
    if "nodeName" in endpoint:
        yield from (
            invalid(f"{field}.nodeName", endpoint["nodeName"], why) for why in subdomain_name(endpoint["nodeName"])
        )
    if "hostname" in endpoint:
        yield from (invalid(f"{field}.hostname", endpoint["hostname"], why) for why in label_name(endpoint["hostname"]))
    hints = endpoint.get("hints") or {}
    for key, complaints in (("forZones", label_value_complaints), ("forNodes", subdomain_name)):
        where, asked = f"{field}.hints.{key}", [each.get("name", "") for each in hints.get(key) or ()]
        if len(asked) > _MOST_HINTS:
            yield too_many(where, len(asked), _MOST_HINTS)
            return
        for index, name in enumerate(asked):
            if name in asked[:index]:
                yield duplicate(f"{where}[{index}].name", name)
            yield from (invalid(f"{where}[{index}].name", name, why) for why in complaints(name))
