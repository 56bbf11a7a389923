"""Requests for the certificate of a node's own server: made by the node, and what came of them looked at."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from jettison.apiserver.access.certificates import alternative_name
from jettison.errors import InputError

NODE_GROUP = "system:nodes"


def request_for(user: str, names: Iterable[str]) -> bytes:
    """A new key and a request for it: as a kubelet makes it, for a user `system:node:NAME`, its name and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, NODE_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )
    alternatives = x509.SubjectAlternativeName([alternative_name(each) for each in names])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(alternatives, critical=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def validity_of(chain_pem: bytes, names: Iterable[str], now: datetime | None = None) -> tuple[int, int]:
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
    if (now or datetime.now(UTC)) >= ends:
        raise InputError(f"it has ended at {ends.isoformat()}")
    return round(begins.timestamp()), round(ends.timestamp())
