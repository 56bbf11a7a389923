"""Jettison keeps a node alive when memory, disk, inodes or process ids run out.

The engine decides, and everything else serves it; see `docs/architecture.md` for the layers.
"""

__version__ = "0.1.0"
