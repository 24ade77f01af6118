"""The two parts that `nbgrader zip_collect` leaves to others: what is unpacked, and whose it is."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from nbgrader.apps.zipcollectapp import ZipCollectApp
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import FileNameCollectorPlugin

from autograder.instructor.collecting.sorting import HandedIn
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins import keep_printable


class KnownOwners(FileNameCollectorPlugin):
    """Says of each file whose it is, as that was found out before."""

    owners: Mapping[Path, tuple[str, PurePosixPath]]

    def collect(self, submitted_file: str) -> dict[str, str] | None:
        """What nbgrader is to know of a file; nothing where it is not to be taken."""
        known = self.owners.get(Path(submitted_file))
        if known is None:
            return None
        student, name = known
        return {"student_id": student, "file_id": str(name)}


def transfer(
    course: Course, assignment: str, folder: Path, handed_in: Sequence[HandedIn]
) -> Iterator[tuple[HandedIn, str]]:
    """Have nbgrader put submissions of one assignment where they belong.

    Each is put together elsewhere, and takes the place of what there is when it is whole.

    Args:
        course: where.
        assignment: which.
        folder: where there is room for what is on its way.
        handed_in: what is to be put there, in place of what there is.

    Yields:
        The submissions that could not be put there, and why; what there was is there still.
    """
    app = _nbgrader(course.api, assignment)
    for number, one in enumerate(handed_in):
        here = folder / assignment / str(number)
        try:
            structure = str(here).replace("{", "{{").replace("}", "}}")
            app.collect_directory_structure = f"{structure}/{{collect_step}}"
            app.coursedir.submitted_directory = str(here)
            (here / "taken").mkdir(parents=True)
            app.collector_plugin_inst.owners = {
                path.rename(here / "taken" / path.name): (one.student, name)
                for name, path in one.files.items()
            }
            app.process_extracted_files()
            place = course.submitted / one.student / assignment
            _put(here / one.student / assignment, place, here / "earlier")
        except OSError as error:
            yield one, error.strerror or str(error)
        except (Exception, SystemExit):  # nbgrader gives up with SystemExit
            yield one, "nbgrader does not take it"
        shutil.rmtree(here, ignore_errors=True)


def _nbgrader(api: Any, assignment: str) -> Any:
    """Nbgrader's command, which finds in `taken` what it is to put into a folder beside that."""
    config = api.config.copy()
    config.CourseDirectory.assignment_id = assignment
    app = ZipCollectApp(config=config)
    app.coursedir = CourseDirectory(config=config)
    app.coursedir.directory_structure = "{nbgrader_step}/{student_id}/{assignment_id}"
    app.log = api.log
    keep_printable(app.log)
    app.extracted_directory = "taken"
    app.collector_plugin = KnownOwners
    app.init_plugins()
    return app


def _put(new: Path, place: Path, aside: Path) -> None:
    """Put a folder in place of another one, which is back where that fails."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        shutil.move(place, aside)
    try:
        shutil.move(new, place)
    except BaseException:
        if aside.exists():
            shutil.rmtree(place, ignore_errors=True)
            shutil.move(aside, place)
        raise
