"""Known answers get the same verdict in a class as in the notebook, whose bank they are in."""

from collections.abc import Iterable

import pytest

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring.bank import KnownAnswer
from tests.conftest import some_of
from tests.exercises.solutions import BANKS

pytest.importorskip("nbgrader")

from autograder.instructor.pipeline import Records
from tests.instructor.room import Classroom

pytestmark = [pytest.mark.bubblewrap, pytest.mark.timeout(14_400)]


def spread(known: Iterable[KnownAnswer]) -> list[dict[str, KnownAnswer]]:
    """Spread answers over as few submissions as possible, each with one answer to an exercise."""
    submissions: list[dict[str, KnownAnswer]] = []
    for entry in known:
        free = (each for each in submissions if entry.exercise not in each)
        place = next(free, None)
        if place is None:
            submissions.append(place := {})
        place[entry.exercise] = entry
    return submissions


def differing(room: Classroom, submissions: list[dict[str, KnownAnswer]]) -> list[KnownAnswer]:
    """Grade submissions; return the answers whose verdicts are not as the bank says."""
    for number, answers in enumerate(submissions):
        codes = {exercise: entry.code for exercise, entry in answers.items()}
        room.hand_in(f"student-{number}", codes)
    room.nbgrader("autograde", room.assignment, "--force")
    records = Records(room.root / "grading" / "records")
    found = []
    for number, answers in enumerate(submissions):
        record = records.read(f"student-{number}", room.assignment)
        assert record is not None
        verdicts = record.notebooks[room.assignment].verdicts_by_exercise()
        for exercise, entry in answers.items():
            if not entry.agrees_with(verdicts[exercise]):
                found.append(entry)
    return found


@pytest.mark.parametrize("assignment", some_of([*NOTEBOOKS]))
def test_a_class_and_a_notebook_agree_on_known_answers(assignment, tmp_path):
    room = Classroom.at(tmp_path / "together", assignment, calibrated=False)
    room.grade_uncalibrated()
    room.nbgrader("generate_assignment", assignment, "--create", "--force")
    suspects = differing(room, spread(some_of(BANKS[assignment])))
    if not suspects:
        return
    # an answer may replace a name that a later cell of the notebook uses
    alone = Classroom.at(tmp_path / "alone", assignment, calibrated=False)
    alone.grade_uncalibrated()
    alone.nbgrader("generate_assignment", assignment, "--create", "--force")
    left = differing(alone, [{entry.exercise: entry} for entry in suspects])
    assert not [(entry.exercise, entry.title) for entry in left]
