"""kubectl: Debian's, which is five years old and so the hardest to please, and whatever is installed beside it."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live import debian

_PACKAGE = "kubernetes-client"
_SECONDS = 60


@functools.cache
def debian_kubectl() -> Path:
    """Unpacked into a cache rather than installed: other packages own /usr/bin/kubectl on some machines."""
    return debian.programs(_PACKAGE, {_PACKAGE: ("usr/bin/kubectl",)}) / "kubectl"


def installed_kubectl() -> Path | None:
    """The one on the PATH, if there is one."""
    found = shutil.which("kubectl")
    return Path(found) if found else None


@dataclass(frozen=True, slots=True)
class Kubectl:
    """A kubectl for one server and one user; `home` keeps its caches away from all others."""

    program: Path
    kubeconfig: Path
    home: Path
    namespace: str = "default"

    def run(self, *arguments: str, stdin: str = "", editor: str = "") -> subprocess.CompletedProcess[str]:
        """Whatever comes of it."""
        with self.start(*arguments, editor=editor) as process:
            try:
                out, complaint = process.communicate(stdin, timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, complaint)

    def start(self, *arguments: str, editor: str = "") -> subprocess.Popen[str]:
        """Beside the test, which waits for the end itself."""
        command = (str(self.program), "--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace, *arguments)
        # It lives for some milliseconds and the suite starts hundreds: collecting garbage is a tenth of its time.
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "KUBE_EDITOR": editor, "GOGC": "off"}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    @contextmanager
    def follow(self, pod: str) -> Iterator[subprocess.Popen[str]]:
        """`logs -f`, which ends with the body at the latest."""
        with self.start("logs", "-f", pod) as process:
            try:
                yield process
            finally:
                process.kill()

    def __call__(self, *arguments: str, stdin: str = "", editor: str = "") -> str:
        """What it prints; a failure is the test's failure, with kubectl's own words."""
        done = self.run(*arguments, stdin=stdin, editor=editor)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def fails(self, *arguments: str, stdin: str = "") -> str:
        """The complaint of a command that must not succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)}: {done.stdout}"
        return done.stderr

    @property
    def minor(self) -> int:
        """The minor version: 20 for Debian's."""
        told = self.run("version", "--client").stdout
        found = re.search(r'v1\.(\d+)\.|Minor:"(\d+)', told)
        assert found is not None, told
        return int(found[1] or found[2])
