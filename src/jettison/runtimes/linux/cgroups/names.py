"""How cgroups are called: by plain names, or as slices and scopes of systemd, in the way that a kubelet derives them.

A runtime with the systemd driver has systemd make the cgroups of containers, and names them `slice:prefix:id`. The
slice is the last part of a path below; its name repeats all slices that it is in, so a hyphen inside a name must go. A
kubelet writes an underscore for it. To read names back, an underscore that was there before is written as systemd
escapes it.
"""

from __future__ import annotations

from typing import Final

_SLICE, _SCOPE = ".slice", ".scope"
_ESCAPED: Final = "\\x5f"


class CgroupNames:
    """Of one node. With `scope_prefix`, which is the runtime's, they are slices."""

    __slots__ = ("scope_prefix",)

    def __init__(self, scope_prefix: str = "") -> None:
        self.scope_prefix = scope_prefix

    def top(self, path: str) -> str:
        """Of the node, from what it is called by its operator: `a/b`."""
        if not self.scope_prefix:
            return path
        first, *rest = path.split("/")
        name = f"{_escaped(first)}{_SLICE}"
        for part in rest:
            name = self.child(name, part)
        return name

    def child(self, parent: str, name: str) -> str:
        """A cgroup that has further ones in it."""
        if not self.scope_prefix:
            return f"{parent}/{name}"
        prefix = parent.rpartition("/")[2].removesuffix(_SLICE)
        return f"{parent}/{prefix}-{_escaped(name)}{_SLICE}"

    def box(self, parent: str, name: str) -> str:
        """That of a container, which its runtime makes."""
        return f"{parent}/{self.scope_prefix}-{name}{_SCOPE}" if self.scope_prefix else f"{parent}/{name}"

    def own(self, path: str) -> str:
        """What the last part was called before it became a slice."""
        last = path.rpartition("/")[2]
        if not self.scope_prefix:
            return last
        return last.removesuffix(_SLICE).rpartition("-")[2].replace("_", "-").replace(_ESCAPED, "_")


PLAIN: Final = CgroupNames()


def _escaped(name: str) -> str:
    return name.replace("_", _ESCAPED).replace("-", "_")
