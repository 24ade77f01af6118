"""The submission times that platforms report, `grading/collected_times.json`, and where from.

`make collect` and `nbgrader collect` write the file. The times in `handed_in.csv` win over these.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from autograder.instructor.commands import write_atomically
from autograder.instructor.course.class_tables import COLLECTED_TIMES_FILE
from autograder.instructor.course.written_tables import ClassError, is_written


class CollectedTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a platform says about when a submission arrived.

    Attributes:
        time: the time, in UTC; None if the platform gives none.
        source: where the time comes from, for the instructor.
        marked_late: whether the platform marks the submission as late.
        replaced: whether another submission has replaced the one that the time belongs to.
    """

    time: datetime | None = None
    source: str = ""
    marked_late: bool = False
    replaced: bool = False


CollectedTimes = dict[str, dict[str, CollectedTime]]
"""What is known, by student and assignment."""


def read_collected_times(grading: Path) -> CollectedTimes:
    """Read `collected_times.json`; without it, nothing is known.

    Raises:
        ClassError: the file is damaged.
    """
    path = grading / COLLECTED_TIMES_FILE
    if not is_written(path):
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=CollectedTimes)
    except (OSError, msgspec.MsgspecError) as error:
        raise ClassError(
            f"grading/{COLLECTED_TIMES_FILE} cannot be read: {error}. Remove it, and collect the "
            f"times again."
        ) from None


def add_collected_times(grading: Path, new: Mapping[tuple[str, str], CollectedTime]) -> None:
    """Add times to `collected_times.json`, in place of those of the same submissions.

    Raises:
        ClassError: the file is damaged.
    """
    times = read_collected_times(grading)
    for (student, assignment), collected in new.items():
        times.setdefault(student, {})[assignment] = collected
    contents = msgspec.json.format(msgspec.json.encode(times))
    write_atomically(grading / COLLECTED_TIMES_FILE, contents)
