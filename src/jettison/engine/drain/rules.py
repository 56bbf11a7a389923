"""What the operator allows a drain to do. Apart from the filters, which a command that only cordons must not load."""

from __future__ import annotations

from jettison.values import frozen


@frozen
class DrainRules:
    """What the operator allowed. `skip_wait_seconds` above 0 leaves out pods that are that much overdue."""

    force: bool = False
    ignores_daemon_sets: bool = False
    deletes_empty_dirs: bool = False
    skip_wait_seconds: int = 0
