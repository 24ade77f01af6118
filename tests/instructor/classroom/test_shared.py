"""A class of several graders in one Unix group; and a disk that is full, or read-only."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from autograder.instructor.__main__ import main
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins import entering
from autograder.instructor.pipeline import record
from shardlings.devices import environment
from tests.conftest import ROOT, some_of
from tests.instructor.tiny_class import ASSIGNMENT, hand_in, scores, tiny_class

GROUP, FIRST, SECOND = 61_000, 61_001, 61_002


def grade(root: Path, user: int) -> "subprocess.CompletedProcess[str]":
    """Grade as a user of the group; with a home that there is."""
    home = root.parent / f"home-{user}"
    home.mkdir(exist_ok=True)
    os.chown(home, user, user)
    kept = {name: os.environ[name] for name in os.environ if name not in environment()}
    return subprocess.run(
        [sys.executable, "-m", "autograder.instructor", "--root", str(root), "grade", "--again"],
        cwd=root, user=user, group=user, extra_groups=[GROUP],
        env={**kept, "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


def others_can_run_python() -> bool:
    """Check whether this process may become another user who can start this Python."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    python = Path(sys.executable).resolve()
    return all(folder.stat().st_mode & 0o001 for folder in (*python.parents, ROOT))


def test_all_that_is_written_is_the_groups_to_write_to(tmp_path):
    root = tiny_class(tmp_path / "course", 1)
    config = root / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.CourseDirectory.groupshared = True\n")
    mask = os.umask(0o077)
    try:
        for _ in range(2):
            assert main(["--root", str(root), "grade"]) == 0
    finally:
        os.umask(mask)
    made = [path for path in (root / "grading").rglob("*") if "submitted" not in path.parts]
    assert len(made) > 10
    for path in made:
        is_copy = path.parent.name == "backups"  # which nobody writes to
        wanted = 0o2070 if path.is_dir() else 0o040 if is_copy else 0o060
        assert path.stat().st_mode & wanted == wanted, path


@pytest.mark.skipif(not others_can_run_python(), reason="no other user can run this Python")
def test_two_of_a_group_grade_one_class_in_turn():
    place = Path(tempfile.mkdtemp(prefix="shardlings-group-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        root = tiny_class(place / "course", 2)
        config = root / "nbgrader_config.py"
        config.write_text(config.read_text() + "\nc.CourseDirectory.groupshared = True\n")
        for path in (root, *root.rglob("*")):
            os.chown(path, FIRST, GROUP)
            path.chmod(0o2775 if path.is_dir() else 0o664)
        for user in (FIRST, SECOND, FIRST):
            done = grade(root, user)
            assert done.returncode == 0, done.stdout + done.stderr
        assert scores(root) == {"student-00": 0, "student-01": 2}
        for path in (root / "grading").rglob("*"):
            assert path.stat().st_gid == GROUP, path
    finally:
        shutil.rmtree(place)


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    root = tiny_class(tmp_path_factory.mktemp("class") / "before", 0)
    hand_in(root, "ann", "double = 2")
    assert main(["--root", str(root), "grade"]) == 0
    return root


@pytest.mark.parametrize(
    ("module", "what"),
    some_of(
        [(entering, "write_atomically"), (record, "write_atomically"), (entering, "enter_scores")],
        at_least=2,
    ),
)
def test_a_full_disk_is_a_sentence_and_the_next_run_goes_on(
    before, tmp_path, capsys, monkeypatch, module, what
):
    root = shutil.copytree(before, tmp_path / "course")
    path = root / "grading" / "submitted" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.write_text(path.read_text().replace("double = 2", "double = 3"))
    with monkeypatch.context() as patch:
        patch.setattr(module, what, full)
        assert main(["--root", str(root), "grade"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "No space left on device" in said
    assert "Traceback" not in said
    assert not [*(root / "grading").rglob(".*.new"), *(root / "grading").rglob(".*.making")]
    assert main(["--root", str(root), "grade"]) == 0
    assert scores(root)["ann"] == 0


def test_a_folder_that_may_not_be_written_to_is_a_sentence(before, tmp_path, capsys, monkeypatch):
    root = shutil.copytree(before, tmp_path / "course")

    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("autograder.instructor.classroom.reporting.renew_class_files", read_only)
    assert main(["--root", str(root), "report"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "A file could not be read or written: [Errno 30] Read-only file system." in said
    assert "run the same command again" in said
    assert Course(root).find_trouble() == ""
