"""Kubernetes objects (JSON) to engine values and back: pods, `/stats/summary`, KubeletConfiguration files.

Bytes are decoded by msgspec into structs that name only the fields eviction reads, and the structs into engine values.
Fields that no rule reads are skipped, so an object of a newer Kubernetes is as good as any. Pods of an API are not
converted: `pod_view` reads a field of the stored document when a rule asks for it.
A document that is not what it should be becomes a `ManifestError` that says where. No rule of eviction lives here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jettison.manifests.node_files import read_pods, read_policy, read_snapshot, read_summary

__all__ = [
    "read_pods",
    "read_policy",
    "read_snapshot",
    "read_summary",
]

_MODULES = {
    "read_pods": "node_files",
    "read_policy": "node_files",
    "read_snapshot": "node_files",
    "read_summary": "node_files",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A public name, from its module: the YAML parser is loaded for those that need it only."""
        if name not in _MODULES:
            raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
