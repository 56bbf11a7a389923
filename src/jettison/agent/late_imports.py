"""Nothing is imported once the agent is ready: a starving node is no time to load code.

An import reads files, compiles and allocates. Under memory pressure each of these can take seconds, and on a full disk
or without descriptors it fails. So whatever is missing is loaded before, and what was forgotten is found out here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Self

from jettison.errors import JettisonError


class LateImports:
    """While it is in place every import of something new but `expected` is reported; with `is_strict` it fails."""

    def __init__(
        self, report: Callable[[str], None], *, expected: Container[str] = (), is_strict: bool = False
    ) -> None:
        self.names: list[str] = []
        self._report = report
        self._expected = expected
        self._is_strict = is_strict

    def __enter__(self) -> Self:
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  the import system's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Asked by Python for every module that is not loaded yet; we never know where it is."""
        if fullname in self._expected:
            return None
        if self._is_strict:
            raise JettisonError(f"`{fullname}` is imported though the agent is ready")
        if fullname not in self.names:  # to report may import something itself
            self.names.append(fullname)
            self._report(fullname)
        return None
