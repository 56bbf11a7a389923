"""What a node's own server shows is made by a program, which is not started without need."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from jettison.errors import ServeError
from jettison.node.kubelet.certificate import IssuedCertificates


def test_a_node_that_keeps_no_certificate_starts_no_process_to_read_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new node starts so, and the program takes a tenth of a second of a processor."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    certificates = IssuedCertificates(tmp_path / "serving.pem", ["n1"])
    with pytest.raises(ServeError, match="no certificate is kept in"):
        asyncio.run(certificates.kept())
    (tmp_path / "serving.pem").touch()
    with pytest.raises(FileNotFoundError):
        asyncio.run(certificates.kept())
