"""`edgemem diff REV:PATH`: files as a git commit has them."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem.cli.main import main
from tests.difference_models import Layers

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3\n"


def diff(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


def git(*arguments: str) -> None:
    identity = [word for key in ("user.name=a", "user.email=a@b") for word in ("-c", key)]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def commit() -> None:
    git("add", "-A")
    git("commit", "-qm", "a change")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of 16 x 16, changed to one of 17 x 17 by the last commit, and to one of 18 x 18 since."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "repository"
    (folder / "sub").mkdir(parents=True)
    monkeypatch.chdir(folder)
    git("init", "-q")
    for size in (16, 17):
        Layers(size=size).save(folder / "sub" / "m.onnx")
        commit()
    Layers(size=18).save(folder / "sub" / "m.onnx")
    return folder


def arenas(*arguments: object) -> list[int]:
    done = diff(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found: list[int] = json.loads(done.output)["figures"]["arena"]
    return found


def arena(size: int) -> int:
    return 3 * 8 * size * size * 4  # a convolution's input and result, and the skip


def leftovers(repository: Path) -> list[Path]:
    return list((repository.parent / "temporary").iterdir())


@pytest.mark.parametrize(
    ("before", "after", "sizes"),
    [
        ("HEAD~1:sub/m.onnx", "sub/m.onnx", (16, 18)),
        ("HEAD:sub/m.onnx", "HEAD~1:sub/m.onnx", (17, 16)),
        ("sub/m.onnx", "HEAD:./sub/m.onnx", (18, 17)),
    ],
)
def test_either_side_may_be_of_a_commit(before: str, after: str, sizes: tuple[int, int], repository: Path) -> None:
    Layers(skip=(1, 4)).save(repository / "other.onnx")
    expected = [edgemem.diff(repository / "other.onnx", Layers(size=n).save(repository / f"{n}.onnx")) for n in sizes]
    assert arenas(before, after) == [found.arena.after for found in expected]
    data = json.loads(diff(before, after, "--json").output)
    assert (data["before"], data["after"]) == tuple(n if ":" in n else Path(n).name for n in (before, after))
    assert not leftovers(repository)


def test_paths_count_from_the_top_of_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "sub")
    assert arenas("HEAD:sub/m.onnx", "m.onnx") == arenas("HEAD:./m.onnx", "m.onnx")
    refused = diff("HEAD:m.onnx", "m.onnx")
    assert refused.exit_code == 1
    assert "no file HEAD:m.onnx, and git has none: " in refused.output


def test_a_file_whose_name_has_a_colon_is_a_file(repository: Path) -> None:
    (repository / "HEAD:sub").mkdir()
    Layers(size=20).save(repository / "HEAD:sub" / "m.onnx")
    assert arenas("HEAD~1:sub/m.onnx", "HEAD:sub/m.onnx")[1] == arenas("sub/m.onnx", "HEAD:sub/m.onnx")[1]
    assert edgemem.diff("HEAD:sub/m.onnx", "sub/m.onnx").before.name == "m.onnx"


def test_weights_in_other_files_are_those_of_the_commit(repository: Path) -> None:
    Layers().save(repository / "m.onnx")
    for folder in (repository / "sub", repository):  # onnx looks for the second file in the current folder, too
        onnx.save(
            onnx.load("m.onnx"), folder / "w.onnx", save_as_external_data=True, location="data.bin", size_threshold=0
        )
    commit()
    for folder in (repository, repository / "sub"):
        (folder / "data.bin").unlink()
        assert set(arenas(f"HEAD:{(folder / 'w.onnx').relative_to(repository)}", "m.onnx")) == {arena(16) * 2 // 3}
    commit()
    lost = diff("HEAD:w.onnx", "m.onnx")
    assert lost.exit_code == 1
    assert "no file HEAD:data.bin, and git has none: " in lost.output
    (repository / "data.bin").write_bytes(POINTER)
    commit()
    assert "HEAD:data.bin is a pointer of Git LFS" in diff("HEAD:w.onnx", "m.onnx").output
    assert not leftovers(repository)


@pytest.mark.parametrize("location", ["../x", "/x", "a/../../x", "C:/x", "w.onnx", "."])
def test_no_weights_are_written_outside_the_copy(location: str, repository: Path) -> None:
    path = repository / "w.onnx"
    onnx.save(onnx.load(Layers().save(path)), path, save_as_external_data=True, location="data.bin", size_threshold=0)
    path.write_bytes(_with_location(path, location))
    commit()
    refused = diff("HEAD:w.onnx", "sub/m.onnx")
    assert refused.exit_code == 1
    assert f"HEAD:w.onnx keeps weights in '{location}'" in refused.output
    assert not leftovers(repository)


def _with_location(path: Path, location: str) -> bytes:
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    return bytes(model.SerializeToString())


def test_a_symbolic_link_is_the_file_that_it_leads_to(repository: Path) -> None:
    for name, target in (("link.onnx", "sub/m.onnx"), ("gone.onnx", "nosuch.onnx"), ("out.onnx", "/etc/hostname")):
        (repository / name).symlink_to(target)
    commit()
    after, before = arenas("HEAD:link.onnx", "HEAD~1:sub/m.onnx")
    assert [after, before] == arenas("sub/m.onnx", "HEAD~1:sub/m.onnx")
    assert after > before
    for name in ("gone.onnx", "out.onnx"):
        refused = diff(f"HEAD:{name}", "sub/m.onnx")
        assert refused.exit_code == 1
        assert f"HEAD:{name} is a symbolic link that leads to no file in that commit" in refused.output


def test_a_pointer_of_git_lfs_is_refused_by_name(repository: Path) -> None:
    (repository / "sub" / "m.onnx").write_bytes(POINTER)
    commit()
    refused = diff("HEAD~1:sub/m.onnx", "HEAD:sub/m.onnx")
    assert refused.exit_code == 1
    assert "HEAD:sub/m.onnx is a pointer of Git LFS" in refused.output
    assert not leftovers(repository)


@pytest.mark.parametrize(
    "name", ["nosuch:sub/m.onnx", "HEAD~9:sub/m.onnx", "HEAD:nosuch.onnx", "HEAD:sub", ":sub/m.onnx", "HEAD:", "HEAD:/"]
)
def test_what_git_does_not_have_is_named(name: str, repository: Path) -> None:
    refused = diff(name, "sub/m.onnx")
    assert refused.exit_code == 1
    assert refused.output.startswith(f"edgemem: no file {name}, and ")
    assert not leftovers(repository)


def test_no_revision_is_an_option_of_git(repository: Path) -> None:
    for name in ("--output=made:sub/m.onnx", "-h:sub/m.onnx"):
        refused = diff("--", name, "sub/m.onnx")
        assert refused.exit_code == 1
        assert "is no REV:PATH either" in refused.output
    assert not (repository / "made").exists()


def test_without_a_repository_or_git_the_error_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository.parent)
    Layers().save(repository.parent / "m.onnx")
    assert "not a git repository" in diff("HEAD:m.onnx", "m.onnx").output
    monkeypatch.setenv("PATH", str(repository))
    refused = diff("HEAD:m.onnx", "m.onnx")
    assert refused.exit_code == 1
    assert refused.output == (
        "edgemem: no file HEAD:m.onnx; where it is a revision and a path, git has to be installed [E101]\n"
    )


@pytest.mark.parametrize("file", ["m.onnx", "m.tflite", "m.edgemem", "m.html"])
def test_an_error_names_which_of_the_two_files_it_is_about(file: str, repository: Path) -> None:
    (repository / file).write_bytes(b"none")
    commit()
    for name in (f"HEAD:{file}", f"./{file}", str(repository / file)):
        refused = diff("sub/m.onnx", name)
        assert refused.exit_code in (1, 4)
        assert refused.output.startswith(f"edgemem: {name}: ")
        assert str(tempfile.gettempdir()) not in refused.output


def test_a_file_that_is_not_there_is_refused_as_before(repository: Path) -> None:
    refused = diff("nosuch.onnx", repository / "sub" / "m.onnx")
    assert (refused.exit_code, refused.output) == (1, "edgemem: no file nosuch.onnx [E101]\n")
