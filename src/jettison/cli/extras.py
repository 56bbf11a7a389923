"""Packages that only some commands need, and how to install them.

No module that a command imports for its options imports one of these at its top: help works without any of them. A
command that needs one calls `require` first; `explain` answers an import that fails later.
"""

from __future__ import annotations

from importlib.util import find_spec

from jettison.errors import JettisonError

EXTRAS = {
    "cri": ("h2",),
    "dask": ("distributed",),
    "kube": ("httptools",),
    "parquet": ("pyarrow",),
    "plots": ("matplotlib",),
    "server": ("cryptography", "httptools", "uvicorn"),
}
"""As `pyproject.toml` has them."""


def require(what: str, *extras: str) -> None:
    """Raise with the line to type where a package of these extras is not installed; `what` is the command."""
    missing = {extra: [name for name in EXTRAS[extra] if not _is_there(name)] for extra in extras}
    lacking = [extra for extra, names in missing.items() if names]
    if lacking:
        packages = dict.fromkeys(name for names in missing.values() for name in names)
        raise JettisonError(_remedy(f"`{what}` needs {', '.join(packages)}", lacking))


def explain(error: ModuleNotFoundError) -> str | None:
    """The message for an import that failed; None where it is none of these packages, which is a defect of ours."""
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, names in EXTRAS.items() if package in names), None)
    return None if extra is None else _remedy(f"this needs {package}", [extra])


def _remedy(said: str, extras: list[str]) -> str:
    are = "is" if said.count(",") == 0 else "are"
    return f"{said}, which {are} not installed: pip install 'jettison[{','.join(extras)}]'"


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False
