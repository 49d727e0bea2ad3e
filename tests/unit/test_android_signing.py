"""APK Signature Scheme v2: what edgemem signs it accepts, and nothing that was changed in any byte."""

from __future__ import annotations

import hashlib
import struct
import sys
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from edgemem.android import archive as archives
from edgemem.android import signing
from edgemem.android.archive import Archive, Entry, read_archive, write_archive
from edgemem.android.signing import PADDING, V2, V3, sign, verify_signature
from edgemem.errors import ApkError, MissingDependencyError
from tests.android_packages import ENTRIES, KEYS, block_at, end_of, key, pairs, with_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.android.keys import SigningKey

ARCHIVE = write_archive(ENTRIES)


def _signed() -> bytes:
    return sign(ARCHIVE, key("p256"))


def _sized(*parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack("<I", len(content)) + content


def _number(value: int) -> bytes:
    return struct.pack("<I", value)


def _digest(apk: bytes, name: str = "sha256") -> bytes:
    """The digest of the scheme's text, of a package with a signing block or without."""
    directory, end = end_of(apk)
    begin = block_at(apk) if apk[directory - 16 : directory] == b"APK Sig Block 42" else directory
    chunks = []
    for part in (apk[:begin], apk[directory:end], apk[end:-6] + _number(begin) + apk[-2:]):
        for at in range(0, len(part), 1048576):
            chunk = part[at : at + 1048576]
            chunks.append(hashlib.new(name, b"\xa5" + _number(len(chunk)) + chunk).digest())
    return hashlib.new(name, b"\x5a" + _number(len(chunks)) + b"".join(chunks)).digest()


def _made(
    by: SigningKey,
    *,
    archive: Archive = ARCHIVE,
    digest: bytes | None = None,
    numbers: tuple[int, int] = (0x0103, 0x0103),
    certificates: bytes | None = None,
    public: bytes | None = None,
    attributes: bytes = b"",
    more: bytes = b"",
    signers: int = 1,
    pss: bool = False,
) -> bytes:
    """A package signed by an RSA key as the scheme's text says, with something else in one place."""
    assert isinstance(by.private, rsa.RSAPrivateKey)
    plain = archive.to_bytes()
    digests = _sized(_sized(_number(numbers[0]), _sized(_digest(plain) if digest is None else digest)))
    chain = _sized(by.certificates[0]) if certificates is None else certificates
    data = digests + _sized(chain) + _sized(attributes) + more
    way = padding.PSS(padding.MGF1(hashes.SHA256()), 32) if pss else padding.PKCS1v15()
    signature = by.private.sign(data, way, hashes.SHA256())
    own = by.private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    signatures = _sized(_sized(_number(numbers[1]), _sized(signature)))
    signer = _sized(_sized(data), signatures, _sized(own if public is None else public))
    body = archive.body + bytes(24 + 8) + b"APK Sig Block 42"
    empty = body[: -len(b"APK Sig Block 42") - 32] + struct.pack("<QQ", 24, 24) + b"APK Sig Block 42"
    apk = empty + archive.directory + archive.end(len(empty))
    return with_block(apk, [(V2, _sized(signer * signers))])


@pytest.mark.parametrize("kind", KEYS)
def test_what_is_signed_is_accepted_for_every_kind_of_key(kind: str) -> None:
    apk = sign(ARCHIVE, key(kind))
    found = verify_signature(apk)
    certificate = key(kind).certificates[0]
    assert found.certificate_sha256 == hashlib.sha256(certificate).hexdigest()
    assert found.subject == x509.load_der_x509_certificate(certificate).subject.rfc4514_string() == f"CN=Test {kind} 0"
    strength = "SHA-256" if kind in ("rsa2048", "p256") else "SHA-512"
    assert found.algorithm == f"{'RSA' if kind.startswith('rsa') else 'ECDSA'} with {strength}"
    assert [(e.name, e.data) for e in read_archive(apk)] == [(e.name, e.data) for e in ENTRIES]
    assert _digest(apk, "sha256" if strength == "SHA-256" else "sha512") in pairs(apk)[0][1]


@pytest.mark.parametrize("kind", KEYS)
def test_the_same_archive_and_key_give_the_same_bytes(kind: str) -> None:
    assert sign(ARCHIVE, key(kind)) == sign(write_archive(ENTRIES), key(kind))


@given(st.integers(0, 9000), st.sampled_from(("p256", "rsa2048")))
def test_the_directory_begins_at_a_page_and_zeros_fill_the_block(size: int, kind: str) -> None:
    apk = sign(write_archive([Entry("a", bytes(size))]), key(kind))
    directory, _ = end_of(apk)
    assert directory % 4096 == 0
    (first, _), (second, zeros) = pairs(apk)
    assert (first, second) == (V2, PADDING)
    assert not any(zeros)
    assert directory - block_at(apk) < 2 * 4096
    verify_signature(apk)


def test_parts_of_more_than_a_mebibyte_are_signed_in_chunks() -> None:
    content = bytes(range(256)) * 4096 * 3
    apk = sign(write_archive([Entry("a", content), Entry("b", content[:-1])]), key("rsa2048"))
    verify_signature(apk)
    assert _digest(apk) in pairs(apk)[0][1]
    for at in (1 << 20, (1 << 20) - 1, 3 << 20, len(content) + 99):
        with pytest.raises(ApkError, match="its digest is not the signed one"):
            verify_signature(apk[:at] + bytes([apk[at] ^ 1]) + apk[at + 1 :])


@pytest.mark.full
def test_a_change_of_any_byte_is_refused() -> None:
    apk = bytearray(_signed())
    verify_signature(bytes(apk))
    block, (directory, _) = block_at(bytes(apk)), end_of(bytes(apk))
    in_pages = set(range(0, block, 101)) | set(range(block, directory, 1)) | set(range(directory, len(apk)))
    for at in sorted(in_pages):
        apk[at] ^= 1 << at % 8
        with pytest.raises(ApkError):
            verify_signature(bytes(apk))
        apk[at] ^= 1 << at % 8
    verify_signature(bytes(apk))


def test_every_shorter_file_is_refused_and_every_longer_one() -> None:
    apk = _signed()
    for end in (*range(0, len(apk), 211), *range(len(apk) - 300, len(apk))):
        with pytest.raises(ApkError):
            verify_signature(apk[:end])
    for more in (b"\0", b"\n", b"more" * 9, apk):
        with pytest.raises(ApkError):
            verify_signature(apk + more)
        with pytest.raises(ApkError):
            verify_signature(more + apk)
    # A comment of the end record that the record itself counts.
    with pytest.raises(ApkError, match="no package"):
        verify_signature(apk[:-2] + b"\4\0more")


def test_bytes_between_the_parts_are_refused() -> None:
    apk = _signed()
    block, (directory, end) = block_at(apk), end_of(apk)
    for at in (block, directory, end):
        for more in (b"\0", bytes(4096), b"PK\1\2"):
            longer = apk[:at] + more + apk[at:]
            moved = struct.pack("<I", directory + len(more)) if at < end else apk[-6:-2]
            for each in (longer, longer[:-6] + moved + longer[-2:]):
                with pytest.raises(ApkError):
                    verify_signature(each)


def test_an_unsigned_package_is_refused() -> None:
    with pytest.raises(ApkError, match="not signed by APK Signature Scheme v2"):
        verify_signature(ARCHIVE.to_bytes())
    with pytest.raises(ApkError, match="not signed by APK Signature Scheme v2"):
        verify_signature(with_block(_signed(), []))
    with pytest.raises(ApkError, match="not signed by APK Signature Scheme v2"):
        verify_signature(with_block(_signed(), [(PADDING, bytes(9))]))
    for data in (b"", b"PK\5\6" + bytes(18), b"no archive"):
        with pytest.raises(ApkError):
            verify_signature(data)


def test_the_block_as_the_specification_has_it_is_accepted() -> None:
    by = key("rsa2048")
    assert verify_signature(_made(by)) == verify_signature(sign(ARCHIVE, by))
    assert verify_signature(_made(by, numbers=(0x0101, 0x0101), pss=True)).algorithm == "RSA PSS with SHA-256"
    verify_signature(_made(by, more=bytes(4)))  # as apksigner ends the signed data
    two = _sized(by.certificates[0]) + _sized(key("p256").certificates[0])
    assert verify_signature(_made(by, certificates=two)).subject == "CN=Test rsa2048 0"


def _algorithm(number: int) -> Callable[[], bytes]:
    return lambda: _made(key("rsa2048"), numbers=(number, number))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: _made(key("rsa2048"), digest=bytes(32)), "its digest is not the signed one"),
        (lambda: _made(key("rsa2048"), digest=b""), "its digest is not the signed one"),
        (lambda: _made(key("rsa2048"), archive=write_archive(ENTRIES[::-1]), digest=_digest(_signed())), "digest"),
        (lambda: _made(key("rsa2048"), certificates=_sized(key("rsa2048", 1).certificates[0])), "another public key"),
        (lambda: _made(replace(key("rsa2048", 1), certificates=key("p256").certificates)), "another public key"),
        (lambda: sign(ARCHIVE, replace(key("p256"), private=key("p256", 1).private)), "another public key"),
        (lambda: _made(key("rsa2048"), certificates=b""), "no certificate"),
        (lambda: _made(key("rsa2048"), certificates=_sized(b"no certificate")), "damaged certificate"),
        (lambda: _made(key("rsa2048"), public=b"no key"), "damaged public key"),
        (lambda: _made(key("rsa2048"), public=b""), "damaged public key"),
        (lambda: _made(key("rsa2048"), signers=2), "2 signers"),
        (lambda: _made(key("rsa2048"), signers=0), "0 signers"),
        (lambda: _made(key("rsa2048"), more=b"\1"), "part that edgemem does not know"),
        (lambda: _made(key("rsa2048"), attributes=_sized(_number(0xBEEFF00D), _number(3))), "it is gone"),
        (lambda: _made(key("rsa2048"), attributes=_sized(_number(0x3BA06F8C), b"")), "proof of rotation"),
        (lambda: _made(key("rsa2048"), numbers=(0x0103, 0x0101)), "not of the same algorithms"),
        (lambda: _made(key("rsa2048"), numbers=(0x0101, 0x0101)), "signature is wrong"),  # it is PKCS #1
        (_algorithm(0x0201), "none for its algorithm"),
        (_algorithm(0x0301), "algorithm 0x0301"),
        (_algorithm(0x0421), "algorithm 0x0421"),
        (_algorithm(0), "algorithm 0x0000"),
        (lambda: with_block(_signed(), [*pairs(_signed()), (0x71777777, b"more")]), "part 0x71777777"),
        (lambda: with_block(_signed(), [*pairs(_signed()), pairs(_signed())[0]]), "two parts"),
        (lambda: with_block(_signed(), [pairs(_signed())[0], (PADDING, bytes(99) + b"\1")]), "is not zero"),
        (lambda: with_block(_signed(), [(V2, pairs(_signed())[0][1] + b"\0")]), "bytes that mean nothing"),
        (lambda: with_block(_signed(), [(V2, b"")]), "longer than what it is in"),
        (lambda: with_block(_signed(), [pairs(_signed())[0], (V3, b"\0\0\0\0")]), "0 signers"),
        (lambda: with_block(_signed(), [pairs(_signed())[0], (PADDING, bytes(1 << 20))]), "most that is read"),
    ],
)
def test_what_a_signature_must_not_be_is_said(make: Callable[[], bytes], why: str) -> None:
    with pytest.raises(ApkError, match=why) as error:
        verify_signature(make())
    assert "\n" not in str(error.value)


def test_a_signature_of_another_key_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate and public key are one key's, the signature is another's."""
    right, other = key("rsa2048"), key("rsa2048", 1)
    real = signing._signature
    monkeypatch.setattr(signing, "_signature", lambda data, _, algorithm: real(data, other, algorithm))
    with pytest.raises(ApkError, match="signature is wrong"):
        verify_signature(sign(ARCHIVE, right))


def test_the_lengths_of_the_block_are_checked() -> None:
    """Every number of four and of eight bytes in the block, made as large as it can be, or a little too large."""
    apk = with_block(_signed(), pairs(_signed())[:1])
    begin, (directory, _) = block_at(apk), end_of(apk)
    for at in range(begin, directory - 8):
        for value in (b"\xff" * 4, b"\xff" * 8, struct.pack("<I", len(apk)), b"\0\0\0\x80"):
            if at + len(value) <= directory and apk[at : at + len(value)] != value:
                with pytest.raises(ApkError):
                    verify_signature(apk[:at] + value + apk[at + len(value) :])


@given(st.data())
def test_hostile_blocks_raise_nothing_else(data: st.DataObject) -> None:
    apk = _signed()
    value = bytearray(pairs(apk)[0][1])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(value)), min_size=2, max_size=2)))
    more = data.draw(st.binary(max_size=12))
    if value[cuts[0] : cuts[1]] == more:
        return
    value[cuts[0] : cuts[1]] = more
    with pytest.raises(ApkError):
        verify_signature(with_block(apk, [(V2, bytes(value))]))


def test_a_package_that_would_be_too_large_is_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", len(_signed()) - 1)
    with pytest.raises(ApkError, match="fewer ABIs"):
        _signed()


def test_without_cryptography_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    apk, by = _signed(), key("p256")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for act in (lambda: sign(ARCHIVE, by), lambda: verify_signature(apk)):
        with pytest.raises(MissingDependencyError, match=r"pip install 'edgemem-planner\[android\]'"):
            act()


def test_repeatable_signatures_need_a_new_openssl(monkeypatch: pytest.MonkeyPatch) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec

    def old(*_: object, **__: object) -> None:
        raise UnsupportedAlgorithm("no")

    monkeypatch.setattr(ec, "ECDSA", old)
    with pytest.raises(ApkError, match="take an RSA key"):
        _signed()


def test_parts_of_the_block_may_stand_in_any_order() -> None:
    apk = _signed()
    turned = with_block(apk, pairs(apk)[::-1])
    assert verify_signature(turned) == verify_signature(apk)
    assert list(accumulate(len(v) for _, v in pairs(turned)))[-1] == sum(len(v) for _, v in pairs(apk))
