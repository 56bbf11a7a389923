"""What a pod's and a container's securityContext ask for: honoured, or refused with the reason, never passed over.

A bare host runs manifests that its operator trusts, as processes that see its files. So a container that says nothing
about its privileges keeps those of the agent, root's as a rule. One that says something gets exactly that: with
`capabilities`, or with `privileged: false`, it begins with the set that container runtimes give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jettison.errors import ManifestError
from jettison.runtimes.containers import BoxSecurity
from jettison.runtimes.host.processes import capabilities, seccomp
from jettison.runtimes.host.specs import pod_documents as wire
from jettison.runtimes.host.specs import texts
from jettison.values import frozen

_APP_ARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_MOST_GROUPS = 1024


@frozen
class SecuritySpec:
    """`capabilities` None leaves what the agent has; `added` are those that must be there or the start fails.

    `group` None with a `user` is decided at the start, by the host's list of users.
    """

    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    capabilities: int | None = None
    added: int = 0
    has_no_new_privileges: bool = False
    # The program of a seccomp filter; empty for none.
    seccomp: bytes = b""
    # All that it sees is read-only but its volumes.
    is_sealed: bool = False


NO_SECURITY = SecuritySpec()


def box_security(
    name: str,
    pod: wire.PodSecurityWire | None,
    own: wire.ContainerSecurityWire | None,
    annotations: Mapping[str, Any],
    *,
    allows_privileged: bool,
) -> BoxSecurity:
    """Of one container with an image; what it does not say is as its image and its runtime have it."""
    pod, own = pod or wire.PodSecurityWire(), own or wire.ContainerSecurityWire()
    if own.privileged and not allows_privileged:
        raise ManifestError("securityContext.privileged: not allowed on this node, which --allow-privileged changes")
    _check_escalation(own)
    for each in (pod, own):
        _check_elsewhere(each)
    _check_app_armor(name, annotations)
    asked = own.capabilities
    added = capabilities.checked_names((asked and asked.add) or (), "securityContext.capabilities.add")
    dropped = capabilities.checked_names((asked and asked.drop) or (), "securityContext.capabilities.drop")
    user, group, non_root = _identity(pod, own)
    profile = own.seccomp_profile or pod.seccomp_profile
    return BoxSecurity(
        user,
        group,
        _groups(pod),
        tuple(added),
        tuple(dropped),
        bool(own.privileged),
        bool(own.read_only_root_filesystem),
        own.allow_privilege_escalation is False,
        profile is not None and _seccomp_type(profile) == "RuntimeDefault",
        bool(non_root),
    )


def check_pod_security(spec: wire.SpecWire) -> None:
    """Refuse what holds for the pod as a whole and cannot be had."""
    pod = spec.security_context
    if spec.host_users is False:
        raise ManifestError("spec.hostUsers: `false` needs a user namespace, a bare host has none")
    if spec.runtime_class_name:
        name = texts.shown(spec.runtime_class_name)
        raise ManifestError(f"spec.runtimeClassName: `{name}` needs a container runtime, a bare host has none")
    if spec.share_process_namespace and spec.host_pid:
        raise ManifestError("spec.shareProcessNamespace: ShareProcessNamespace and HostPID cannot both be enabled")
    if pod is None:
        return
    if pod.sysctls:
        raise ManifestError("spec.securityContext.sysctls: not available on a bare host, they would change the host's")
    if pod.se_linux_change_policy is not None:
        raise ManifestError("spec.securityContext.seLinuxChangePolicy: not available on a bare host")
    if pod.supplemental_groups_policy is not None:
        # The same here: memberships are an image's to name, and there is none.
        where = "spec.securityContext.supplementalGroupsPolicy"
        texts.choice(pod.supplemental_groups_policy, ("Merge", "Strict"), where)
    if pod.fs_group_change_policy is not None:
        where = "spec.securityContext.fsGroupChangePolicy"
        texts.choice(pod.fs_group_change_policy, ("OnRootMismatch", "Always"), where)
    if len(pod.supplemental_groups or ()) > _MOST_GROUPS:
        count = len(pod.supplemental_groups or ())
        raise ManifestError(f"spec.securityContext.supplementalGroups: {count} groups, at most {_MOST_GROUPS} fit")


def security_spec(
    name: str, pod: wire.PodSecurityWire | None, own: wire.ContainerSecurityWire | None, annotations: Mapping[str, Any]
) -> SecuritySpec:
    """Of one container; its own words win over its pod's."""
    pod, own = pod or wire.PodSecurityWire(), own or wire.ContainerSecurityWire()
    _check_escalation(own)
    for each in (pod, own):
        _check_elsewhere(each)
    _check_app_armor(name, annotations)
    user, group, non_root = _identity(pod, own)
    if non_root and user is None:
        raise ManifestError("container has runAsNonRoot and image will run as root: there is no image, set runAsUser")
    kept, added = _capabilities(own)
    found = SecuritySpec(
        user,
        group,
        _groups(pod),
        kept,
        added,
        own.allow_privilege_escalation is False,
        _filter(own.seccomp_profile or pod.seccomp_profile, added, is_privileged=bool(own.privileged)),
        bool(own.read_only_root_filesystem),
    )
    # Most containers say nothing, and a node has hundreds.
    return NO_SECURITY if found == NO_SECURITY else found


def _identity(pod: wire.PodSecurityWire, own: wire.ContainerSecurityWire) -> tuple[int | None, int | None, bool | None]:
    """User, group and whether it must not be root; a container's own words win over its pod's."""
    user = pod.run_as_user if own.run_as_user is None else own.run_as_user
    group = pod.run_as_group if own.run_as_group is None else own.run_as_group
    non_root = pod.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    if non_root and user == 0:
        raise ManifestError("container's runAsUser breaks non-root policy")
    return user, group, non_root


def _groups(pod: wire.PodSecurityWire) -> tuple[int, ...]:
    groups = list(pod.supplemental_groups or ())
    if pod.fs_group is not None:
        groups.append(pod.fs_group)
    return tuple(dict.fromkeys(groups))


def _check_app_armor(name: str, annotations: Mapping[str, Any]) -> None:
    app_armor = annotations.get(f"{_APP_ARMOR_ANNOTATION}{name}")
    if app_armor not in (None, "unconfined"):
        raise ManifestError(f"AppArmor annotation `{texts.shown(app_armor)}`: no profiles on a bare host")


def _check_escalation(own: wire.ContainerSecurityWire) -> None:
    if own.proc_mount not in (None, "", "Default"):
        texts.choice(own.proc_mount or "", ("Default", "Unmasked"), "securityContext.procMount")
        raise ManifestError("securityContext.procMount: `hostUsers` must be false if `procMount` is `Unmasked`")
    if own.allow_privilege_escalation is False:
        # Texts of Kubernetes' validation.
        if own.privileged:
            raise ManifestError("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        added = own.capabilities.add if own.capabilities is not None else None
        if {"SYS_ADMIN", "CAP_SYS_ADMIN"} & {each.upper() for each in added or ()}:
            raise ManifestError("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")


def _check_elsewhere(each: wire.SecurityWire) -> None:
    if each.se_linux_options:
        raise ManifestError("securityContext.seLinuxOptions: not available on a bare host")
    if each.windows_options is not None:
        raise ManifestError("securityContext.windowsOptions: this is Linux")
    profile = each.app_armor_profile
    if profile is not None:
        allowed = ("Unconfined", "RuntimeDefault", "Localhost")
        if _profile_type(profile, allowed, "appArmorProfile") != "Unconfined":
            raise ManifestError(f"securityContext.appArmorProfile: a bare host has no profile `{profile.type}`")


def _capabilities(own: wire.ContainerSecurityWire) -> tuple[int | None, int]:
    """What is left of them, and what was asked for by name."""
    asked = own.capabilities
    added = capabilities.checked_names((asked and asked.add) or (), "securityContext.capabilities.add")
    dropped = capabilities.checked_names((asked and asked.drop) or (), "securityContext.capabilities.drop")
    if asked is None and own.privileged is not False:
        return None, 0
    # In the order of containerd: whole sets first, and a name that is dropped is gone though it was added.
    kept = capabilities.EVERY if own.privileged or capabilities.ALL in added else capabilities.DEFAULT
    if capabilities.ALL in dropped:
        kept = 0
    gone = capabilities.mask(name for name in dropped if name != capabilities.ALL)
    named = capabilities.mask(name for name in added if name != capabilities.ALL) & ~gone
    return (kept & ~gone) | named, named


def _filter(profile: wire.ProfileWire | None, added: int, *, is_privileged: bool) -> bytes:
    if profile is None:
        return b""
    kind = _seccomp_type(profile)
    if kind == "Unconfined" or is_privileged:  # a privileged container has no profile, as in Kubernetes
        return b""
    if not seccomp.has_profile():
        raise ManifestError("securityContext.seccompProfile: `RuntimeDefault` is known for x86_64 and aarch64 only")
    return seccomp.default_profile(added)


def _seccomp_type(profile: wire.ProfileWire) -> str:
    kind = _profile_type(profile, ("RuntimeDefault", "Unconfined", "Localhost"), "seccompProfile")
    if kind == "Localhost":
        raise ManifestError("securityContext.seccompProfile: `Localhost` is not available on a bare host")
    return kind


def _profile_type(profile: wire.ProfileWire, allowed: tuple[str, ...], field: str) -> str:
    kind = texts.choice(profile.type, allowed, f"securityContext.{field}.type")
    word = "seccomp" if field == "seccompProfile" else "AppArmor"
    if kind == "Localhost" and not profile.localhost_profile:
        raise ManifestError(f"securityContext.{field}.localhostProfile: must be set when {word} type is Localhost")
    if kind != "Localhost" and profile.localhost_profile is not None:
        said = f"can only be set when {word} type is Localhost"
        raise ManifestError(f"securityContext.{field}.localhostProfile: {said}")
    return kind
