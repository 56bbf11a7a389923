"""The shape of those parts of a v1 Pod that are needed to run it; only types are checked here."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from jettison.manifests.files.bounds import REFUSED
from jettison.manifests.files.decoding import Wire

Seconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
UserId = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class ExecWire(Wire):
    """A command to run."""

    command: list[str] | None = None


class HeaderWire(Wire):
    """One header of an HTTP probe."""

    name: str = ""
    value: str = ""


class HttpWire(Wire):
    """A page to fetch."""

    port: int | str = 0
    path: str | None = None
    host: str | None = None
    scheme: str | None = None
    http_headers: list[HeaderWire] | None = None


class TcpWire(Wire):
    """A port to connect to."""

    port: int | str = 0
    host: str | None = None


class ProbeWire(Wire):
    """A probe; 0 and absent both mean the default."""

    exec: ExecWire | None = None
    http_get: HttpWire | None = None
    tcp_socket: TcpWire | None = None
    initial_delay_seconds: Seconds | None = None
    period_seconds: Seconds | None = None
    timeout_seconds: Seconds | None = None
    success_threshold: Seconds | None = None
    failure_threshold: Seconds | None = None
    termination_grace_period_seconds: Seconds | None = None


class FieldRefWire(Wire):
    """A field of the pod itself."""

    field_path: str = ""


class ResourceRefWire(Wire):
    """An amount that a container asks for, or may use."""

    container_name: str | None = None
    resource: str = ""
    divisor: Any = None


class KeyRefWire(Wire):
    """One value of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class ValueFromWire(Wire):
    """A value from elsewhere."""

    field_ref: FieldRefWire | None = None
    resource_field_ref: ResourceRefWire | None = None
    config_map_key_ref: KeyRefWire | None = None
    secret_key_ref: KeyRefWire | None = None
    file_key_ref: Any = None


class ObjectRefWire(Wire):
    """All values of a ConfigMap or Secret."""

    name: str = ""
    optional: bool | None = None


class EnvFromWire(Wire):
    """A variable for each key of an object."""

    prefix: str | None = None
    config_map_ref: ObjectRefWire | None = None
    secret_ref: ObjectRefWire | None = None


class EnvWire(Wire):
    """One variable."""

    name: str = ""
    value: str | None = None
    value_from: ValueFromWire | None = None


class MountWire(Wire):
    """Where a volume is to be seen."""

    name: str = ""
    mount_path: str = ""
    sub_path: str | None = None
    sub_path_expr: str | None = None
    read_only: bool | None = None


class PortWire(Wire):
    """A port with a name, for probes that use the name."""

    container_port: int = 0
    name: str | None = None
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = field(default=None, name="hostIP")


class SleepWire(Wire):
    """A pause."""

    seconds: int = 0


class HandlerWire(Wire):
    """What a lifecycle hook does."""

    exec: ExecWire | None = None
    http_get: HttpWire | None = None
    sleep: SleepWire | None = None
    tcp_socket: Any = None


class LifecycleWire(Wire):
    """Hooks around a container's life."""

    pre_stop: HandlerWire | None = None
    post_start: HandlerWire | None = None


class ProfileWire(Wire, forbid_unknown_fields=True):
    """A seccomp or AppArmor profile."""

    type: str = ""
    localhost_profile: str | None = None


class CapabilitiesWire(Wire, forbid_unknown_fields=True):
    """Capabilities to take away and to add."""

    add: list[str] | None = None
    drop: list[str] | None = None


class SecurityWire(Wire, forbid_unknown_fields=True):
    """What a process may do: of a container, and as far as both have it of a pod.

    A field that is not here is refused rather than passed over, as everything about security is.
    """

    run_as_user: UserId | None = None
    run_as_group: UserId | None = None
    run_as_non_root: bool | None = None
    seccomp_profile: ProfileWire | None = None
    app_armor_profile: ProfileWire | None = None
    se_linux_options: dict[str, Any] | None = None
    windows_options: dict[str, Any] | None = None


class PodSecurityWire(SecurityWire, forbid_unknown_fields=True):
    """The pod's part."""

    supplemental_groups: list[UserId] | None = None
    supplemental_groups_policy: str | None = None
    fs_group: UserId | None = None
    fs_group_change_policy: str | None = None
    se_linux_change_policy: str | None = None
    sysctls: list[Any] | None = None


class ContainerSecurityWire(SecurityWire, forbid_unknown_fields=True):
    """A container's part; it wins over the pod's."""

    capabilities: CapabilitiesWire | None = None
    privileged: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None


class ResourcesWire(Wire):
    """What it asks for and what it may use, as quantities."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class ContainerWire(Wire):
    """A container. Without a container runtime its image is only told of in messages."""

    name: str = ""
    image: Any = None
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    env: list[EnvWire] | None = None
    env_from: list[EnvFromWire] | None = None
    volume_mounts: list[MountWire] | None = None
    ports: list[PortWire] | None = None
    readiness_probe: ProbeWire | None = None
    liveness_probe: ProbeWire | None = None
    startup_probe: ProbeWire | None = None
    lifecycle: LifecycleWire | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    tty: bool | None = None
    restart_policy: str | None = None
    security_context: ContainerSecurityWire | None = None
    resources: ResourcesWire | None = None


class EphemeralWire(ContainerWire):
    """A container that was added for debugging."""

    target_container_name: str | None = None
    # Why an agent has taken over no more than its name; from nowhere else.
    refused: str | None = field(default=None, name=REFUSED)


class EmptyDirWire(Wire):
    """A directory that lives as long as the pod."""

    medium: str | None = None
    size_limit: Any = None


class HostPathWire(Wire):
    """A file or directory of the host."""

    path: str = ""
    type: str | None = None


FileMode = Annotated[int, Meta(ge=0, le=0o777)]


class ItemWire(Wire):
    """Which value becomes which file."""

    key: str = ""
    path: str = ""
    mode: FileMode | None = None


class ConfigMapWire(Wire):
    """A ConfigMap as a volume, or as a part of one."""

    name: str = ""
    items: list[ItemWire] | None = None
    default_mode: FileMode | None = None
    optional: bool | None = None


class SecretVolumeWire(Wire):
    """A Secret as a volume: its name has another name there."""

    secret_name: str = ""
    items: list[ItemWire] | None = None
    default_mode: FileMode | None = None
    optional: bool | None = None


class PodFileWire(Wire):
    """A file that tells something about the pod."""

    path: str = ""
    field_ref: FieldRefWire | None = None
    resource_field_ref: ResourceRefWire | None = None
    mode: FileMode | None = None


class DownwardWire(Wire):
    """Files that tell about the pod."""

    items: list[PodFileWire] | None = None
    default_mode: FileMode | None = None


class TokenWire(Wire):
    """A token of the pod's service account."""

    path: str = ""
    audience: str | None = None
    expiration_seconds: Annotated[int, Meta(ge=600, le=2**32)] | None = None


class SourceWire(Wire):
    """One of the things that a projected volume shows."""

    config_map: ConfigMapWire | None = None
    secret: ConfigMapWire | None = None
    downward_api: DownwardWire | None = field(default=None, name="downwardAPI")
    service_account_token: TokenWire | None = None
    cluster_trust_bundle: Any = None
    pod_certificate: Any = None


class ProjectedWire(Wire):
    """Several sources in one directory."""

    sources: list[SourceWire] | None = None
    default_mode: FileMode | None = None


class VolumeWire(Wire):
    """A volume of one of the kinds that a node can provide."""

    name: str = ""
    empty_dir: EmptyDirWire | None = None
    host_path: HostPathWire | None = None
    config_map: ConfigMapWire | None = None
    secret: SecretVolumeWire | None = None
    downward_api: DownwardWire | None = field(default=None, name="downwardAPI")
    projected: ProjectedWire | None = None


class MetadataWire(Wire):
    """The identity of the pod."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    annotations: dict[str, Any] | None = None
    labels: dict[str, Any] | None = None


class SpecWire(Wire):
    """What the pod wants to be."""

    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    # Each is read by itself: one that makes no sense must not stop a pod that runs.
    ephemeral_containers: list[dict[str, Any]] | None = None
    volumes: list[VolumeWire] | None = None
    service_account_name: str | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: Annotated[int, Meta(ge=0)] | None = None
    active_deadline_seconds: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    security_context: PodSecurityWire | None = None
    resources: ResourcesWire | None = None
    overhead: dict[str, Any] | None = None
    tolerations: list[Any] | None = None
    host_users: bool | None = None
    runtime_class_name: str | None = None
    share_process_namespace: bool | None = None
    host_network: bool | None = None
    hostname: str | None = None
    host_pid: bool | None = field(default=None, name="hostPID")
    host_ipc: bool | None = field(default=None, name="hostIPC")


class PodWire(Wire):
    """The whole of it."""

    metadata: MetadataWire = field(default_factory=MetadataWire)
    spec: SpecWire = field(default_factory=SpecWire)
