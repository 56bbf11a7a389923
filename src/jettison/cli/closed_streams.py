"""Standard input, output or error may be closed at the start, as with some supervisors.

The first file or socket that the program opens would get the number of a closed stream, and receive what is printed.
"""

from __future__ import annotations

import os
import sys


def replace_them() -> None:
    """Open /dev/null in place of each closed stream."""
    while True:
        number = os.open(os.devnull, os.O_RDWR)
        if number > 2:
            os.close(number)
            break
        os.set_inheritable(number, True)
    # The stream of an open number is left alone: its buffer may hold something.
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
