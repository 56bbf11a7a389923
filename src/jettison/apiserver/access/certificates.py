"""A certificate authority of our own, and what it signs: the server's certificate, and the one it shows to nodes.
Requests of nodes to the authority of a cluster, and what came of them looked at.

TLS is needed on loopback, too: client-go, and so kubectl, silently drops tokens when the server's URL is plain http.
The authority stays in the state directory, so that a kubeconfig that was handed out keeps working over restarts.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jettison.apiserver.access.identity import AUTHORITY, CHAIN, CLIENT_NAME, LOOPBACK_NAMES, ServerIdentity
from jettison.apiserver.storage.private_files import make_private_folder, read_private, write_private
from jettison.clock import SYSTEM_CLOCK, Clock
from jettison.errors import InputError
from jettison.values import frozen

_LIFETIME = timedelta(days=3650)
# All are renewed at a start only, and a server may run for months.
_RENEW_BEFORE = timedelta(days=365)
_NODE_GROUP = "system:nodes"
# Clocks of virtual machines lag behind; a certificate must not be from the future for them.
_BACKDATE = timedelta(hours=1)


@frozen
class _Signed:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def ensure_identity(folder: Path, names: Iterable[str] = LOOPBACK_NAMES, clock: Clock = SYSTEM_CLOCK) -> ServerIdentity:
    """Read what is there; make what is missing, about to expire, or does not hold all of `names`.

    `ca.crt` is a copy for people with curl; the others hold key and certificate together, because two files can be
    torn apart by a crash between their writes.
    """
    make_private_folder(folder)
    wanted = frozenset(names)
    now = _now(clock)
    authority = _load(folder / "ca.pem")
    if authority is not None and not _is_signed(authority.certificate, authority.certificate):
        raise InputError(f"`{folder / 'ca.pem'}` is damaged, remove it to have a new one: its signature is wrong")
    if authority is None or _expires_soon(authority.certificate, now):
        authority = _sign_authority(now)
        _save(authority, folder / "ca.pem")
    authority_pem = authority.certificate.public_bytes(serialization.Encoding.PEM)
    write_private(folder / AUTHORITY, authority_pem)
    chain = folder / CHAIN
    server = _load(chain)
    if server is None or not _serves(server.certificate, authority, now, wanted):
        _save(_sign(authority, "jettison-apiserver", ExtendedKeyUsageOID.SERVER_AUTH, now, wanted), chain)
    identity = ServerIdentity(authority_pem, chain)
    client = _load(identity.client)
    if client is None or not _serves(client.certificate, authority, now):
        _save(_sign(authority, CLIENT_NAME, ExtendedKeyUsageOID.CLIENT_AUTH, now), identity.client)
    return identity


def self_signed(name: str, clock: Clock = SYSTEM_CLOCK) -> bytes:
    """Key and certificate of a server whose clients know this very certificate, so that no authority has to sign it."""
    return _pem(_sign(None, name, ExtendedKeyUsageOID.SERVER_AUTH, _now(clock)))


def request_for(user: str, names: Iterable[str]) -> bytes:
    """A new key and a request for it: as a kubelet makes it, for a user `system:node:NAME`, its name and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _NODE_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )
    alternatives = x509.SubjectAlternativeName([alternative_name(each) for each in names])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(alternatives, critical=False)
    return _private_pem(key) + request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def validity_of(chain_pem: bytes, names: Iterable[str], clock: Clock = SYSTEM_CLOCK) -> tuple[int, int]:
    """From when to when a key with its certificate serves under these names, in seconds. Raises InputError where it
    does not.
    """
    try:
        key = serialization.load_pem_private_key(chain_pem, password=None)
        certificate = x509.load_pem_x509_certificate(chain_pem)
        certified = certificate.public_key()
        known = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
        raise InputError(f"it cannot be used: {error}") from error
    if key.public_key() != certified:
        raise InputError("it is not for the key that was asked with")
    missing = sorted(set(names) - {str(each.value) for each in known})
    if missing:
        raise InputError(f"it is not for {', '.join(missing)}")
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if _now(clock) >= ends:
        raise InputError(f"it has ended at {ends.isoformat()}")
    return round(begins.timestamp()), round(ends.timestamp())


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now_ns() // 10**9, UTC)


def _expires_soon(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc - now < _RENEW_BEFORE


def _serves(
    certificate: x509.Certificate, authority: _Signed, now: datetime, wanted: frozenset[str] = frozenset()
) -> bool:
    if not _is_signed(certificate, authority.certificate) or _expires_soon(certificate, now):
        return False
    if not wanted:
        return True
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return wanted <= {str(each.value) for each in alternatives}


def _is_signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether no bit of it is another than when it was signed: what is damaged may still be a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _sign_authority(now: datetime) -> _Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial number in the name tells a new authority from an old one of which clients may still hold a copy.
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"jettison-ca-{serial:x}"[:64])])
    builder = (
        _validity(x509.CertificateBuilder(), now)
        .subject_name(name)
        .issuer_name(name)
        .serial_number(serial)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _Signed(key, builder.sign(key, hashes.SHA256()))


def _sign(
    authority: _Signed | None, name: str, usage: x509.ObjectIdentifier, now: datetime, names: Iterable[str] = ()
) -> _Signed:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer_key = key if authority is None else authority.key
    builder = (
        _validity(x509.CertificateBuilder(), now)
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.certificate.subject)
        .serial_number(x509.random_serial_number())
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        # OpenSSL's strict mode, the default from Python 3.13 on, refuses a chain without both key identifiers.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    alternatives = [alternative_name(each) for each in sorted(names)]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return _Signed(key, builder.sign(issuer_key, hashes.SHA256()))


def _validity(builder: x509.CertificateBuilder, now: datetime) -> x509.CertificateBuilder:
    return builder.not_valid_before(now - _BACKDATE).not_valid_after(now + _LIFETIME)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def alternative_name(name: str) -> x509.GeneralName:
    """An address, or else a name of DNS."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load(path: Path) -> _Signed | None:
    pem = read_private(path)
    if pem is None:
        return None
    try:
        key = serialization.load_pem_private_key(pem, password=None)
        certificate = x509.load_pem_x509_certificate(pem)
        certified = certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(f"`{path}` is damaged, remove it to have a new one: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certified:
        raise InputError(f"`{path}` holds a key that is not its certificate's, remove it to have a new one")
    return _Signed(key, certificate)


def _save(signed: _Signed, path: Path) -> None:
    write_private(path, _pem(signed))


def _pem(signed: _Signed) -> bytes:
    return _private_pem(signed.key) + signed.certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


if __name__ == "__main__":
    try:
        ensure_identity(Path(sys.argv[1]), sys.argv[2:])
    except InputError as complaint:
        sys.exit(str(complaint))
