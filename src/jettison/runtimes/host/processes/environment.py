"""What a container finds in its environment, and what `$(VARIABLE)` stands for.

Nothing is inherited from the agent: its environment is private, and a container should not behave differently
because of how the agent was started. HOME and TMPDIR point into the writable directory, so that what a program writes
there is counted and removed with its container.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from jettison.runtimes.host.processes.expansion import Sizes, expand
from jettison.runtimes.host.specs.spec import ContainerSpec
from jettison.runtimes.host.volumes import volumes
from jettison.runtimes.host.volumes.volumes import Volume

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(
    spec: ContainerSpec, pod_name: str, writable_dir: Path, mounted: Iterable[Volume], extra: Mapping[str, str]
) -> dict[str, str]:
    """All variables; those of the manifest come after ours and may refer to them. `extra` cannot be overridden.

    Raises ManifestError where they become too long.
    """
    found = {
        "PATH": SEARCH_PATH,
        "HOME": str(writable_dir),
        "TMPDIR": str(writable_dir),
        "HOSTNAME": pod_name,
    }
    wanted = {mount.volume for mount in spec.mounts}
    found |= {volumes.variable(volume.name): str(volume.path) for volume in mounted if volume.name in wanted}
    sizes = Sizes(found)
    for name, value in spec.env:
        sizes.variable(name, value)
        found[name] = expand(value, found)
    return {**found, **extra}


def arguments(command: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """The words of a command with the variables of its container in them. Raises ManifestError where they become too
    long.
    """
    words = tuple(command)
    Sizes(variables).words(words, "command")
    return tuple(expand(word, variables) for word in words)


def working_directory(spec: ContainerSpec, writable_dir: Path) -> Path:
    """Inside a mounted volume when it lies below a mountPath, else a path of the host; relative to the writable one."""
    wanted = Path(spec.working_dir)
    if not wanted.is_absolute():
        return writable_dir / wanted
    inside = wanted.relative_to("/")
    if any(inside.is_relative_to(mount.path) for mount in spec.mounts):
        return writable_dir / inside
    return wanted
