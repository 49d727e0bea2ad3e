"""Keys that sign packages: one of the user's from a PKCS#12 file, and a debug key that is made once and kept."""

from __future__ import annotations

import datetime as dt
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import ApkError, MissingDependencyError
from edgemem.system.caches import cache_folder
from edgemem.system.regular_files import read_bounded

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

__all__ = ["DEBUG_PASSWORD", "SigningKey", "debug_key", "load_key", "require_cryptography"]

DEBUG_PASSWORD: Final = "android"  # noqa: S105 - as Android's own tools have it
_DEBUG_NAME: Final = b"androiddebugkey"
_DEBUG_DAYS: Final = 10_000
_MOST_BYTES: Final = 1 << 20  # of a PKCS#12 file
_SMALLEST_RSA: Final = 1024  # bits


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key and its X.509 certificates in DER, the key's own first."""

    private: RSAPrivateKey | EllipticCurvePrivateKey
    certificates: tuple[bytes, ...]


def require_cryptography() -> None:
    """Raises MissingDependencyError if the package `cryptography` is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise MissingDependencyError("cryptography", extra="android", purpose="signing and checking packages") from None


def load_key(path: Path, password: str) -> SigningKey:
    """The key of a PKCS#12 file (.p12, .pfx; what `keytool -storetype PKCS12` makes).

    Raises ApkError if the file cannot be read or opened with the password, has no key and certificate, or a key that
    signs no packages here (RSA of at least 1024 bits and elliptic curves P-256, P-384 and P-521 do), and
    MissingDependencyError without the extra `android`.
    """
    require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        content = read_bounded(path, _MOST_BYTES)
    except OSError as e:
        raise ApkError(f"cannot read the key {path}: {e.strerror or e}") from None
    try:
        store = pkcs12.load_pkcs12(content, password.encode("utf-8"))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ApkError(
            f"cannot open the key {path}: the password is wrong, or it is no PKCS#12 file (keytool -storetype PKCS12)"
        ) from None
    if store.cert is None:
        raise ApkError(f"{path} has no private key with a certificate")
    return _signing_key(store, path)


def debug_key() -> SigningKey:
    """The debug key of this user: made at the first call, then the same; in `android/debug.p12` of edgemem's caches.

    Only the user can read the file. Raises ApkError if there is no folder for caches or the file cannot be kept or
    read, and MissingDependencyError without the extra `android`.
    """
    require_cryptography()
    folder = cache_folder("android")
    if folder is None:
        raise ApkError("there is no folder for caches to keep a debug key in; name a key, or set EDGEMEM_CACHE")
    path = folder / "debug.p12"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_new(path, _new_store())
        if os.name == "posix" and path.stat(follow_symlinks=False).st_mode & 0o077:
            raise ApkError(f"others may read the debug key {path}; remove it, and a new one is made")
        return load_key(path, DEBUG_PASSWORD)
    except OSError as e:
        raise ApkError(f"cannot keep the debug key {path}: {e.strerror or e}") from None


def _signing_key(store: object, path: Path) -> SigningKey:
    """The key and the certificates of a store that was read."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

    assert isinstance(store, PKCS12KeyAndCertificates)
    assert store.cert is not None
    key = store.key
    if isinstance(key, rsa.RSAPrivateKey):
        fits = key.key_size >= _SMALLEST_RSA
    else:
        fits = isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(
            key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1
        )
    if not fits:
        raise ApkError(f"{path} has no key that signs packages: take RSA of 2048 bits, or the elliptic curve P-256")
    assert isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if store.cert.certificate.public_key().public_bytes(*form) != key.public_key().public_bytes(*form):
        raise ApkError(f"the certificate in {path} belongs to another key")
    chain = [store.cert, *store.additional_certs]
    return SigningKey(key, tuple(c.certificate.public_bytes(Encoding.DER) for c in chain))


def _new_store() -> bytes:
    """A new RSA key of 2048 bits with a certificate of its own, as a PKCS#12 file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "US"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Android"),
            x509.NameAttribute(NameOID.COMMON_NAME, "Android Debug"),
        ]
    )
    begin = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)  # clocks of devices are not exact
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=_DEBUG_DAYS))
        .sign(key, hashes.SHA256())
    )
    encryption = BestAvailableEncryption(DEBUG_PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(_DEBUG_NAME, key, certificate, None, encryption)


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that only the user can read, whole; what another process wrote there meanwhile stays."""
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink()
