"""The server's certificate: believed by a strict client, kept over restarts, renewed when it no longer fits."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from jettison.apiserver.access.certificates import ensure_identity, validity_of
from jettison.apiserver.access.identity import LOOPBACK_NAMES, IdentityMaker, ServerIdentity
from jettison.clock import SystemClock
from jettison.errors import InputError


def handshake(identity: ServerIdentity, name: str) -> None:
    """A client that trusts the authority only, in the strictest mode there is, connects to `name`."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(identity.chain)
    client = ssl.create_default_context(cadata=identity.authority_pem.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    near, far = socket.socketpair()

    def answer() -> None:
        try:
            server.wrap_socket(far, server_side=True).close()
        except (ssl.SSLError, OSError):
            far.close()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        client.wrap_socket(near, server_hostname=name).close()
    finally:
        near.close()
        thread.join()


@pytest.mark.parametrize("name", [*LOOPBACK_NAMES, "box.example"])
def test_a_strict_client_believes_every_name(tmp_path: Path, name: str) -> None:
    handshake(ensure_identity(tmp_path / "pki", [*LOOPBACK_NAMES, "box.example"]), name)


def test_another_name_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(ensure_identity(tmp_path), "elsewhere.example")


def test_another_authority_is_not_believed(tmp_path: Path) -> None:
    one, other = ensure_identity(tmp_path / "a"), ensure_identity(tmp_path / "b")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(ServerIdentity(other.authority_pem, one.chain), "localhost")


def test_a_restart_changes_nothing(tmp_path: Path) -> None:
    first = ensure_identity(tmp_path)
    before = first.chain.read_bytes()
    assert ensure_identity(tmp_path) == first
    assert first.chain.read_bytes() == before


def test_a_new_name_renews_the_certificate_but_not_the_authority(tmp_path: Path) -> None:
    first = ensure_identity(tmp_path)
    second = ensure_identity(tmp_path, [*LOOPBACK_NAMES, "10.1.2.3"])
    assert second.authority_pem == first.authority_pem
    handshake(second, "10.1.2.3")


class NineYearsAgo(SystemClock):
    """Certificates of then last 3,650 days, of which 364 are left."""

    def now_ns(self) -> int:
        return super().now_ns() - 3286 * 24 * 3600 * 10**9


def test_what_expires_within_a_year_is_renewed(tmp_path: Path) -> None:
    short = ensure_identity(tmp_path, clock=NineYearsAgo())
    renewed = ensure_identity(tmp_path)
    assert renewed.authority_pem != short.authority_pem
    handshake(renewed, "localhost")
    authority = x509.load_pem_x509_certificate(renewed.authority_pem)
    assert authority.not_valid_after_utc > datetime.now(UTC) + timedelta(days=3000)


class TenYearsOn(SystemClock):
    def now_ns(self) -> int:
        return super().now_ns() + 3651 * 24 * 3600 * 10**9


def test_a_certificate_that_has_ended_does_not_serve(tmp_path: Path) -> None:
    chain_pem = ensure_identity(tmp_path).chain.read_bytes()
    begins, ends = validity_of(chain_pem, LOOPBACK_NAMES)
    assert begins < SystemClock().now_ns() // 10**9 < ends
    with pytest.raises(InputError, match="it has ended at"):
        validity_of(chain_pem, LOOPBACK_NAMES, TenYearsOn())
    with pytest.raises(InputError, match=r"it is not for 10\.1\.2\.3"):
        validity_of(chain_pem, ["10.1.2.3"])


def test_keys_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    ensure_identity(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("content", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    ensure_identity(tmp_path)
    (tmp_path / "server.pem").write_text(content)
    with pytest.raises(InputError, match=r"server\.pem.*remove it"):
        ensure_identity(tmp_path)


@pytest.mark.parametrize("name", ["ca.pem", "server.pem"])
def test_a_certificate_with_another_letter_is_renewed_or_named(tmp_path: Path, name: str) -> None:
    """It may still be a certificate, and one that no client believes."""
    folder, seen = tmp_path / "pki", set()
    ensure_identity(folder)
    whole = (folder / name).read_text()
    beginning = whole.index("CERTIFICATE-----") + 17
    places = [place for place in range(beginning, len(whole) - 30, 23) if whole[place].isalnum()]
    for place in places:
        (folder / name).write_text(f"{whole[:place]}{'B' if whole[place] == 'A' else 'A'}{whole[place + 1 :]}")
        try:
            handshake(ensure_identity(folder), "localhost")
            seen.add("renewed")
        except InputError as error:
            seen.add("named" if f"`{folder / name}`" in str(error) else str(error))
        (folder / name).write_text(whole)
    assert len(places) > 20
    assert seen == ({"named"} if name == "ca.pem" else {"named", "renewed"})


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    ensure_identity(tmp_path / "a")
    ensure_identity(tmp_path / "b")
    key = (tmp_path / "a" / "server.pem").read_bytes().partition(b"-----BEGIN CERT")[0]
    foreign = b"-----BEGIN CERT" + (tmp_path / "b" / "server.pem").read_bytes().partition(b"-----BEGIN CERT")[2]
    (tmp_path / "a" / "server.pem").write_bytes(key + foreign)
    with pytest.raises(InputError, match="not its certificate's"):
        ensure_identity(tmp_path / "a")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot create the folder"):
        ensure_identity(tmp_path / "file" / "pki")


def test_a_process_of_its_own_makes_the_same(tmp_path: Path) -> None:
    made = IdentityMaker(tmp_path / "pki", [*LOOPBACK_NAMES, "box.example"]).wait()
    handshake(made, "box.example")
    assert ensure_identity(tmp_path / "pki", ["box.example"]) == made


def test_what_that_process_complains_about_is_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"no certificate")
    with pytest.raises(InputError, match=r"ca\.pem` is damaged, remove it to have a new one"):
        IdentityMaker(tmp_path, LOOPBACK_NAMES).wait()
