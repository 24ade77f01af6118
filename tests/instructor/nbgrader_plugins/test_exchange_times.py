"""Collecting refuses the unsafe things that students can put into nbgrader's exchange."""

import json
import os
import pwd
import shutil
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from nbgrader.exchange.default import ExchangeCollect

from tests.instructor.classroom import plain_course
from tests.instructor.classroom.plain_course import FIRST, grades, hand_in

EARLY, LATE, FUTURE = (f"{year}-01-01 00:00:00 UTC" for year in (2020, 2021, 2099))


class Exchange:
    """A course with an exchange."""

    def __init__(self, root):
        self.room = plain_course.plain_course(root / "class", (FIRST,))
        self.root = root / "exchange"
        self.inbound = self.root / "shardlings" / "inbound"
        self.inbound.mkdir(parents=True)
        self.submitted = self.room.root / "grading" / "submitted"

    def submit(self, student, time, total="1 + 2"):
        """Submit a sum, as `nbgrader submit` does, and return the folder."""
        hand_in(self.room, student, total=total)
        folder = self.place(student, time)
        shutil.move(self.submitted / student / FIRST, folder)
        (folder / "timestamp.txt").write_text(time)
        return folder

    def place(self, student, time):
        return self.inbound / f"{student}+{FIRST}+{time}+aBc"

    def collect(self, *options):
        return self.room.nbgrader("collect", FIRST, f"--Exchange.root={self.root}", *options)

    def answer(self, student):
        """The sum in a collected submission."""
        text = (self.submitted / student / FIRST / f"{FIRST}.ipynb").read_text()
        return next(total for total in ("1 + 2", "1 + 3", "9") if f"total = {total}" in text)


@pytest.fixture
def exchange(tmp_path):
    return Exchange(tmp_path)


def test_links_are_refused_and_the_newest_safe_submission_is_collected(exchange):
    others = exchange.submit("ann", EARLY)
    exchange.submit("bo", EARLY, total="1 + 3")
    exchange.place("bo", LATE).symlink_to(others)
    inside = exchange.submit("bo", FUTURE)
    (inside / f"{FIRST}.ipynb").unlink()
    (inside / f"{FIRST}.ipynb").symlink_to(exchange.room.root / "solutions" / FIRST)
    said = exchange.collect()
    assert (
        said.count(f"{FIRST}.ipynb is a link. Hand in the file itself, and remove the link.") == 1
    )
    assert said.count("+aBc is a link. Hand in the file itself, and remove the link.") == 1
    assert exchange.answer("ann") == "1 + 2"
    assert exchange.answer("bo") == "1 + 3"


def test_a_link_does_not_replace_what_was_collected(exchange):
    exchange.submit("ann", EARLY, total="1 + 3")
    exchange.collect()
    exchange.place("ann", LATE).symlink_to(exchange.room.root / "solutions" / FIRST)
    assert "is a link" in exchange.collect("--update")
    assert exchange.answer("ann") == "1 + 3"


def test_a_time_in_the_future_counts_for_nothing_and_a_later_submission_replaces_it(exchange):
    exchange.submit("ann", FUTURE, total="1 + 3")
    exchange.collect()
    known = json.loads((exchange.room.root / "grading" / "collected_times.json").read_bytes())
    when = datetime.fromisoformat(known["ann"][FIRST]["time"])
    assert timedelta() <= datetime.now(UTC) - when < timedelta(minutes=10)
    exchange.submit("ann", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} UTC")
    exchange.collect("--update")
    assert exchange.answer("ann") == "1 + 2"


@pytest.mark.slow
def test_students_whose_names_differ_only_in_case_are_two(exchange):
    exchange.submit("Ann", EARLY)
    exchange.submit("ann", LATE, total="9")
    exchange.collect()
    status, said = exchange.room.run("autograder.instructor", "--root", ".", "grade")
    assert status == 0, said
    scores = {student: row["score"] for (student, _), row in grades(exchange.room).items()}
    assert {student: float(score) for student, score in scores.items()} == {"Ann": 10, "ann": 0}


@pytest.mark.parametrize("time", ["yesterday", "99999999999999999999", ""])
def test_a_folder_with_a_strange_name_stops_nobody(exchange, time):
    exchange.submit("ann", EARLY)
    exchange.submit("bo", time)
    said = exchange.collect()
    assert "`nbgrader submit` names folders differently. Submit it again." in said
    assert not (exchange.submitted / "bo" / FIRST).exists()
    assert exchange.answer("ann") == "1 + 2"


def test_read_only_folders_can_be_replaced(exchange):
    folder = exchange.submit("ann", EARLY, total="1 + 3")
    (folder / "data").mkdir()
    (folder / "data" / "more.txt").touch()
    for path in (folder / "timestamp.txt", folder / "data", folder):
        path.chmod(0o555)
    exchange.collect()
    collected = exchange.submitted / "ann" / FIRST
    assert all(path.stat().st_mode & 0o200 for path in (collected, collected / "data"))
    folder.chmod(0o755)
    exchange.submit("ann", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} UTC")
    exchange.collect("--update")
    assert exchange.answer("ann") == "1 + 2"


def test_a_submission_that_becomes_a_link_while_it_is_copied_is_not_collected(
    exchange, monkeypatch
):
    folder, copy = exchange.submit("ann", EARLY), ExchangeCollect.do_copy

    def copy_and_link(self, src, dest):
        copy(self, src, dest)
        (folder / "later.txt").symlink_to("/etc/hostname")

    monkeypatch.setattr(ExchangeCollect, "do_copy", copy_and_link)
    assert "changed while it was copied. Collect again." in exchange.collect()
    assert not (exchange.submitted / "ann" / FIRST).exists()
    assert not (exchange.room.root / "grading" / "collected_times.json").exists()


def test_another_accounts_folder_is_refused_where_the_student_has_an_account(exchange, monkeypatch):
    exchange.submit("ann", EARLY)
    somebody = SimpleNamespace(pw_uid=os.getuid() + 1)
    monkeypatch.setattr(pwd, "getpwnam", lambda _: somebody)
    assert "its owner is not ann. Ask who it is." in exchange.collect()
    assert not (exchange.submitted / "ann" / FIRST).exists()
    exchange.collect("--ExchangeCollect.check_owner=False")
    assert exchange.answer("ann") == "1 + 2"
