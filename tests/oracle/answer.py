"""Answers oracle cases: `answer.py KIND` reads JSON lines {"id", "input"} and writes {"id", "out"}.

This is how cases that are not in this repository are run against the engine. It knows nothing but where to look up the
kind; `answers_node.py` and `answers_api.py` translate, and the engine decides.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import answers_api
import answers_node

ANSWERS: dict[str, Callable[[Any], Any]] = {**answers_node.ANSWERS, **answers_api.ANSWERS}


def main(arguments: list[str]) -> int:
    """One kind for all lines of standard input."""
    if len(arguments) != 1 or arguments[0] not in ANSWERS:
        sys.stderr.write(f"usage: answer.py KIND, where KIND is one of {', '.join(sorted(ANSWERS))}\n")
        return 2
    answer = ANSWERS[arguments[0]]
    for line in sys.stdin:
        if line.strip():
            case = json.loads(line)
            sys.stdout.write(json.dumps({"id": case["id"], "out": answer(case["input"])}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
