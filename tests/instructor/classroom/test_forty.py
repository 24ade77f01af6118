"""A class of forty, of whom ten attack and ten hand in what is broken: it is graded to its end."""

import io

import pytest
from rich.console import Console

from autograder.instructor.classroom import grading
from autograder.instructor.course import Course
from tests.instructor.course.broken_files import REFUSED
from tests.instructor.room import LAST, RIGHT, Classroom

pytestmark = pytest.mark.bubblewrap
ATTACKS = (
    "os.kill(os.getpid(), 9)",
    "os._exit(3)",
    "[os.fork() for _ in range(12)]",
    "bytearray(64 * 2**30)",
    "open('/tmp/x', 'wb').write(bytes(2**29))",
    "[print('x' * 10**6) for _ in range(50)]",
    "sys.modules['autograder'] = None",
    "raise SystemExit",
    "os.makedirs('{root}/grading'); open('{root}/grading/gradebook.db', 'w').write('x')",
    "sys.stdout.close()",
)
BROKEN = [*REFUSED][:10]
HONEST: tuple[dict[str, str], ...] = (
    RIGHT,
    {"1.1": RIGHT["1.1"]},
    {},
    {**RIGHT, "1.2": "raise ValueError"},
)


def class_of(room, attacks=(), broken=(), honest=0):
    """Hand in, and grade."""
    room.forget_the_others()
    for i, attack in enumerate(attacks):
        code = f"import os, sys\n{attack.format(root=room.root)}"
        room.hand_in(f"attacker-{i}", {"1.1": RIGHT["1.1"]}, first=code)
    for i, spoil in enumerate(broken):
        spoil(room.hand_in(f"broken-{i}", RIGHT))
    for i in range(honest):
        room.hand_in(f"honest-{i:02}", HONEST[i % len(HONEST)])
    said = io.StringIO()
    status = grading.grade_class(Course(room.root), Console(file=said, width=200))
    return status, said.getvalue(), room.scores()


@pytest.mark.slow
def test_forty(tmp_path):
    alone = class_of(Classroom.at(tmp_path / "alone", until=LAST), honest=len(HONEST))[2]
    room = Classroom.at(tmp_path / "forty", until=LAST)
    status, said, scores = class_of(room, ATTACKS, BROKEN, honest=20)
    assert status == 0, said
    for i in range(20):
        assert scores[f"honest-{i:02}"] == alone[f"honest-{i % len(HONEST):02}"]
    assert all(sum(scores[f"attacker-{i}"].values()) <= 1 for i in range(10))
    rows = (room.root / "grading" / "grades.csv").read_text("utf-8-sig").splitlines()[1:]
    assert len(rows) == 40
    assert sum(",broken," in row for row in rows) == 10
