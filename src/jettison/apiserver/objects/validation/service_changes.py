"""What Kubernetes makes of a service before it looks at it: what a change may leave out, and what goes with a type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jettison.apiserver.objects.schema import empty_struct
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, refusal
from jettison.apiserver.objects.validation.services import (
    is_checked,
    is_headless,
    is_open,
    validate_cluster_addresses,
)

Json = dict[str, Any]


def prepare_service(service: Json) -> None:
    """Which families it gets is decided before the rest is looked at."""
    service["status"] = empty_struct("ServiceStatus")
    _repeat_new_address(service)
    _refuse(service, _give_families(service, None))


def prepare_changed_service(service: Json, old: Json) -> None:
    """Complete a changed service from the one that is there."""
    _refuse(service, _complete(service, old))


def _refuse(service: Json, mistakes: list[Mistake]) -> None:
    if mistakes:
        raise refusal("", "Service", service["metadata"].get("name", ""), mistakes)


def _complete(service: Json, old: Json) -> list[Mistake]:
    spec, former = service["spec"], old["spec"]
    _keep_given(spec, former)
    _repeat_address(spec, former)
    if mistakes := _give_families(service, old):
        return mistakes
    _drop_unfitting(spec, former)
    if spec.get("type") != "LoadBalancer":
        service["status"] = {**service["status"], "loadBalancer": {}}
    return []


def _keep_given(spec: Json, former: Json) -> None:
    """A client that leaves out an address or a port of the node does not mean to give it back."""
    if "ExternalName" not in (spec.get("type"), former.get("type")):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and former.get(key):
                spec[key] = former[key]
    if _has_node_ports(spec) and _has_node_ports(former):
        used = _node_ports(spec) & _node_ports(former)
        by_name = {each.get("name", ""): each.get("nodePort", 0) for each in former.get("ports") or ()}
        for port in spec.get("ports") or ():
            before = by_name.get(port.get("name", ""), 0)
            if not port.get("nodePort") and before and before not in used:
                port["nodePort"] = before
    if is_checked(spec) and is_checked(former) and not spec.get("healthCheckNodePort"):
        _take(spec, former, "healthCheckNodePort")


def _repeat_new_address(service: Json) -> None:
    """The address of a new service is shown twice; only where an old client has given it once is it filled in."""
    spec = service["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def _repeat_address(spec: Json, former: Json) -> None:
    """The same of a change: a client that has changed the one only means both."""
    given, before = spec.get("clusterIP", ""), former.get("clusterIP", "")
    if given == before:
        if former.get("clusterIPs") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = former["clusterIPs"]
    elif (spec.get("clusterIPs") or []) == (former.get("clusterIPs") or []):
        spec.pop("clusterIPs", None)
        if given:
            spec["clusterIPs"] = [given]


def _drop_unfitting(spec: Json, former: Json) -> None:
    """What belonged to the former type and was not changed goes with it; validation refuses what was changed."""
    if spec.get("type") == "ExternalName" != former.get("type"):
        if all(spec.get(key) == former.get(key) for key in ("clusterIP", "clusterIPs")):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        for key in ("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            _drop_unchanged(spec, former, key)
    had_ports = former.get("type") in ("NodePort", "LoadBalancer")
    has_ports = spec.get("type") in ("NodePort", "LoadBalancer")
    if had_ports and not has_ports and _node_ports(spec) <= _node_ports(former):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if is_checked(former) and not is_checked(spec):
        _drop_unchanged(spec, former, "healthCheckNodePort")
    if former.get("type") == "LoadBalancer" != spec.get("type"):
        for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            _drop_unchanged(spec, former, key)
    if is_open(former) and not is_open(spec):
        _drop_unchanged(spec, former, "externalTrafficPolicy")


def _has_node_ports(spec: Json) -> bool:
    is_balanced = spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    return spec.get("type") == "NodePort" or is_balanced


def _node_ports(spec: Json) -> set[int]:
    return {each["nodePort"] for each in spec.get("ports") or () if each.get("nodePort")}


def _take(spec: Json, former: Json, key: str) -> None:
    if key in former:
        spec[key] = former[key]


def _drop_unchanged(spec: Json, former: Json, key: str) -> None:
    if key in spec and spec[key] == former.get(key):
        del spec[key]


def _give_families(service: Json, old: Json | None) -> list[Mistake]:
    """Fill in which kinds of addresses a headless service has, as a cluster with addresses of version 4 does, or say
    why it cannot have what it asks for. Others would get theirs with an address.
    """
    spec, former = service["spec"], {} if old is None else old["spec"]
    if spec.get("type") == "ExternalName" or _prefers_as_before(spec, former):
        return []
    if not is_headless(spec):
        # They get their families with an address, which nothing gives them here. What cannot be had is refused.
        spec = dict(spec)
    has_selector = bool(spec.get("selector")) or not is_headless(spec)
    default = former.get("ipFamilyPolicy") or ("SingleStack" if has_selector else "RequireDualStack")
    policy = spec.setdefault("ipFamilyPolicy", default)
    if mistakes := list(validate_cluster_addresses(spec, former)):
        return mistakes
    families = list(spec.get("ipFamilies") or ())
    if policy == "SingleStack":
        if families == former.get("ipFamilies"):
            families = families[:1]
        if len(families) > 1:
            why = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
            mistakes.append(invalid("spec.ipFamilyPolicy", policy, why))
    elif families and len(families) < len(former.get("ipFamilies") or ()):
        why = "must be 'SingleStack' to release the secondary IP family"
        mistakes.append(invalid("spec.ipFamilyPolicy", policy, why))
    if not mistakes and has_selector:
        mistakes += _unconfigured(policy, families)
    families = families or ["IPv4"]
    if not has_selector and policy != "SingleStack" and len(families) < 2:
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    spec["ipFamilies"] = families
    return mistakes


def _prefers_as_before(spec: Json, former: Json) -> bool:
    kept = ("type", "clusterIPs", "ipFamilies")
    policies = {spec.get("ipFamilyPolicy"), former.get("ipFamilyPolicy", "PreferDualStack")}
    return bool(former) and policies == {"PreferDualStack"} and all(spec.get(key) == former.get(key) for key in kept)


def _unconfigured(policy: str, families: list[str]) -> Iterator[Mistake]:
    if policy == "RequireDualStack":
        yield invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(families):
        if family != "IPv4":
            yield invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
