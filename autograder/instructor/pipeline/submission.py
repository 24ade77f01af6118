"""What was handed in, as bytes: the notebooks, and the files beside them that are taken."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nbgrader.utils import find_all_files

from autograder.instructor.course import EXCHANGED, is_taken, left_out


@dataclass(frozen=True)
class Submission:
    """What somebody handed in of an assignment.

    Attributes:
        student: their id.
        assignment: its name.
        notebooks: what each notebook's file holds, by its name; nobody has looked at that yet.
        files: what the files beside them hold, by their path in the submission's folder.
        not_taken: what is to be said of files that are not among these; empty where all are.
        exchanged: the files that nbgrader's exchange has put beside them.
        is_partial: whether not all of its notebooks are to be graded.
    """

    student: str
    assignment: str
    notebooks: Mapping[str, bytes]
    files: Mapping[str, bytes]
    not_taken: str = ""
    exchanged: Mapping[str, bytes] = field(default_factory=dict)
    is_partial: bool = False


def submission_in(
    folder: Path, student: str, assignment: str, notebooks: Iterable[str], ignored: Iterable[str]
) -> Submission:
    """Read what lies in a folder of which it is known that it can be taken.

    Args:
        folder: which.
        student: whose it is.
        assignment: what it is of.
        notebooks: the names of the notebooks that are to be graded, without `.ipynb`.
        ignored: what nbgrader copies nowhere.

    Raises:
        OSError: a file is not there any more, or cannot be read.
    """
    files = find_all_files(str(folder), [*ignored, "*.ipynb"])
    beside = [Path(file).relative_to(folder) for file in files]
    names = [name for name in beside if str(name) not in EXCHANGED]
    return Submission(
        student,
        assignment,
        {name: (folder / f"{name}.ipynb").read_bytes() for name in notebooks},
        {str(name): (folder / name).read_bytes() for name in names if is_taken(name)},
        left_out([name for name in names if not is_taken(name)]),
        {str(name): (folder / name).read_bytes() for name in beside if str(name) in EXCHANGED},
    )
