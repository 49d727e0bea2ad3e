"""Keys that sign packages: PKCS#12 files of others, and the debug key that is made once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PublicFormat, pkcs12

from edgemem.android import keys
from edgemem.android.archive import write_archive
from edgemem.android.keys import DEBUG_PASSWORD, debug_key, load_key
from edgemem.android.signing import sign, verify_signature
from edgemem.errors import ApkError, MissingDependencyError
from tests.android_packages import ENTRIES, KEYS, key, store

if TYPE_CHECKING:
    from pathlib import Path

_Private: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | dsa.DSAPrivateKey | ed25519.Ed25519PrivateKey
posix = pytest.mark.skipif(os.name != "posix", reason="folders have no locks there")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of edgemem's caches."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "caches"))
    return tmp_path / "caches"


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_what_was_stored(kind: str, tmp_path: Path) -> None:
    found = load_key(store(tmp_path, kind), "secret")
    assert found.certificates == key(kind).certificates
    assert found.private.private_numbers() == key(kind).private.private_numbers()


@pytest.mark.full
@pytest.mark.parametrize("algorithm", [("RSA", "-keysize", "2048"), ("EC", "-groupname", "secp256r1")])
def test_a_key_of_keytool_signs(algorithm: tuple[str, ...], tmp_path: Path) -> None:
    tool = shutil.which("keytool")
    if tool is None:
        pytest.skip("no keytool here")
    path = tmp_path / "own.p12"
    command = [tool, "-genkeypair", "-keystore", str(path), "-storetype", "PKCS12", "-storepass", "password"]
    command += ["-alias", "own", "-dname", "CN=Own, O=Test", "-validity", "9000", "-keyalg", *algorithm]
    subprocess.run(command, check=True, capture_output=True)
    found = load_key(path, "password")
    assert verify_signature(sign(write_archive(ENTRIES), found)).subject in ("CN=Own,O=Test", "O=Test,CN=Own")


def test_what_cannot_be_a_key_is_said(tmp_path: Path) -> None:
    path = store(tmp_path, "p256")
    content = path.read_bytes()
    for damaged in (b"", b"no key", content[:-9], content[:50], b"\x30\x82" + bytes(100)):
        (tmp_path / "damaged.p12").write_bytes(damaged)
        with pytest.raises(ApkError, match="the password is wrong, or it is no PKCS#12 file"):
            load_key(tmp_path / "damaged.p12", "secret")
    for password in ("", "Secret", "secret "):
        with pytest.raises(ApkError, match="the password is wrong"):
            load_key(path, password)
    with pytest.raises(ApkError, match="No such file"):
        load_key(tmp_path / "none.p12", "secret")
    with pytest.raises(ApkError, match="no regular file"):
        load_key(tmp_path, "secret")
    (tmp_path / "large.p12").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ApkError, match="the most that is read"):
        load_key(tmp_path / "large.p12", "secret")


def _stored(path: Path, private: _Private | None, certificate: bytes | None, *others: bytes) -> Path:
    chain = [x509.load_der_x509_certificate(c) for c in others]
    own = None if certificate is None else x509.load_der_x509_certificate(certificate)
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"n", private, own, chain or None, NoEncryption()))
    return path


def test_stores_without_a_key_that_signs_are_refused(tmp_path: Path) -> None:
    own = key("p256").certificates[0]
    path = tmp_path / "a.p12"
    with pytest.raises(ApkError, match="no private key with a certificate"):
        load_key(_stored(path, None, None, own), "")
    with pytest.raises(ApkError, match="no private key with a certificate"):
        load_key(_stored(path, key("p256").private, None), "")
    other = pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(key("p256", 1).certificates[0]), None)
    with pytest.raises(ApkError, match="belongs to another key"):
        keys._signing_key(pkcs12.PKCS12KeyAndCertificates(key("p256").private, other, []), path)


@pytest.mark.parametrize("kind", ["ed25519", "dsa", "secp256k1"])
def test_keys_that_android_does_not_know_are_refused(kind: str, tmp_path: Path) -> None:
    import datetime as dt

    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    private: _Private
    if kind == "ed25519":
        private = ed25519.Ed25519PrivateKey.generate()
    elif kind == "dsa":
        private = dsa.generate_private_key(1024)
    else:
        private = ec.generate_private_key(ec.SECP256K1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")])
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=9))
        .sign(private, None if kind == "ed25519" else hashes.SHA256())
    )
    path = _stored(tmp_path / "a.p12", private, made.public_bytes(Encoding.DER))
    with pytest.raises(ApkError, match="has no key that signs packages"):
        load_key(path, "")


def test_a_chain_of_certificates_is_kept(tmp_path: Path) -> None:
    own, other = key("p256").certificates[0], key("rsa2048").certificates[0]
    found = load_key(_stored(tmp_path / "a.p12", key("p256").private, own, other), "")
    assert found.certificates == (own, other)
    assert verify_signature(sign(write_archive(ENTRIES), found)).subject == "CN=Test p256 0"


def test_the_debug_key_is_made_once(home: Path) -> None:
    first = debug_key()
    assert isinstance(first.private, rsa.RSAPrivateKey)
    assert first.private.key_size == 2048
    assert debug_key().certificates == first.certificates
    assert load_key(home / "android" / "debug.p12", DEBUG_PASSWORD).certificates == first.certificates
    assert [p.name for p in (home / "android").iterdir()] == ["debug.p12"]
    certificate = x509.load_der_x509_certificate(first.certificates[0])
    assert certificate.subject == certificate.issuer
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lasts.days >= 25 * 365
    archive = write_archive(ENTRIES)
    assert sign(archive, first) == sign(archive, debug_key())
    assert verify_signature(sign(archive, first)).subject == "CN=Android Debug,O=Android,C=US"


def test_another_users_debug_key_is_another(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = debug_key()
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "other"))
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert debug_key().private.public_key().public_bytes(*form) != first.private.public_key().public_bytes(*form)
    assert home.exists()


@posix
def test_only_the_user_can_read_the_debug_key(home: Path) -> None:
    old = os.umask(0)
    try:
        debug_key()
    finally:
        os.umask(old)
    path = home / "android" / "debug.p12"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(ApkError, match="others may read the debug key"):
        debug_key()


@pytest.mark.full
def test_processes_that_make_the_debug_key_at_once_get_one(home: Path) -> None:
    program = "from edgemem.android.keys import debug_key; print(debug_key().certificates[0].hex())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def made(_: int) -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(made, range(3)))) == 1
    assert [p.name for p in (home / "android").iterdir()] == ["debug.p12"]


def test_a_debug_key_that_cannot_be_kept_or_read_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (home / "android").write_bytes(b"a file where the folder should be")
    with pytest.raises(ApkError, match="cannot keep the debug key"):
        debug_key()
    (home / "android").unlink()
    (home / "android").mkdir()
    path = home / "android" / "debug.p12"
    path.write_bytes(b"damaged")
    path.chmod(0o600)
    with pytest.raises(ApkError, match="cannot open the key"):
        debug_key()
    monkeypatch.setattr(keys, "cache_folder", lambda _: None)
    with pytest.raises(ApkError, match="no folder for caches"):
        debug_key()


def test_without_cryptography_the_extra_is_named(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = store(tmp_path, "p256")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for act in (debug_key, lambda: load_key(path, "secret")):
        with pytest.raises(MissingDependencyError, match=r"pip install 'edgemem-planner\[android\]'"):
            act()
    assert not home.exists()
