"""Files of a class that two commands, or two workers, write at the same time."""

import errno
import os

import pytest

from autograder.instructor.commands import swap_folder, write_atomically, write_first


def other_one_comes_first(monkeypatch, move, other):
    """Have another process do the same, from its beginning to its end, just before a file moves."""
    real = getattr(os, move)

    def moves(*paths):
        monkeypatch.setattr(os, move, real)
        other()
        real(*paths)

    monkeypatch.setattr(os, move, moves)


def test_a_name_may_be_as_long_as_the_disk_allows(tmp_path):
    path = tmp_path / f"{'n' * 252}.py"
    write_atomically(path, b"ours")
    assert path.read_bytes() == b"ours"


def test_who_writes_last_wins_and_nobody_fails(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    other_one_comes_first(monkeypatch, "replace", lambda: write_atomically(path, b"theirs"))
    write_atomically(path, b"ours")
    assert path.read_bytes() == b"ours"
    assert os.listdir(tmp_path) == [path.name]


def test_who_writes_first_wins_and_everybody_gets_that(tmp_path, monkeypatch):
    path, got = tmp_path / "secret", []
    other_one_comes_first(monkeypatch, "link", lambda: got.append(write_first(path, b"theirs")))
    assert write_first(path, b"ours") == b"theirs"
    assert got == [b"theirs"]
    assert write_first(path, b"later") == b"theirs"
    assert os.listdir(tmp_path) == [path.name]


def test_a_disk_may_have_no_hard_links(tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    path = tmp_path / "secret"
    monkeypatch.setattr(os, "link", refuse)
    assert write_first(path, b"first") == b"first"
    assert write_first(path, b"second") == b"first"
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_is_there_needs_no_permission_to_write(tmp_path, monkeypatch):
    path = tmp_path / "secret"
    path.write_bytes(b"first")
    monkeypatch.setattr(type(path), "write_bytes", lambda *_: pytest.fail("it is there already"))
    assert write_first(path, b"second") == b"first"


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_bytes(b"old")

    def fail(file, contents):
        file.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(type(path), "write_bytes", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [path.name]


def test_a_folder_that_cannot_be_replaced_is_as_it_was(tmp_path):
    folder, aside = tmp_path / "graded", tmp_path / "aside"
    folder.mkdir()
    (folder / "page").write_text("old")
    with pytest.raises(FileNotFoundError):
        swap_folder(folder, tmp_path / "missing", aside)
    assert (folder / "page").read_text() == "old"
    assert not aside.exists()
    (tmp_path / "new").mkdir()
    swap_folder(folder, tmp_path / "new", aside)
    assert os.listdir(folder) == []
    assert (aside / "page").read_text() == "old"
