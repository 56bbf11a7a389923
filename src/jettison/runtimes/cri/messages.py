"""The messages of CRI v1 that are used here: one row per field, with its number and type on the wire.

Names and numbers are facts of the interface; fields that are neither sent nor read are left out. `runtimes/grpc/wire`
says how a row is read.
"""

from __future__ import annotations

from jettison.runtimes.grpc.wire import parse_table

_TABLE = """
VersionRequest: 1 version string
VersionResponse: 1 version string, 2 runtime_name string, 3 runtime_version string, 4 runtime_api_version string
StatusRequest: 1 verbose bool
StatusResponse: 1 status RuntimeStatus, 2 info map
RuntimeConfigRequest:
RuntimeConfigResponse: 1 linux LinuxRuntimeConfiguration
LinuxRuntimeConfiguration: 1 cgroup_driver int
RuntimeStatus: 1 conditions []RuntimeCondition
RuntimeCondition: 1 type string, 2 status bool, 3 reason string, 4 message string

RunPodSandboxRequest: 1 config PodSandboxConfig, 2 runtime_handler string
RunPodSandboxResponse: 1 pod_sandbox_id string
StopPodSandboxRequest: 1 pod_sandbox_id string
RemovePodSandboxRequest: 1 pod_sandbox_id string
ListPodSandboxRequest: 1 filter PodSandboxFilter
ListPodSandboxResponse: 1 items []PodSandbox
PodSandboxStatusRequest: 1 pod_sandbox_id string
PodSandboxStatusResponse: 1 status PodSandboxStatus
PodSandboxStatus: 1 id string, 5 network PodSandboxNetworkStatus, 6 linux LinuxPodSandboxStatus
PodSandboxNetworkStatus: 1 ip string, 2 additional_ips []PodIP
PodIP: 1 ip string
LinuxPodSandboxStatus: 1 namespaces Namespace
Namespace: 2 options NamespaceOption
PodSandboxConfig: 1 metadata PodSandboxMetadata, 2 hostname string, 3 log_directory string,
    5 port_mappings []PortMapping, 6 labels map, 7 annotations map, 8 linux LinuxPodSandboxConfig
PortMapping: 1 protocol int, 2 container_port int, 3 host_port int, 4 host_ip string
PodSandboxMetadata: 1 name string, 2 uid string, 3 namespace string, 4 attempt int
PodSandboxFilter: 1 id string, 2 state StateValue, 3 label_selector map
PodSandbox: 1 id string, 2 metadata PodSandboxMetadata, 3 state int, 4 created_at int, 5 labels map, 6 annotations map
LinuxPodSandboxConfig: 1 cgroup_parent string, 2 security_context LinuxSandboxSecurityContext
LinuxSandboxSecurityContext: 1 namespace_options NamespaceOption, 9 seccomp SecurityProfile
NamespaceOption: 1 network int, 2 pid int, 4 target_id string
SecurityProfile: 1 profile_type int
Int64Value: 1 value int
UInt64Value: 1 value int

CreateContainerRequest: 1 pod_sandbox_id string, 2 config ContainerConfig, 3 sandbox_config PodSandboxConfig
CreateContainerResponse: 1 container_id string
StartContainerRequest: 1 container_id string
StopContainerRequest: 1 container_id string, 2 timeout int
RemoveContainerRequest: 1 container_id string
ListContainersRequest: 1 filter ContainerFilter
ListContainersResponse: 1 containers []Container
ContainerStatusRequest: 1 container_id string, 2 verbose bool
ContainerStatusResponse: 1 status ContainerStatus, 2 info map
ListContainerStatsRequest: 1 filter ContainerStatsFilter
ListContainerStatsResponse: 1 stats []ContainerStats
ContainerStatsFilter: 1 id string
ContainerStats: 1 attributes ContainerAttributes, 4 writable_layer FilesystemUsage
ContainerAttributes: 1 id string
ExecSyncRequest: 1 container_id string, 2 cmd []string, 3 timeout int
ExecSyncResponse: 1 stdout bytes, 2 stderr bytes, 3 exit_code int
ExecRequest: 1 container_id string, 2 cmd []string, 3 tty bool, 4 stdin bool, 5 stdout bool, 6 stderr bool
ExecResponse: 1 url string
AttachRequest: 1 container_id string, 2 stdin bool, 3 tty bool, 4 stdout bool, 5 stderr bool
AttachResponse: 1 url string
ContainerConfig: 1 metadata ContainerMetadata, 2 image ImageSpec, 3 command []string, 4 args []string,
    5 working_dir string, 6 envs []KeyValue, 7 mounts []Mount, 9 labels map, 11 log_path string,
    12 stdin bool, 13 stdin_once bool, 14 tty bool, 15 linux LinuxContainerConfig
ContainerMetadata: 1 name string, 2 attempt int
ContainerFilter: 1 id string, 2 state StateValue, 3 pod_sandbox_id string, 4 label_selector map
StateValue: 1 state int
Container: 1 id string, 2 pod_sandbox_id string, 3 metadata ContainerMetadata, 4 image ImageSpec, 5 image_ref string,
    6 state int, 7 created_at int, 8 labels map, 10 image_id string
ContainerStatus: 1 id string, 2 metadata ContainerMetadata, 3 state int, 4 created_at int, 5 started_at int,
    6 finished_at int, 7 exit_code int, 8 image ImageSpec, 9 image_ref string, 10 reason string, 11 message string
KeyValue: 1 key string, 2 value string
Mount: 1 container_path string, 2 host_path string, 3 readonly bool
LinuxContainerConfig: 1 resources LinuxContainerResources, 2 security_context LinuxContainerSecurityContext
LinuxContainerResources: 1 cpu_period int, 2 cpu_quota int, 3 cpu_shares int, 4 memory_limit_in_bytes int,
    5 oom_score_adj int, 9 unified map
LinuxContainerSecurityContext: 1 capabilities Capability, 2 privileged bool, 3 namespace_options NamespaceOption,
    5 run_as_user Int64Value, 6 run_as_username string, 7 readonly_rootfs bool, 8 supplemental_groups []int,
    11 no_new_privs bool, 12 run_as_group Int64Value, 13 masked_paths []string, 14 readonly_paths []string,
    15 seccomp SecurityProfile
Capability: 1 add_capabilities []string, 2 drop_capabilities []string

ListImagesRequest:
ListImagesResponse: 1 images []Image
ImageStatusRequest: 1 image ImageSpec, 2 verbose bool
ImageStatusResponse: 1 image Image, 2 info map
PullImageRequest: 1 image ImageSpec
PullImageResponse: 1 image_ref string
RemoveImageRequest: 1 image ImageSpec
ImageFsInfoRequest:
ImageFsInfoResponse: 1 image_filesystems []FilesystemUsage, 2 container_filesystems []FilesystemUsage
ImageSpec: 1 image string, 18 user_specified_image string
Image: 1 id string, 2 repo_tags []string, 3 repo_digests []string, 4 size int, 5 uid Int64Value, 6 username string,
    8 pinned bool
FilesystemUsage: 1 timestamp int, 2 fs_id FilesystemIdentifier, 3 used_bytes UInt64Value, 4 inodes_used UInt64Value
FilesystemIdentifier: 1 mountpoint string
Nothing:
"""


MESSAGES = parse_table(_TABLE)

RUNTIME, IMAGES = "runtime.v1.RuntimeService", "runtime.v1.ImageService"

SHARED_PROCESSES, OWN_PROCESSES, OF_NODE, OF_TARGET = 0, 1, 2, 3
OF_POD = SHARED_PROCESSES
"""Of `NamespaceOption`. A pid namespace that is the sandbox's would make `pause` process 1 of every container, and a
program that ignores SIGTERM by default as process 1 would end of it."""

CRIO = "cri-o"
"""As CRI-O calls itself."""

SANDBOX_READY, SANDBOX_NOT_READY = 0, 1
SYSTEMD_DRIVER = 0
CREATED, RUNNING, EXITED, IN_UNKNOWN_STATE = 0, 1, 2, 3
RUNTIME_DEFAULT, UNCONFINED = 0, 1
