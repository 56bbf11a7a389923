"""How the client authenticates each request, and how it verifies the server."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from jettison.errors import InputError
from jettison.manifests.files.decoding import decode_anything
from jettison.manifests.files.plain_files import plain_text, read_given
from jettison.runtimes.kube.http import basic, read_address
from jettison.runtimes.kube.kubeconfig import Access, Credentials, ExecPlugin

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_LARGEST_TOKEN = 2**20


def trust(access: Access) -> ssl.SSLContext | None:
    """Which certificates to accept. Without an authority of its own, those that the machine trusts; None: plain http.

    Reading those of the machine takes 20 ms and more.
    """
    if not _is_secret(access):
        return None
    with _usable("the certificate authority", "must be certificates in PEM"):
        authority = access.authority_pem.decode("ascii") if access.authority_pem else None
        context = ssl.create_default_context(cadata=authority)
    if access.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    credentials = access.credentials
    if credentials.certificate_pem:
        with _usable("the client certificate", "must be a certificate in PEM"):
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
                cadata=credentials.certificate_pem.decode("ascii")
            )
        with _usable("the client key", "must be that of the client certificate, in PEM and without a password"):
            _present(context, credentials.certificate_pem, credentials.key_pem)
    return context


class RenewedTrust:
    """The same for a client that stays: certificates end, and authorities are exchanged. Their files are read again
    when they have changed, as client-go does.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._seen = self._look()

    def __call__(self) -> ssl.SSLContext | None:
        """What to accept and to show from now on; None where that is as before, or cannot be used (yet)."""
        seen = self._look()
        if seen == self._seen or not _is_secret(self._access):
            return None
        try:
            # A certificate is written before its key, or after it: then the next look finds both.
            access = self._access.read_again()
            made = trust(access)
        except InputError:
            return None
        if self._access.authority_pem and not access.authority_pem:
            # Half written. Without an authority those of the machine would be trusted.
            return None
        self._seen = seen
        return made

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._access.files]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What differs when a file was written or exchanged; None for a pipe, which can be read only once."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


@contextmanager
def _usable(what: str, rule: str) -> Iterator[None]:
    """OpenSSL says of most mistakes `PEM lib`."""
    try:
        yield
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"kubeconfig: {what} cannot be used: it {rule}") from error


def _is_secret(access: Access) -> bool:
    return read_address(access.server).scheme == "https"


def _present(context: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """OpenSSL takes client certificates from files only; these exist in memory and nowhere else. Unless it is given a
    password, be it wrong, it asks for one on the terminal.
    """
    with memory_file(certificate_pem) as certificate, memory_file(key_pem) as key:
        context.load_cert_chain(certificate, key, password="")


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Its path, for as long as it is needed."""
    descriptor = os.memfd_create("jettison")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class Authentication(Protocol):
    """What a request says of the client's identity."""

    async def header(self) -> str:
        """The value of `Authorization`."""

    async def renewed(self) -> str:
        """The same after the server did not take it; empty where there is nothing newer."""


def authentication(access: Access) -> Authentication | None:
    """None where a certificate says it all, and over plain http: a secret must not travel readable."""
    credentials = access.credentials
    if not _is_secret(access):
        return None
    if credentials.token_file is not None or credentials.token:
        return _Bearer(credentials)
    if credentials.plugin is not None:
        return _Plugin(credentials.plugin, access)
    if credentials.username:
        return _Password(credentials)
    return None


class _Password:
    def __init__(self, credentials: Credentials) -> None:
        self._header = basic(f"{credentials.username}:{credentials.password}")

    async def header(self) -> str:
        return self._header

    async def renewed(self) -> str:
        return ""


class _Bearer:
    """A token. One from a file is read again when the server no longer takes it: service accounts' are renewed."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._token = ""

    async def header(self) -> str:
        self._token = self._token or self._read()
        return f"Bearer {self._token}"

    async def renewed(self) -> str:
        before, self._token = self._token, self._read()
        return f"Bearer {self._token}" if self._token != before else ""

    def _read(self) -> str:
        path = self._credentials.token_file
        if path is None:
            return self._credentials.token
        return plain_text(read_given(path, _LARGEST_TOKEN), f"token file `{path}`").strip()


class _Plugin:
    """A program that prints a token, run at the first request and whenever the server no longer takes the last."""

    def __init__(self, plugin: ExecPlugin, access: Access) -> None:
        if plugin.api_version not in _VERSIONS:
            raise InputError(f"kubeconfig: exec has apiVersion `{plugin.api_version}`, allowed: {', '.join(_VERSIONS)}")
        self._plugin = plugin
        self._access = access
        self._header = ""
        # The last request was the first with its token: a server that does not take it takes no other one either.
        self._is_fresh = False

    async def header(self) -> str:
        self._is_fresh = not self._header
        if not self._header:
            self._header = f"Bearer {await self._run()}"
        return self._header

    async def renewed(self) -> str:
        if self._is_fresh:
            return ""
        self._header = f"Bearer {await self._run()}"
        return self._header

    async def _run(self) -> str:
        plugin = self._plugin
        environment = os.environ | {each.name: each.value for each in plugin.env or ()}
        environment["KUBERNETES_EXEC_INFO"] = json.dumps(self._request())
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command, *plugin.args or (), env=environment, stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
        except OSError as error:
            raise InputError(f"kubeconfig: cannot run `{plugin.command}`: {error.strerror}") from error
        except ValueError as error:  # a NUL, or `=` in the name of a variable
            raise InputError(f"kubeconfig: cannot run `{plugin.command}`: {error}") from error
        if process.returncode:
            raise InputError(f"kubeconfig: `{plugin.command}` failed with exit code {process.returncode}")
        try:
            found = decode_anything(output, plugin.command)["status"]["token"]
        except (InputError, KeyError, TypeError) as error:
            raise InputError(f"kubeconfig: `{plugin.command}` printed no ExecCredential with a token") from error
        if not isinstance(found, str):
            raise InputError(f"kubeconfig: `{plugin.command}` printed a token that is no text")
        return found

    def _request(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": False}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = {"server": self._access.server}
        return {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
