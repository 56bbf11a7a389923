"""For whoever starts us with standard input, output or error closed, as some supervisors do.

The first file or socket that we open would get that number, and be written to by whoever has something to say.
"""

from __future__ import annotations

import os
import sys


def replace_them() -> None:
    """What is closed is nowhere from now on."""
    while True:
        number = os.open(os.devnull, os.O_RDWR)
        if number > 2:
            os.close(number)
            break
        os.set_inheritable(number, True)
    # The stream of an open number is left alone: it may hold something.
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
