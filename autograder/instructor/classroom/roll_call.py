"""A class as its instructor describes it, the gradebook in step with that, and who is missing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nbgrader.api import Gradebook

from autograder.instructor.classroom.roster import Person, enter_roster, read_roster
from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins import Times, settle_lateness, times_of
from autograder.instructor.pipeline import State


@dataclass(frozen=True)
class Facts:
    """Who is in a class, and when what is due.

    Attributes:
        people: the roster, in its order; empty where there is none.
        times: when things were handed in, by the instructor's word.
        due: when each assignment is due for all, where that is known.
        points: the most points that there are for each assignment.
    """

    people: Sequence[Person]
    times: Times
    due: dict[str, datetime]
    points: dict[str, float]

    def due_for(self, student: str, assignment: str) -> datetime | None:
        """When an assignment is due for somebody, with the extension that they have."""
        due = self.due.get(assignment)
        more = self.times.rules.extension(student, assignment, due)
        return due if due is None or more is None else due + more


def check_class_files(course: Course) -> None:
    """See to it that what an instructor wrote of a class can be understood, before it is needed.

    Raises:
        ClassError: it cannot.
    """
    read_roster(course)
    times_of(course)


def enter_people(course: Course) -> list[Person]:
    """Enter the roster into the gradebook, from which pages have their names; who is in it.

    Raises:
        RosterError: it cannot be understood.
    """
    people, about = read_roster(course), course.api.coursedir
    with Gradebook(about.db_url, about.course_id) as gradebook:
        enter_roster(gradebook, people)
    return people


def settle(course: Course) -> Facts:
    """Enter the roster and all times into the gradebook, and find penalties for being late anew.

    Raises:
        ClassError: what is written of the class cannot be understood.
    """
    people, about = enter_people(course), course.api.coursedir
    settle_lateness(course)
    times = times_of(course)
    with Gradebook(about.db_url, about.course_id) as gradebook:
        due = {each.name: each.duedate.replace(tzinfo=UTC)
               for each in gradebook.assignments if each.duedate is not None}  # fmt: skip
        points = {each.name: float(each.max_score) for each in gradebook.assignments}
    return Facts(people, times, {**due, **(times.rules.due or {})}, points)


def timed(facts: Facts, rows: Sequence[Row]) -> Iterator[Row]:
    """The same rows, those also with their times that nbgrader has no submission of."""
    for row in rows:
        naive = facts.times.handed_in(row.student, row.assignment)
        if row.graded or naive is None:
            yield row
            continue
        came, due = naive.replace(tzinfo=UTC), facts.due_for(row.student, row.assignment)
        late = max((came - due).total_seconds(), 0.0) if due is not None else 0.0
        yield replace(row, handed_in=came, due=due, seconds_late=late)


def missing(facts: Facts, rows: Sequence[Row], now: datetime) -> Iterator[Row]:
    """A row for each of the roster who has not handed in what others have, or what was due.

    Args:
        facts: the class.
        rows: of what was handed in.
        now: what is due later is awaited, and not missing.
    """
    there = {(row.student, row.assignment) for row in rows}
    due = [assignment for assignment, when in facts.due.items() if when < now]
    for assignment in sorted({row.assignment for row in rows}.union(due)):
        for person in facts.people:
            if (person.id, assignment) not in there:
                until = facts.due_for(person.id, assignment)
                state = State.MISSING if until is None or until < now else State.AWAITED
                points = facts.points.get(assignment, 0.0)
                yield Row(person.id, assignment, state, points=points, due=until)
