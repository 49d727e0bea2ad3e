from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from edgemem.files import atomic_write

if TYPE_CHECKING:
    from pathlib import Path


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"old")

    def fail() -> None:
        with atomic_write(file) as out:
            out.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_success_replaces_and_keeps_permissions_and_links(tmp_path: Path) -> None:
    file, link = tmp_path / "out", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    with atomic_write(link) as out:
        out.write(b"new")
    assert file.read_bytes() == b"new"
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    plain, atomic = tmp_path / "plain", tmp_path / "atomic"
    plain.write_bytes(b"")
    with atomic_write(atomic):
        pass
    assert plain.stat().st_mode == atomic.stat().st_mode


def test_an_error_names_the_file_that_the_user_named(tmp_path: Path) -> None:
    wanted = tmp_path / "no folder" / "plan.json"
    with pytest.raises(OSError) as caught, atomic_write(wanted):
        pass
    assert caught.value.filename == str(wanted)
