"""The program that makes, checks and keeps the certificates of a node's own server, for `certificate`.

Apart, because it is started for each of them: what the agent loads beside would be more than half of its time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from jettison.apiserver.access.certificates import request_for, self_signed, validity_of
from jettison.apiserver.storage.private_files import read_private, write_private
from jettison.errors import InputError


def _main(words: Sequence[str]) -> bytes:
    if not words:
        return self_signed("jettison-node")
    what, subject, *names = words
    if what == "request":
        return request_for(subject, names)
    file = Path(subject)
    chain_pem = sys.stdin.buffer.read() if what == "keep" else read_private(file)
    if chain_pem is None:
        raise InputError("none is kept")
    begins, ends = validity_of(chain_pem, names)
    if what == "keep":
        write_private(file, chain_pem)
    return b"%d %d\n%s" % (begins, ends, chain_pem)


if __name__ == "__main__":
    try:
        sys.stdout.buffer.write(_main(sys.argv[1:]))
    except InputError as error:
        sys.exit(str(error))
