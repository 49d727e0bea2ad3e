"""Packages of small models, made by the command line with small stand-ins for ONNX Runtime and our library."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from models.build import build
from tests.android_parts import NATIVE, archive_of_runtime, dex_file, libraries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["edgemem", "make_models", "new_key", "package_of", "refusal", "tools_replaced"]


def edgemem(*args: object) -> Result:
    """What came of a command."""
    return CliRunner().invoke(main, [str(a) for a in args])


def refusal(done: Result, code: int) -> str:
    """The one line on stderr of a command that failed with this exit code."""
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def make_models(folder: Path) -> Path:
    """The folder, with a face detector: plain, planned, and recorded as well; and with a planned classifier."""
    onnx.save(build("blazeface", size="small"), folder / "faces.onnx")
    onnx.save(build("mobilenet_v2", size="small"), folder / "classes.onnx")
    for name, more in (("faces", []), ("classes", []), ("recorded", ["--record", "--android"])):
        source = folder / ("faces.onnx" if more else f"{name}.onnx")
        done = edgemem("plan", source, "-o", folder / f"{name}.planned.onnx", *more)
        assert done.exit_code == 0, done.output
    return folder


@contextmanager
def tools_replaced(folder: Path) -> Iterator[Path]:
    """An archive of ONNX Runtime to package; in the block, code and our library are made at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEMEM_CACHE", str(folder / "cache"))
        patch.setattr("edgemem.android.toolchain.dex", lambda _: (dex_file(1), dex_file(2)))
        patch.setattr("edgemem.android.toolchain.native_library", lambda abi: libraries(abi)[NATIVE])
        yield archive_of_runtime(folder / "onnxruntime.aar")


def package_of(model: Path, aar: Path, folder: Path) -> bytes:
    """The package of a model, written into the folder."""
    path = folder / "demo.apk"
    done = edgemem("android", "package", model, "-o", path, "--aar", aar)
    assert done.exit_code == 0, done.output
    assert all(line.endswith(" ...") for line in done.stderr.splitlines())  # what is downloaded and built at first
    return path.read_bytes()


def new_key(folder: Path) -> Path:
    """A key of its own, by an elliptic curve, whose file has a password."""
    import datetime as dt

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import pkcs12
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=10_000))
        .sign(key, hashes.SHA256())
    )
    path = folder / "key.p12"
    encryption = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"key", key, certificate, None, encryption))
    return path
