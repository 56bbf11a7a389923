"""How cgroups are called: by plain names, or as slices and scopes of systemd, in the way that a kubelet derives them.

A runtime with the systemd driver has systemd make the cgroups of containers: scopes, in the slice that it was told of.
The slice is the last part of a path below. Its name repeats all slices that it is in, so a hyphen inside a name must
go: a kubelet writes an underscore for it. To read names back, an underscore that was there before is written as systemd
escapes it.
"""

from __future__ import annotations

from typing import Final

_SLICE: Final = ".slice"
_ESCAPED: Final = "\\x5f"


class CgroupNames:
    """Of one node. Those of containers are their runtime's affair."""

    __slots__ = ("are_slices",)

    def __init__(self, *, are_slices: bool = False) -> None:
        self.are_slices = are_slices

    def top(self, path: str) -> str:
        """Of the node, from what it is called by its operator: `a/b`."""
        if not self.are_slices:
            return path
        first, *rest = path.split("/")
        name = f"{_escaped(first)}{_SLICE}"
        for part in rest:
            name = self.child(name, part)
        return name

    def child(self, parent: str, name: str) -> str:
        """A cgroup that has further ones in it."""
        if not self.are_slices:
            return f"{parent}/{name}"
        prefix = parent.rpartition("/")[2].removesuffix(_SLICE)
        return f"{parent}/{prefix}-{_escaped(name)}{_SLICE}"

    def own(self, path: str) -> str:
        """What the last part was called before it became a slice."""
        last = path.rpartition("/")[2]
        if not self.are_slices:
            return last
        return last.removesuffix(_SLICE).rpartition("-")[2].replace("_", "-").replace(_ESCAPED, "_")


PLAIN: Final = CgroupNames()


def _escaped(name: str) -> str:
    return name.replace("_", _ESCAPED).replace("-", "_")
