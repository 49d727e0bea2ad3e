"""APK Signature Scheme v2: a block between the files and the central directory, which signs all other bytes.

    u64 size | pairs (u64 size, u32 id, value) ... | u64 size | "APK Sig Block 42"

    value of scheme v2 = signers, of which edgemem writes and takes one:
        signed data   digests, certificates, attributes
        signatures    of the signed data, one for each algorithm
        public key    the first certificate's

Every sequence and element has its length in a u32 before it. A digest is of the digests of chunks of at most 1 MiB of
the three other parts: the files, the directory, and the end record with the directory's offset before signing.

From https://source.android.com/docs/security/features/apksigning/v2.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.android.archive import BLOCK_MAGIC, Archive, Regions, regions
from edgemem.android.keys import require_cryptography
from edgemem.errors import ApkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.android.keys import SigningKey

__all__ = ["Signature", "sign", "verify_signature"]

V2: Final = 0x7109871A
V3: Final = 0xF05368C0
PADDING: Final = 0x42726577
_PAIR: Final = struct.Struct("<QI")
_CHUNK: Final = 1 << 20
_PAGE: Final = 4096  # that the directory is aligned to
_MOST_BLOCK: Final = 1 << 20
_CURVES: Final = ("secp256r1", "secp384r1", "secp521r1")
_ROTATION: Final = 0x3BA06F8C  # attribute: certificates that were the package's before
_STRIPPED: Final = 0xBEEFF00D  # attribute: the scheme that the package is signed with besides


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How a signature is made: `hash` is a name of hashlib, of the digests and of the signature."""

    name: str
    is_rsa: bool
    hash: str
    is_pss: bool = False


ALGORITHMS: Final = {
    0x0101: Algorithm("RSA PSS with SHA-256", is_rsa=True, hash="sha256", is_pss=True),
    0x0102: Algorithm("RSA PSS with SHA-512", is_rsa=True, hash="sha512", is_pss=True),
    0x0103: Algorithm("RSA with SHA-256", is_rsa=True, hash="sha256"),
    0x0104: Algorithm("RSA with SHA-512", is_rsa=True, hash="sha512"),
    0x0201: Algorithm("ECDSA with SHA-256", is_rsa=False, hash="sha256"),
    0x0202: Algorithm("ECDSA with SHA-512", is_rsa=False, hash="sha512"),
}


@dataclass(frozen=True, slots=True)
class Signature:
    """Who signed a package: the SHA-256 of the certificate in hexadecimal, its subject (RFC 4514), and how."""

    certificate_sha256: str
    subject: str
    algorithm: str


def sign(archive: Archive, key: SigningKey) -> bytes:
    """The package of an archive, signed by scheme v2; the same archive and key give the same bytes.

    The block is as long as the directory needs to begin at a multiple of 4096 bytes. Raises ApkError if the package
    would be too large, and MissingDependencyError without the extra `android`.
    """
    require_cryptography()
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    number = _algorithm_for(key)
    before = archive.end(len(archive.body))
    digest = _digest((archive.body, archive.directory, before), ALGORITHMS[number].hash)
    certificates = b"".join(_sized(c) for c in key.certificates)
    signed = _sized(_numbered(number, digest)) + _sized(certificates) + _sized(b"")
    public = key.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    signatures = _sized(_numbered(number, _signature(signed, key, ALGORITHMS[number])))
    signer = _sized(signed) + signatures + _sized(public)
    block = _block(_sized(_sized(signer)), len(archive.body))
    end = archive.end(len(archive.body) + len(block))
    return b"".join((archive.body, block, archive.directory, end))


def _sized(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def _numbered(number: int, value: bytes) -> bytes:
    """An element with a number and a value that has a length."""
    return _sized(number.to_bytes(4, "little") + _sized(value))


def _block(value: bytes, at: int) -> bytes:
    """The signing block that begins at the offset, with the value of scheme v2 and padding."""
    pairs = _PAIR.pack(len(value) + 4, V2) + value
    zeros = -(at + 8 + len(pairs) + _PAIR.size + 8 + len(BLOCK_MAGIC)) % _PAGE
    pairs += _PAIR.pack(zeros + 4, PADDING) + bytes(zeros)
    size = (len(pairs) + 8 + len(BLOCK_MAGIC)).to_bytes(8, "little")
    return size + pairs + size + BLOCK_MAGIC


def _digest(parts: tuple[bytes | memoryview, ...], name: str) -> bytes:
    """The digest of the parts of a package outside of the signing block."""
    digests = []
    for part in parts:
        view = memoryview(part)
        digests += [_chunk_digest(view[at : at + _CHUNK], name) for at in range(0, len(view), _CHUNK)]
    return hashlib.new(name, b"\x5a" + len(digests).to_bytes(4, "little") + b"".join(digests)).digest()


def _chunk_digest(chunk: memoryview, name: str) -> bytes:
    value = hashlib.new(name, b"\xa5" + len(chunk).to_bytes(4, "little"))
    value.update(chunk)
    return value.digest()


def _algorithm_for(key: SigningKey) -> int:
    """The number of the algorithm that Android's tools choose for a key: the hash is as strong as the key."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    if isinstance(key.private, RSAPrivateKey):
        return 0x0103 if key.private.key_size <= 3072 else 0x0104
    return 0x0201 if key.private.key_size <= 256 else 0x0202


def _signature(data: bytes, key: SigningKey, algorithm: Algorithm) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    hashed = hashes.SHA256() if algorithm.hash == "sha256" else hashes.SHA512()
    if isinstance(key.private, rsa.RSAPrivateKey):
        return key.private.sign(data, padding.PKCS1v15(), hashed)
    try:
        return key.private.sign(data, ec.ECDSA(hashed, deterministic_signing=True))
    except UnsupportedAlgorithm:
        raise ApkError(
            "the installed OpenSSL cannot repeat a signature by an elliptic curve: take an RSA key, or OpenSSL 3.2"
        ) from None


def verify_signature(apk: bytes) -> Signature:
    """Who signed a package by scheme v2, and by v3 where it is signed so besides.

    Every bit of the package is checked: those that no digest covers must be zero. Raises ApkError if there is no
    signature, it is damaged, wrong, or of another key than its certificate, and for what this module does not check:
    several signers, changes of keys, algorithms other than RSA and ECDSA, and unknown parts of a signing block. Raises
    MissingDependencyError without the extra `android`.
    """
    require_cryptography()
    parts = regions(apk)
    pairs = _pairs(apk, parts)
    if V2 not in pairs:
        raise ApkError("the package is not signed by APK Signature Scheme v2")
    signer = _signer(pairs[V2], is_v3=False)
    if signer.needs_v3 and V3 not in pairs:
        raise ApkError("the package's signature says that one of scheme v3 was beside it, and it is gone")
    signers = [signer]
    if V3 in pairs:
        signers.append(_signer(pairs[V3], is_v3=True))
        if signers[1].certificate != signer.certificate:
            raise ApkError(
                "the package's signatures of the schemes v2 and v3 are of two keys, which edgemem does not check"
            )
    for signed in signers:
        for number, digest in signed.digests.items():
            if _digest(_signed_parts(apk, parts), ALGORITHMS[number].hash) != digest:
                raise ApkError("the package was changed after it was signed: its digest is not the signed one")
    sha256 = hashlib.sha256(signer.certificate).hexdigest()
    return Signature(sha256, signer.subject, ", ".join(ALGORITHMS[number].name for number in signer.digests))


@dataclass(frozen=True, slots=True)
class _Signer:
    """A signer whose signature of `digests` (by the algorithm's number) fits the certificate's key."""

    digests: dict[int, bytes]
    certificate: bytes
    subject: str
    needs_v3: bool


class _Fields:
    """The fields of a part of the block, from its begin on."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self._at = data, at

    def take(self, size: int) -> bytes:
        """The next bytes. Raises ApkError if there are fewer."""
        if size > len(self._data) - self._at:
            raise ApkError("the package's signing block is damaged: a part is longer than what it is in")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def sized(self) -> bytes:
        return self.take(self.number())

    def elements(self) -> Iterator[_Fields]:
        """The elements of a sequence, which is the next field."""
        sequence = _Fields(self.sized())
        while sequence.has_more():
            yield _Fields(sequence.sized())

    def has_more(self) -> bool:
        return self._at < len(self._data)

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Raises ApkError if bytes are left."""
        if self.has_more():
            raise ApkError("the package's signing block is damaged: it has bytes that mean nothing")


def _signed_parts(apk: bytes, parts: Regions) -> tuple[memoryview | bytes, ...]:
    """The files, the directory, and the end record as it was before the block came between."""
    view = memoryview(apk)
    end = bytearray(view[parts.end :])
    end[16:20] = parts.body_end.to_bytes(4, "little")
    return view[: parts.body_end], view[parts.directory : parts.end], bytes(end)


def _pairs(apk: bytes, parts: Regions) -> dict[int, bytes]:
    """The values of the signing block by their ids; none if there is no block. The padding is checked and left out."""
    size = parts.directory - parts.body_end
    if size > _MOST_BLOCK:
        raise ApkError(f"the package's signing block has {size:,} bytes; the most that is read is {_MOST_BLOCK:,}")
    fields, found = _Fields(apk[parts.body_end + 8 : max(parts.directory - 24, parts.body_end)]), dict[int, bytes]()
    while fields.has_more():
        pair = _Fields(fields.take(int.from_bytes(fields.take(8), "little")))
        number = pair.number()
        if number in found:
            raise ApkError(f"the package's signing block has two parts {number:#010x}")
        if number not in (V2, V3, PADDING):
            raise ApkError(f"the package's signing block has a part {number:#010x}, which edgemem does not check")
        found[number] = pair.rest()
    if any(found.pop(PADDING, b"")):
        raise ApkError("the padding of the package's signing block is not zero")
    return found


def _signer(block: bytes, *, is_v3: bool) -> _Signer:
    """The one signer of a block of scheme v2 or v3. Raises ApkError if its signature is wrong."""
    outer = _Fields(block)
    signers = list(outer.elements())
    outer.end()
    if len(signers) != 1:
        raise ApkError(f"the package has {len(signers)} signers; edgemem checks packages of one")
    (fields,) = signers
    signed = fields.sized()
    versions = fields.take(8) if is_v3 else b""  # of Android: the first and the last
    signatures = _by_algorithm(fields)
    public = fields.sized()
    fields.end()
    inner = _Fields(signed)
    digests = _by_algorithm(inner)
    certificates = _certificates(inner)
    if is_v3 and inner.take(8) != versions:
        raise ApkError("the package's signature is for other versions of Android than it says")
    attributes = {a.number(): a.rest() for a in inner.elements()}
    if inner.has_more() and any(inner.rest()):  # apksigner ends with an empty sequence
        raise ApkError("the package's signed data have a part that edgemem does not know")
    if _ROTATION in attributes:
        raise ApkError("the package's key was changed by a proof of rotation, which edgemem does not check")
    if not digests or list(digests) != list(signatures):
        raise ApkError("the package's digests and signatures are not of the same algorithms")
    _check_signatures(signed, signatures, public)
    subject = _subject(certificates[0], public)
    return _Signer(digests, certificates[0], subject, attributes.get(_STRIPPED) == (3).to_bytes(4, "little"))


def _by_algorithm(fields: _Fields) -> dict[int, bytes]:
    """The digests or the signatures that are the next field. Raises ApkError for an algorithm that is not checked."""
    found = dict[int, bytes]()
    for element in fields.elements():
        number = element.number()
        if number not in ALGORITHMS or number in found:
            raise ApkError(f"the package is signed by the algorithm {number:#06x}, which edgemem does not check")
        found[number] = element.sized()
        element.end()
    return found


def _certificates(fields: _Fields) -> list[bytes]:
    certificates = [c.rest() for c in fields.elements()]
    if not certificates:
        raise ApkError("the package's signature has no certificate")
    return certificates


def _check_signatures(signed: bytes, signatures: dict[int, bytes], public: bytes) -> None:
    """Raises ApkError if a signature of the data was not made by the public key."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(public)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ApkError("the package's signature has a damaged public key, or one that edgemem does not know") from None
    for number, signature in signatures.items():
        try:
            _check_signature(signed, signature, key, ALGORITHMS[number])
        except InvalidSignature:
            raise ApkError("the package's signature is wrong: it was not made by its public key") from None


def _subject(certificate: bytes, public: bytes) -> str:
    """Whom a certificate names. Raises ApkError if it is damaged, or its key is not the public one."""
    import warnings

    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of certificates that Android takes, such as with the number 0
            owner = x509.load_der_x509_certificate(certificate)
            own = owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            subject = owner.subject.rfc4514_string()
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise ApkError("the package's signature has a damaged certificate") from None
    if own != public:
        raise ApkError("the package's certificate belongs to another public key than its signature")
    return subject


def _check_signature(signed: bytes, signature: bytes, key: object, algorithm: Algorithm) -> None:
    """Raises InvalidSignature if it is wrong, and ApkError if the key is none for the algorithm."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    hashed = hashes.SHA256() if algorithm.hash == "sha256" else hashes.SHA512()
    if algorithm.is_rsa and isinstance(key, rsa.RSAPublicKey):
        way = padding.PSS(padding.MGF1(hashed), hashed.digest_size) if algorithm.is_pss else padding.PKCS1v15()
        key.verify(signature, signed, way, hashed)
    elif not algorithm.is_rsa and isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        key.verify(signature, signed, ec.ECDSA(hashed))
    else:
        raise ApkError(f"the package's public key is none for its algorithm, {algorithm.name}")
