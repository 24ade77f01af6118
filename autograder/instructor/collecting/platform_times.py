"""Read when submissions arrived from the tables of learning platforms.

A line that cannot be understood is refused with a sentence, and the others count.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from autograder.instructor.collecting.owners import Owners, TimesError
from autograder.instructor.collecting.platforms import PLATFORMS
from autograder.instructor.commands import printable
from autograder.instructor.course import (
    ClassError,
    ClassRules,
    CollectedTime,
    parse_time,
    read_table,
)

CLOCK_TOLERANCE: Final = timedelta(minutes=5)


@dataclass(frozen=True)
class TimesTable:
    """Finds the submission that each line of a platform's table is about.

    Attributes:
        path: the table.
        assignment: the assignment's name; empty if the table has to say it.
        owners: finds students by their names.
        rules: the rules of the class, with its time zone and the columns of ids.
        submissions: the submissions that were collected, as students and assignments.
        known: what is known already; its marks of late submissions stay if the table has none.
    """

    path: Path
    assignment: str
    owners: Owners
    rules: ClassRules
    submissions: Collection[tuple[str, str]]
    known: Mapping[str, Mapping[str, CollectedTime]]

    def read(
        self, now: datetime, refuse: Callable[[str], None]
    ) -> dict[tuple[str, str], CollectedTime]:
        """Return the time of each student and assignment.

        Args:
            now: the current time; later times are refused.
            refuse: called with a sentence about each line that is refused.

        Raises:
            TimesError: it is no such table.
            WrittenTableError: it is no table.
        """
        rows = read_table(self.path, ())
        if not rows:
            raise TimesError(f"{self.path.name} has no line below the names of its columns.")
        columns = {*rows[0][1]}
        known = [platform for platform in PLATFORMS if platform.times_columns]
        platform = next((p for p in known if p.times_columns <= columns), None)
        if platform is None:
            described = "; ".join(p.times_columns_described for p in known)
            raise TimesError(f"{self.path.name} has no times that are known. {described}.")
        if not self.assignment and not platform.tells_assignment:
            raise TimesError(
                f"{self.path.name} does not say which assignment it is of. Add "
                f"ASSIGNMENT=01_sharding_basics, or whichever it is."
            )
        submitted: dict[str, list[str]] = {}
        for student, assignment in self.submissions:
            submitted.setdefault(assignment, []).append(student)
        collected: list[tuple[int, tuple[str, str], CollectedTime]] = []
        for line, row in rows:
            where = f"{printable(self.path.name)}, line {line}"
            try:
                arrival = platform.parse_arrival(row, self.assignment, self.rules)
                if arrival is None:
                    continue
                time = parse_time(arrival.time, self.rules.zone, where)
                assignment = arrival.assignment
                student = platform.find_student(arrival, self.owners, submitted.get(assignment, ()))
                if time > now + CLOCK_TOLERANCE:
                    raise TimesError(
                        f"{self.rules.format_time(time)} is in the future. Is the timezone in "
                        f"grading/class.toml that of the platform?"
                    )
                source = f"{platform.times_table} {where}"
                is_late = arrival.is_late
                if is_late is None:
                    known_times = self.known.get(student, {})
                    is_late = known_times.get(assignment, CollectedTime()).marked_late
                collected_time = CollectedTime(time, source, is_late)
                collected.append((line, (student, assignment), collected_time))
            except (TimesError, ClassError) as error:
                refuse(str(error) if str(error).startswith(where) else f"{where}: {error}")
        counts = Counter(pair for _, pair, _ in collected)
        for line, pair, _ in collected:
            if counts[pair] > 1:
                refuse(
                    f"{printable(self.path.name)}, line {line}: {counts[pair]} lines are of "
                    f"{printable(pair[0])} and {pair[1]}, so none of them counts. Each has one."
                )
        return {pair: time for _, pair, time in collected if counts[pair] == 1}
