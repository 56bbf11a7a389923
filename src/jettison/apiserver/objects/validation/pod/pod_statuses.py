"""The status of a pod, which its node writes: what it may say of containers, addresses and claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.addresses import validate_address, validate_pair
from jettison.apiserver.objects.validation.metadata import label_name, subdomain_name
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from jettison.apiserver.objects.validation.pod.pods import validate_annotations_update
from jettison.apiserver.objects.validation.pod.security import validate_ids
from jettison.engine.labels.syntax import label_key_complaints

Json = dict[str, Any]

_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
_LONGEST_MESSAGE: Final = 1024
_PARTS: Final = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", ""),
)
_REQUEST_RULE: Final = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
    "spec.containers.resources.requests"
)
_CLAIM_RULE: Final = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)


def validate_pod_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Conditions must have names, containers that are over stay so, and the QoS class is immutable."""
    status, former = new["status"], old["status"]
    yield from validate_annotations_update(new, old)
    for index, condition in enumerate(status.get("conditions") or ()):
        where, kind = f"status.conditions[{index}]", condition["type"]
        if condition.get("observedGeneration", 0) < 0:
            why = "must be a non-negative integer"
            yield invalid(f"{where}.observedGeneration", condition["observedGeneration"], why)
        if kind not in _SYSTEM_CONDITIONS:
            yield from (invalid(f"{where}.Type", kind, why) for why in label_key_complaints(kind))
    nominated, before = status.get("nominatedNodeName", ""), former.get("nominatedNodeName", "")
    if nominated not in ("", before):
        yield from (invalid("status.nominatedNodeName", nominated, why) for why in subdomain_name(nominated))
        if old["spec"].get("nodeName"):
            yield forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    if status.get("observedGeneration", 0) < 0:
        yield invalid("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    if status.get("qosClass") != former.get("qosClass"):
        yield invalid("status.qosClass", status.get("qosClass"), "field is immutable")
    for key, specs in _PARTS:
        yield from _validate_ended(status, former, key, old["spec"], specs)
    yield from _validate_claims(status, old["spec"])
    if "extendedResourceClaimStatus" in status:
        yield from _validate_extended_claim(status["extendedResourceClaimStatus"], old["spec"])
    yield from _validate_addresses(status, former, "podIPs")
    if status.get("hostIPs"):
        first = status["hostIPs"][0]["ip"]
        if status.get("hostIP", "") != first:
            yield invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`")
        yield from _validate_addresses(status, former, "hostIPs")
    for key, _ in _PARTS:
        yield from _validate_users(status, key, old["spec"])
    for key, specs in _PARTS:
        yield from _validate_allocated(status, key, old["spec"], specs)


def _validate_claims(status: Json, spec: Json) -> Iterator[Mistake]:
    claims = {each["name"] for each in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for index, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        where, name = f"status.resourceClaimStatuses[{index}]", claim["name"]
        if name not in claims:
            yield invalid(f"{where}.name", name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        made = claim.get("resourceClaimName")
        if made is not None:
            yield from (invalid(f"{where}.resourceClaimName", made, why) for why in subdomain_name(made))


def _validate_extended_claim(claim: Json, spec: Json) -> Iterator[Mistake]:
    """A claim for devices that containers ask for by the names of resources."""
    where = "status.extendedResourceClaimStatus"
    containers = {each["name"]: each for key in ("initContainers", "containers") for each in spec.get(key) or ()}
    mappings = claim.get("requestMappings") or ()
    if not mappings:
        yield required(f"{where}.requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, str, str]] = set()
    for index, each in enumerate(mappings):
        place = f"{where}.requestMappings[{index}]"
        owner, resource, request = each["containerName"], each["resourceName"], each["requestName"]
        if owner not in containers:
            why = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield invalid(f"{place}.containerName", owner, why)
        elif resource not in (containers[owner]["resources"].get("requests") or {}):
            yield invalid(f"{place}.resourceName", resource, _REQUEST_RULE)
        # Upstream names the claim here, not the mapping.
        yield from (invalid(f"{where}.requestName", request, why) for why in label_name(request))
        if (owner, resource, request) in seen:
            for key in ("containerName", "resourceName", "requestName"):
                yield duplicate(f"{place}.{key}", each[key])
        seen.add((owner, resource, request))
    name = claim["resourceClaimName"]
    if not name:
        yield required(f"{where}.resourceClaimName")
    else:
        yield from (invalid(f"{where}.resourceClaimName", name, why) for why in subdomain_name(name))


def _validate_users(status: Json, key: str, spec: Json) -> Iterator[Mistake]:
    system = (spec.get("os") or {}).get("name", "linux")
    for index, each in enumerate(status.get(key) or ()):
        user, where = (each.get("user") or {}).get("linux"), f"status.{key}[{index}].user.linux"
        if user is None:
            continue
        if system == "windows":
            yield forbidden(where, "cannot be set for a windows pod")
        elif system == "linux":
            yield from validate_ids(user, where, ("uid", "gid"))


def _validate_allocated(status: Json, key: str, spec: Json, specs: str) -> Iterator[Mistake]:
    """Devices that a container was given; a status without a container is let through."""
    known = {each["name"]: each for each in spec.get(specs) or ()}
    for index, each in enumerate(status.get(key) or ()):
        where, allocated = f"status.{key}[{index}].allocatedResourcesStatus", each.get("allocatedResourcesStatus") or ()
        if allocated and not specs:
            yield forbidden(where, "must not be specified in container status")
            continue
        for number, one in enumerate(allocated):
            if each["name"] in known:
                yield from _validate_asked_for(one["name"], known[each["name"]], f"{where}[{number}].name")
            yield from _validate_devices(one.get("resources") or (), f"{where}[{number}].resources")


def _validate_asked_for(name: str, container: Json, where: str) -> Iterator[Mistake]:
    asked = container["resources"]
    if name.startswith("claim:"):
        claims = [(each["name"], each.get("request", "")) for each in asked.get("claims") or ()]
        if name not in [f"claim:{claim}/{request}" if request else f"claim:{claim}" for claim, request in claims]:
            yield invalid(where, name, _CLAIM_RULE)
    elif name not in (asked.get("requests") or {}):
        yield invalid(where, name, "must match one of the container's resource requests")


def _validate_devices(devices: Any, where: str) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, each in enumerate(devices):
        place, health, message = f"{where}[{index}]", each.get("health", ""), each.get("message")
        if health not in _HEALTHS:
            yield unsupported(f"{place}.health", health, _HEALTHS)
        if message == "":
            yield required(f"{place}.message", "must be non-empty if specified")
        elif message is not None and len(message.encode("utf-8", "replace")) > _LONGEST_MESSAGE:
            yield too_long(f"{place}.message", _LONGEST_MESSAGE)
        if each["resourceID"] in seen:
            yield duplicate(f"{place}.resourceID", each["resourceID"])
        seen.add(each["resourceID"])


def _validate_addresses(status: Json, former: Json, key: str) -> Iterator[Mistake]:
    texts = [each["ip"] for each in status.get(key) or ()]
    before = [each["ip"] for each in former.get(key) or ()]
    for index, text in enumerate(texts):
        yield from validate_address(text, f"status.{key}[{index}]", before)
    yield from validate_pair(texts, [{"IP": text} for text in texts], f"status.{key}")


def _validate_ended(status: Json, former: Json, key: str, spec: Json, specs: str) -> Iterator[Mistake]:
    """A container that has ended and is not to be started again does not run again."""
    known = {each["name"]: each for each in spec.get(specs) or ()}
    every = [each for part in ("containers", "initContainers") for each in spec.get(part) or ()]
    if specs and any(_restarts_all(each) for each in every):
        return
    running = {each["name"] for each in status.get(key) or () if "terminated" not in each["state"]}
    for index, each in enumerate(former.get(key) or ()):
        ended = each["state"].get("terminated")
        if ended is None or each["name"] not in running:
            continue
        container = known.get(each["name"])
        if container is None or not _starts_again(container, spec, ended["exitCode"]):
            yield forbidden(f"status.{key}[{index}].state", "may not be transitioned to non-terminated state")


def _restarts_all(container: Json) -> bool:
    return any(rule.get("action") == "RestartAllContainers" for rule in container.get("restartPolicyRules") or ())


def _starts_again(container: Json, spec: Json, code: int) -> bool:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if rule.get("action") == "Restart" and (code in (codes.get("values") or ())) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy") or spec.get("restartPolicy")
    return policy == "Always" or (policy == "OnFailure" and code != 0)
