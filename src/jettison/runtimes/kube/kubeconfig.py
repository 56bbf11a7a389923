"""Kubeconfig files: the server, its authority, our credentials. Found, merged and overridden as kubectl does it.

`KUBECONFIG` may name several files: of equal names the first file's entry counts, and paths inside a file are relative
to it. Without any file, a pod's service account is taken.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec import field as wire_field

from jettison.errors import InputError, kind_in_words
from jettison.manifests.files.decoding import convert
from jettison.manifests.files.plain_files import plain_text, read_given
from jettison.manifests.files.plain_yaml import load_documents
from jettison.values import frozen

_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
# Those of clouds with hundreds of clusters have 1 MiB; certificates are as long as their authors like.
_LARGEST: Final = 8 * 2**20


class _Variable(Struct):
    name: str
    value: str = ""


class ExecPlugin(Struct, rename="camel", frozen=True):
    """A program that prints credentials."""

    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    provide_cluster_info: bool = False


class _Cluster(Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _User(Struct, rename="kebab"):
    token: str | None = None
    token_file: str | None = wire_field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    username: str | None = None
    password: str | None = None
    exec: ExecPlugin | None = None
    auth_provider: dict[str, Any] | None = None


class _Context(Struct):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


@frozen
class Overrides:
    """What the command line says instead of, or on top of, the files. Empty means: as the files have it."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    server: str = ""
    token: str = ""
    certificate_authority: str = ""
    tls_server_name: str = ""
    is_insecure: bool = False


@frozen
class Credentials:
    """How we authenticate, in at most one way. Secrets stay out of `repr`, and so out of logs and tracebacks."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate_pem: bytes = field(default=b"", repr=False)
    # Where it was read; None where the kubeconfig holds it.
    certificate_file: Path | None = None
    key_pem: bytes = field(default=b"", repr=False)
    key_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    plugin: ExecPlugin | None = None


@frozen
class Access:
    """Everything needed to talk to one API."""

    server: str
    namespace: str = "default"
    authority_pem: bytes | None = field(default=None, repr=False)
    authority_file: Path | None = None
    is_insecure: bool = False
    tls_server_name: str = ""
    proxy: str = ""
    credentials: Credentials = Credentials()

    @property
    def files(self) -> tuple[Path, ...]:
        """What its certificates and their key were read from."""
        found = (self.authority_file, self.credentials.certificate_file, self.credentials.key_file)
        return tuple(each for each in found if each is not None)

    def read_again(self) -> Access:
        """With what these files hold now. Raises InputError."""
        credentials = self.credentials
        return replace(
            self,
            authority_pem=_now(self.authority_file, self.authority_pem),
            credentials=replace(
                credentials,
                certificate_pem=_now(credentials.certificate_file, credentials.certificate_pem),
                key_pem=_now(credentials.key_file, credentials.key_pem),
            ),
        )


def load_access(overrides: Overrides, environment: Mapping[str, str] = os.environ) -> Access:
    """Read the files that `--kubeconfig`, `KUBECONFIG` or the home directory name, and apply the overrides."""
    merged = _Merged()
    for path in _paths(overrides, environment):
        merged.add(path)
    if merged.is_empty and not overrides.server and (not merged.paths or environment.get(_SERVICE_HOST)):
        return _in_cluster(environment)
    # Without a context, what the command line names may be enough.
    context = merged.context(overrides.context, is_needed=not (overrides.server or overrides.cluster))
    cluster_name, user_name = overrides.cluster or context.cluster, overrides.user or context.user
    cluster, directory = merged.entry("cluster", cluster_name, _Cluster) if cluster_name else (_Cluster(), Path())
    user, user_directory = merged.entry("user", user_name, _User) if user_name else (_User(), Path())
    access = _cluster_access(cluster, directory, overrides)
    credentials = Credentials(token=overrides.token) if overrides.token else _credentials(user, user_directory)
    return replace(access, namespace=overrides.namespace or context.namespace or "default", credentials=credentials)


class _Merged:
    """Several files as one. Entries stay as they were written until they are needed."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], tuple[object, Path]] = {}
        self._current = ""
        self.paths: list[Path] = []

    @property
    def is_empty(self) -> bool:
        return not self._entries

    def add(self, path: Path) -> None:
        document = _read(path)
        self.paths.append(path)
        current = document.get("current-context") or ""
        if not isinstance(current, str):
            raise InputError(f"kubeconfig `{path}`: current-context is {kind_in_words(current)}, expected a name")
        self._current = self._current or current
        for kind in ("cluster", "user", "context"):
            entries = document.get(f"{kind}s") or []
            if not isinstance(entries, list):
                raise InputError(f"kubeconfig `{path}`: {kind}s is {kind_in_words(entries)}, expected a list")
            for entry in entries:
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise InputError(f"kubeconfig `{path}`: an entry of {kind}s has no name")
                self._entries.setdefault((kind, entry["name"]), (entry.get(kind) or {}, path))

    def context(self, name: str, *, is_needed: bool) -> _Context:
        """The one asked for, else the current one; a file without a current context says nothing about it."""
        wanted = name or self._current
        if not wanted and is_needed:
            files = ", ".join(f"`{path}`" for path in self.paths)
            known = self._known("context")
            raise InputError(f"kubeconfig {files} has no current-context: name one with --context, it has {known}")
        return self.entry("context", wanted, _Context)[0] if wanted else _Context()

    def entry(self, kind: str, name: str, shape: type[Any]) -> tuple[Any, Path]:
        """The entry, and the directory that its paths are relative to."""
        found = self._entries.get((kind, name))
        if found is None:
            raise InputError(f"kubeconfig has no {kind} `{name}`, it has {self._known(kind)}")
        document, path = found
        return convert(document, shape, f"kubeconfig `{path}`: {kind} `{name}`"), path.parent

    def _known(self, kind: str) -> str:
        return ", ".join(sorted(each for of, each in self._entries if of == kind)) or "none"


def _paths(overrides: Overrides, environment: Mapping[str, str]) -> list[Path]:
    """An explicit file must exist; of the others those that do not are left out."""
    if overrides.kubeconfig:
        return [Path(overrides.kubeconfig).expanduser()]
    if listed := environment.get("KUBECONFIG"):
        return [Path(each) for each in listed.split(os.pathsep) if each and _exists(Path(each))]
    usual = Path(environment.get("HOME", "")) / ".kube" / "config"
    return [usual] if usual.is_absolute() and _exists(usual) else []


def _exists(path: Path) -> bool:
    """What is there and cannot be looked at is there: reading it will say why not."""
    try:
        return path.exists()
    except OSError:
        return True


def _read(path: Path) -> dict[str, Any]:
    name = f"kubeconfig `{path}`"
    documents = load_documents(plain_text(read_given(path, _LARGEST), name), name)
    # Of several the first counts, as for kubectl.
    document = documents[0] if documents else None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InputError(f"kubeconfig `{path}` is not an object with clusters, users and contexts")
    return document


def _cluster_access(cluster: _Cluster, directory: Path, overrides: Overrides) -> Access:
    if overrides.is_insecure or overrides.certificate_authority:
        # Either flag replaces whatever the file says about trust.
        is_insecure, data, path = overrides.is_insecure, None, _path(None, overrides.certificate_authority, Path())
    else:
        is_insecure, data = cluster.insecure_skip_tls_verify, cluster.certificate_authority_data
        path = _path(data, cluster.certificate_authority, directory)
    authority = _pem("certificate-authority-data", data, path)
    if is_insecure and authority is not None:
        raise InputError("specifying a root certificates file with the insecure flag is not allowed")
    server = overrides.server or cluster.server
    if not server:
        raise InputError("no server: name one with --server, or a kubeconfig with --kubeconfig")
    if "://" not in server:
        server = f"{'https' if is_insecure or authority else 'http'}://{server}"
    return Access(
        server=server.rstrip("/"),
        authority_pem=authority,
        authority_file=path,
        is_insecure=is_insecure,
        tls_server_name=overrides.tls_server_name or cluster.tls_server_name or "",
        proxy=cluster.proxy_url or "",
    )


def _credentials(user: _User, directory: Path) -> Credentials:
    if user.auth_provider is not None:
        raise InputError("kubeconfig: auth-provider is not supported, Kubernetes itself dropped it; use exec")
    certificate_file = _path(user.client_certificate_data, user.client_certificate, directory)
    key_file = _path(user.client_key_data, user.client_key, directory)
    return Credentials(
        token=user.token or "",
        token_file=directory / user.token_file if user.token_file else None,
        certificate_pem=_pem("client-certificate-data", user.client_certificate_data, certificate_file) or b"",
        certificate_file=certificate_file,
        key_pem=_pem("client-key-data", user.client_key_data, key_file) or b"",
        key_file=key_file,
        username=user.username or "",
        password=user.password or "",
        plugin=user.exec,
    )


def _path(data: str | None, path: str | None, directory: Path) -> Path | None:
    """The file that counts: what the kubeconfig itself holds comes first."""
    return directory / path if path and not data else None


def _pem(key: str, data: str | None, path: Path | None) -> bytes | None:
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(f"kubeconfig: {key} is not base64") from error
    return _now(path, None)


T = TypeVar("T", bytes, bytes | None)


def _now(path: Path | None, before: T) -> bytes | T:
    return before if path is None else read_given(path, _LARGEST)


def _in_cluster(environment: Mapping[str, str]) -> Access:
    host, port = environment.get(_SERVICE_HOST), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise InputError("no kubeconfig found: name one with --kubeconfig or KUBECONFIG, or a server with --server")
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=plain_text(read_given(_SERVICE_ACCOUNT / "namespace", _LARGEST), "namespace").strip() or "default",
        authority_pem=read_given(_SERVICE_ACCOUNT / "ca.crt", _LARGEST),
        authority_file=_SERVICE_ACCOUNT / "ca.crt",
        credentials=Credentials(token_file=_SERVICE_ACCOUNT / "token"),
    )
