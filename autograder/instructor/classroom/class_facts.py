"""The facts of a class that concern submissions: roster, times, due dates, and who is missing."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from autograder.instructor.classroom.roster import Person, enter_roster, read_roster
from autograder.instructor.classroom.submission_states import StateRow
from autograder.instructor.course import Course, read_withdrawn
from autograder.instructor.gradebook import as_utc
from autograder.instructor.nbgrader_plugins import Times, load_times, settle_lateness
from autograder.instructor.pipeline import State


@dataclass(frozen=True)
class ClassFacts:
    """The roster, the times and the due dates of a class.

    Attributes:
        people: the roster, in its order; empty if there is none.
        times: when submissions were handed in, as the instructor recorded it.
        due: the due date of each assignment that has one, without extensions.
        points: the maximum score of each assignment.
        withdrawn: the students who have left the class.
    """

    people: Sequence[Person]
    times: Times
    due: dict[str, datetime]
    points: dict[str, float]
    withdrawn: Collection[str] = ()

    def due_for(self, student: str, assignment: str) -> datetime | None:
        """Return when an assignment is due for a student, with their extension, if any."""
        due = self.due.get(assignment)
        extension = self.times.rules.extension(student, assignment, due)
        return due if due is None or extension is None else due + extension


def check_class_files(course: Course) -> None:
    """Check that the roster and the class's file can be understood, before anything is graded.

    Raises:
        ClassError: one of them cannot.
    """
    read_roster(course)
    load_times(course)


def enter_people(course: Course) -> list[Person]:
    """Enter the roster into the gradebook, from which feedback pages take names; return it.

    Raises:
        RosterError: it cannot be understood.
    """
    people = read_roster(course)
    with course.open_gradebook() as gradebook:
        enter_roster(gradebook, people)
    return people


def enter_roster_and_times(course: Course) -> ClassFacts:
    """Enter the roster and all times into the gradebook, and compute late penalties again.

    Raises:
        ClassError: one of the class's files cannot be understood.
    """
    people = enter_people(course)
    settle_lateness(course)
    times = load_times(course)
    with course.open_gradebook() as gradebook:
        due = {a.name: as_utc(a.duedate) for a in gradebook.assignments if a.duedate is not None}
        points = {a.name: float(a.max_score) for a in gradebook.assignments}
    due |= times.rules.due or {}
    return ClassFacts(people, times, due, points, [*read_withdrawn(course.grading)])


def add_times(facts: ClassFacts, rows: Sequence[StateRow]) -> Iterator[StateRow]:
    """Yield the rows with their lateness, and with times where nbgrader has no submission."""
    for row in rows:
        naive, source = facts.times.find(row.student, row.assignment)
        row = replace(row, time_from=source)
        if not row.is_graded and naive is not None:
            due = facts.due_for(row.student, row.assignment)
            row = replace(row, handed_in=as_utc(naive), due=due)
        yield replace(row, seconds_late=facts.times.rules.seconds_late(row.due, row.handed_in))


def find_missing_submissions(
    facts: ClassFacts, rows: Sequence[StateRow], now: datetime, closed: Collection[str] = ()
) -> Iterator[StateRow]:
    """Yield a row for each submission that somebody in the roster has not made.

    Args:
        facts: the class's roster and due dates.
        rows: the rows of submissions. Their assignments are expected from everybody in the
            roster, as are those whose due date is over.
        now: the current time; a submission that is due later is awaited, and not missing.
        closed: the students whose folders may not be read here, so that nobody knows.
    """
    submitted = {(row.student, row.assignment) for row in rows}
    due = [assignment for assignment, when in facts.due.items() if when < now]
    for assignment in sorted({row.assignment for row in rows}.union(due)):
        for person in facts.people:
            if (person.id, assignment) not in submitted:
                until = facts.due_for(person.id, assignment)
                is_due = until is None or until < now
                state = State.MISSING if is_due else State.AWAITED
                if person.id in closed:
                    state = State.FAILED
                points = facts.points.get(assignment, 0.0)
                yield StateRow(person.id, assignment, state, points=points, due=until)
