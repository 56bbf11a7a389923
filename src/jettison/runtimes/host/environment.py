"""What a container finds in its environment, and what `$(VARIABLE)` stands for.

Nothing is inherited from the agent: its environment is nobody's business, and a container should not behave differently
because of who started the agent. HOME and TMPDIR point into the writable directory, so that what a program drops there
is counted and removed with its container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from jettison.runtimes.host import volumes
from jettison.runtimes.host.spec import ContainerSpec
from jettison.runtimes.host.volumes import Volume

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")


def environment(
    spec: ContainerSpec, pod_name: str, writable_dir: Path, mounted: Iterable[Volume], extra: Mapping[str, str]
) -> dict[str, str]:
    """All variables; those of the manifest come after ours and may refer to them. `extra` cannot be overridden."""
    found = {
        "PATH": SEARCH_PATH,
        "HOME": str(writable_dir),
        "TMPDIR": str(writable_dir),
        "HOSTNAME": pod_name,
    }
    wanted = {mount.volume for mount in spec.mounts}
    found |= {volumes.variable(volume.name): str(volume.path) for volume in mounted if volume.name in wanted}
    for name, value in spec.env:
        found[name] = expand(value, found)
    return {**found, **extra}


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; an unknown one stays as it is and `$$` is a dollar, as in Kubernetes."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(value, text)


def working_directory(spec: ContainerSpec, writable_dir: Path) -> Path:
    """Inside a mounted volume when it lies below a mountPath, else a path of the host; relative to the writable one."""
    wanted = Path(spec.working_dir)
    if not wanted.is_absolute():
        return writable_dir / wanted
    inside = wanted.relative_to("/")
    if any(inside.is_relative_to(mount.path) for mount in spec.mounts):
        return writable_dir / inside
    return wanted
