"""A kubeconfig that a client library reads and other users of the machine cannot; live tests use it with three more."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import yaml
from lightkube.config.kubeconfig import KubeConfig

from jettison.apiserver.access.kubeconfig import write_kubeconfig


def test_clients_read_it_and_others_cannot(tmp_path: Path) -> None:
    path = tmp_path / "ann.kubeconfig"
    write_kubeconfig(path, "https://127.0.0.1:6443", b"PEM", "ann", "t" * 43)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = KubeConfig.from_file(path).get()
    assert config is not None
    assert config.user is not None
    assert (config.cluster.server, config.user.token) == ("https://127.0.0.1:6443", "t" * 43)
    cluster = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"


def test_a_second_one_replaces_the_first(tmp_path: Path) -> None:
    for token in ("a" * 43, "b" * 43):
        write_kubeconfig(tmp_path / "x", "https://127.0.0.1:1", b"", "ann", token)
    assert "b" * 43 in (tmp_path / "x").read_text()
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
