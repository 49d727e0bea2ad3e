"""The runner of pages finds what is wrong with a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.snippets.page import Page, PageError

if TYPE_CHECKING:
    from pathlib import Path


def run(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "page"
    folder.mkdir()
    page = tmp_path / "page.md"
    page.write_text(text)
    Page(page, folder).run()
    return folder


def test_blocks_run_in_one_folder_and_one_namespace(tmp_path: Path) -> None:
    folder = run(
        tmp_path,
        "```csv a.csv\nx\n```\n```sh\ncat a.csv\n```\n```text\nx\n```\n"
        '```python\nfrom pathlib import Path\na = Path("a.csv").read_text()\n```\n```python\nprint(a, end="")\n```\n'
        '```text\nx\n```\n```console\n$ cat a.csv \\\n>   a.csv\nx\nx\n$ echo "$((6 * 7))"\n42\n```\n',
    )
    assert (folder / "a.csv").read_text() == "x\n"


def test_a_terminal_has_80_columns(tmp_path: Path) -> None:
    run(tmp_path, "```console\n$ python -c 'import os; print(os.get_terminal_size(1).columns)'\n80\n```\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```sh\nfalse\n```\n", "page.md:2: exit status 1 of\nfalse"),
        ("```sh\nfalse | true\n```\n", "exit status 1"),
        ("```console\n$ false\n```\n", "exit status 1"),
        ("```console\n$ echo a\nb\n```\n", "the page shows\nb"),
        ("```sh\necho a\n```\n```text\nb\n```\n", "the page shows\nb"),
        ("```text\nb\n```\n", "no output that this text could be"),
        ("```fortran\nb\n```\n", "nothing says what to do with a block of 'fortran'"),
        ("```\nb\n```\n", "nothing says what to do with a block of ''"),
        ("```c\nint main(void) {}\n```\n", "nothing says what to do with a block of 'c'"),
        ("```python a.py\n```\n", "'python' is not saved"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(PageError) as caught:
        run(tmp_path, text)
    assert why in str(caught.value)


def test_errors_of_python_are_those_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(tmp_path, "text\n\n```python\n1 / 0\n```\n")
    assert caught.traceback[-1].lineno == 3  # counted from 0


def test_a_block_that_ci_cannot_run_is_left_out(tmp_path: Path) -> None:
    run(tmp_path, "```sh no-ci: needs a GPU\nfalse\n```\n")
