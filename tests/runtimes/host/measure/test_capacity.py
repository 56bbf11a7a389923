from __future__ import annotations

import os
from pathlib import Path

import pytest

from jettison.engine.config.allocatable import HugePages
from jettison.engine.numbers.quantity import binary
from jettison.errors import InputError
from jettison.runtimes.host.measure.capacity import measure_capacity
from jettison.runtimes.linux.proc import Machine
from tests.builders import MI
from tests.runtimes.host.nodes import settings


def test_a_node_that_is_the_machine_has_what_the_machine_has(tmp_path: Path) -> None:
    pages = tmp_path / "hugepages"
    for size, count in ((2048, 4), (1048576, 0)):
        (pages / f"hugepages-{size}kB").mkdir(parents=True)
        (pages / f"hugepages-{size}kB/nr_hugepages").write_text(f"{count}\n")
    host = Machine()
    found = measure_capacity(settings(tmp_path, node_memory=None), host, pages)
    disk = os.statvfs(tmp_path)
    assert found.memory == host.memory().total
    assert found.pids == host.most_tasks()
    assert found.cores == os.cpu_count()
    assert found.ephemeral_storage == binary(disk.f_frsize * disk.f_blocks)
    assert found.huge_pages == (HugePages(1048576, 0), HugePages(2048, 4))
    host.close()


def test_a_smaller_node_has_what_was_cut_out_and_no_huge_pages(tmp_path: Path) -> None:
    """It knows their sizes, as every node does."""
    pages = tmp_path / "hugepages"
    (pages / "hugepages-2048kB").mkdir(parents=True)
    (pages / "hugepages-2048kB/nr_hugepages").write_text("4\n")
    host = Machine()
    found = measure_capacity(settings(tmp_path, node_memory=64 * MI, node_pids=50), host, pages)
    assert (found.memory, found.pids, found.huge_pages) == (64 * MI, 50, (HugePages(2048, 0),))
    host.close()


def test_a_node_cannot_have_more_process_ids_than_the_kernel_gives(tmp_path: Path) -> None:
    host = Machine()
    most = host.most_tasks()
    assert most is not None
    assert measure_capacity(settings(tmp_path, node_pids=most), host).pids == most
    with pytest.raises(InputError, match=f"invalid node pids `{most + 1}`: this machine has at most {most}"):
        measure_capacity(settings(tmp_path, node_pids=most + 1), host)
    host.close()
