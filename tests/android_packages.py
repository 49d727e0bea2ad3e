"""Small packages, keys of all kinds that sign them, and signing blocks taken apart as the specification says."""

from __future__ import annotations

import datetime as dt
import functools
import struct
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

from edgemem.android import manifest
from edgemem.android.archive import Entry
from edgemem.android.keys import SigningKey

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ENTRIES", "KEYS", "MANIFEST", "block_at", "end_of", "key", "pairs", "store", "with_block"]

MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="ai.edgemem.test"
    android:versionCode="7" android:versionName="1.2">
  <uses-sdk android:minSdkVersion="24" android:targetSdkVersion="35" />
  <application android:label="A &lt;label&gt;, \u00e4\U0001f600" android:hasCode="true"
      android:extractNativeLibs="false" android:theme="@android:style/Theme.Material.Light.NoActionBar">
    <activity android:name=".MainActivity" android:exported="true" android:screenOrientation="portrait"
        android:configChanges="orientation|screenSize">
      <intent-filter>
        <action android:name="android.intent.action.MAIN" />
        <category android:name="android.intent.category.LAUNCHER" />
      </intent-filter>
    </activity>
  </application>
</manifest>
"""

ENTRIES = (
    Entry("AndroidManifest.xml", manifest.encode(MANIFEST), stored=False),
    Entry("classes.dex", b"dex\n037\0" * 20, stored=False),
    Entry("lib/x86_64/libone.so", bytes(range(256)) * 3, alignment=16384),
    Entry("assets/model.onnx", b"model" * 50, alignment=4096),
)

KEYS = ("rsa2048", "rsa4096", "p256", "p384", "p521")
_CURVES = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}


@functools.cache
def key(kind: str, number: int = 0) -> SigningKey:
    """A new key and its certificate; the same for the same kind and number in one process."""
    private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    if kind in _CURVES:
        private = ec.generate_private_key(_CURVES[kind])
    else:
        private = rsa.generate_private_key(65537, int(kind.removeprefix("rsa")))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Test {kind} {number}")])
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1 + number)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=9000))
        .sign(private, hashes.SHA256())
    )
    return SigningKey(private, (certificate.public_bytes(Encoding.DER),))


def store(folder: Path, kind: str, password: str = "secret") -> Path:
    """A PKCS#12 file of a key, as alias `key`."""
    path = folder / f"{kind}.p12"
    certificate = x509.load_der_x509_certificate(key(kind).certificates[0])
    encryption = BestAvailableEncryption(password.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"key", key(kind).private, certificate, None, encryption))
    return path


def end_of(apk: bytes) -> tuple[int, int]:
    """Where the directory begins and where the end record does, by the last 22 bytes."""
    return struct.unpack("<I", apk[-6:-2])[0], len(apk) - 22


def block_at(apk: bytes) -> int:
    """Where the signing block begins."""
    directory, _ = end_of(apk)
    assert apk[directory - 16 : directory] == b"APK Sig Block 42"
    (size,) = struct.unpack("<Q", apk[directory - 24 : directory - 16])
    begin: int = directory - size - 8
    return begin


def pairs(apk: bytes) -> list[tuple[int, bytes]]:
    """The ids and values of the signing block."""
    at, end = block_at(apk) + 8, end_of(apk)[0] - 24
    found = []
    while at < end:
        size, number = struct.unpack("<QI", apk[at : at + 12])
        found.append((number, apk[at + 12 : at + 8 + size]))
        at += 8 + size
    return found


def with_block(apk: bytes, parts: list[tuple[int, bytes]]) -> bytes:
    """The package with other ids and values in its signing block; the end record fits it."""
    content = b"".join(struct.pack("<QI", len(value) + 4, number) + value for number, value in parts)
    size = struct.pack("<Q", len(content) + 24)
    directory, end = end_of(apk)
    body = apk[: block_at(apk)] + (size + content + size + b"APK Sig Block 42" if parts else b"")
    return body + apk[directory:end] + apk[end:-6] + struct.pack("<I", len(body)) + apk[-2:]
