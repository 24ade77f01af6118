"""`python -m autograder.instructor`: the instructor's commands, which `make` calls."""

import argparse
import errno
import gc
import os
import re
import signal
import sys
import warnings
from pathlib import Path
from typing import Final, NoReturn

import msgspec
from rich.console import Console
from sqlalchemy.exc import SAWarning

from autograder.instructor.authoring import try_answers, write_stubs
from autograder.instructor.classroom import (
    Choice,
    Workers,
    choose,
    demonstrate,
    grade_class,
    list_backups,
    regrade_class,
    renew_feedback,
    report_class,
    restore,
    withdraw,
)
from autograder.instructor.collecting import collect
from autograder.instructor.commands import (
    STOPPED,
    STOPPED_STATUSES,
    keep_temporary_files,
    printable,
    show_invisible_characters,
    stop_on_signal,
    write_atomically,
)
from autograder.instructor.course import Course
from autograder.instructor.gradescope import (
    VISIBILITIES,
    compare_points,
    write_bundle,
    write_results,
)
from autograder.instructor.one_submission import explain_wrong_path, prepare_grader
from autograder.instructor.pipeline import State
from autograder.instructor.sandbox import ROOT_WARNING, is_root
from shardlings.errors import ShortError

DISK_ERRORS: Final = frozenset({
    errno.EACCES, errno.EDQUOT, errno.EIO, errno.ELOOP, errno.ENOLCK, errno.ENOSPC, errno.ENOTDIR,
    errno.EPERM, errno.EROFS, errno.ESTALE,
})  # fmt: skip
"""The error numbers of a disk that is full, broken, closed to us, or without locks."""

RUNS_SUBMISSIONS: Final = ("grade", "regrade", "demo")
"""The commands that run students' code or judge what it returned."""

CALLED_BY_MAKE: Final = (
    "release", "grade", "regrade", "report", "feedback", "demo", "collect", "withdraw",
    "gradescope", "restore", "exercise", "try",
)  # fmt: skip
"""The commands that `make` calls: all but `grade-one`, which a container calls."""

GC_THRESHOLD: Final = 50_000
"""The number of new objects after which Python searches for cycles, in place of 700: a class's
grades and verdicts are kept until the command ends, so searching them more often is in vain."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command, and return its exit status."""
    chosen = _parse(arguments)
    course, console = Course(chosen.root), Console()
    try:
        with stop_on_signal(keep_temporary_files()):
            return _run(chosen, course, console)
    except ShortError as error:
        console.print(show_invisible_characters(str(error)), markup=False, highlight=False)
        return 1
    except OSError as error:
        if error.errno not in DISK_ERRORS:
            raise
        console.print(_explain_disk_error(error, course), markup=False, highlight=False)
        return 1
    except SystemExit as end:
        if end.code not in STOPPED_STATUSES:
            raise
        console.print(f"\n{STOPPED}", markup=False, highlight=False)
        return int(end.code)


def _explain_disk_error(error: OSError, course: Course) -> str:
    """Say what could not be read or written, as far as the error names it, and what to do."""
    names = [
        os.fsdecode(name)
        for name in (error.filename, error.filename2)
        if isinstance(name, str | bytes)
    ]
    if any(Path(os.path.abspath(name)).is_relative_to(course.grading) for name in names):
        unusable, why = "grading/", str(error)
    elif names:
        unusable, why = names[0], error.strerror or str(error)
    else:
        unusable, why = "A file", str(error)
    return (
        f"{printable(unusable)} could not be read or written: {printable(why)}. What was graded is "
        f"kept, and none of it is half written. Check that the disk has free space and that you "
        f"may read and write there, and run the same command again."
    )


class _Parser(argparse.ArgumentParser):
    """Reports errors in terms of `make`'s variables: users type `STUDENT=…`, not `--student`."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and a sentence."""
        if self.prog.split()[-1] in CALLED_BY_MAKE:
            message = self._name_variables(message)
        self.exit(2, f"{message}. ({self.prog} --help lists what there is.)\n")

    @staticmethod
    def _name_variables(message: str) -> str:
        message = re.sub(r"^argument (--)?(\w+): ", lambda match: f"{match[2].upper()}: ", message)
        options = message.removeprefix("the following arguments are required: ")
        if options == message:
            return message
        names = [f"{option.removeprefix('--').upper()}=" for option in options.split(", ")]
        return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing"


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = _Parser(prog="python -m autograder.instructor", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the course's folder")
    commands = parser.add_subparsers(dest="command", required=True)
    filters = _Parser(add_help=False)
    filters.add_argument("--assignment", default="", help="one of them, if not all")
    filters.add_argument("--student", default="", help="one of them, if not all")
    commands.add_parser("release", parents=[filters], help="make course/ from solutions/")
    grade = commands.add_parser("grade", parents=[filters], help="grade what is new")
    grade.add_argument("--again", action="store_true", help="grade everything again")
    grade.add_argument("--scheduler", default="", help="the address of a Dask scheduler to use")
    grade.add_argument(
        "--workers",
        type=_parse_workers,
        default=0,
        help="how many at once, if not one for each core",
    )
    commands.add_parser("regrade", parents=[filters], help="judge again, from kept evidence")
    commands.add_parser("report", parents=[filters], help="show the class; nothing is graded")
    feedback = commands.add_parser("feedback", parents=[filters], help="make feedback pages again")
    feedback.add_argument("--release", action="store_true", help="by nbgrader's exchange, too")
    demo = commands.add_parser("demo", help="grade five made-up students, in a separate folder")
    demo.add_argument("--all", action="store_true", help="over all notebooks, and not over two")
    collecting = commands.add_parser("collect", help="take in a learning platform's zip file")
    collecting.add_argument(
        "file", metavar="FROM", type=Path, help="as Canvas or Moodle gives it, or folders"
    )
    collecting.add_argument("--assignment", default="", help="the only one to take")
    collecting.add_argument("--times", type=Path, help="a platform's table of when they arrived")
    withdrawing = commands.add_parser("withdraw", help="leave a student out from now on")
    withdrawing.add_argument("--student", default="", help="who has left the class")
    withdrawing.add_argument("--back", action="store_true", help="the student has come back")
    alone = _Parser(add_help=False)
    alone.add_argument("--assignment", required=True, help="the only one")
    alone.add_argument("--visibility", choices=VISIBILITIES, default="visible", help="of results")
    alone.add_argument(
        "--container-is-sandbox",
        action="store_true",
        help="grade without bubblewrap, in a container that holds one submission and nothing else",
    )
    one = commands.add_parser("grade-one", parents=[alone], help="grade one submission, apart")
    one.add_argument("submission", type=Path, nargs="?", help="its folder or notebook, if any")
    one.add_argument("--record", type=Path, help="where the record is written")
    one.add_argument("--gradescope", type=Path, help="where Gradescope's results are written")
    commands.add_parser("gradescope", parents=[alone], help="write a bundle for Gradescope")
    restoring = commands.add_parser("restore", help="put a copy of the gradebook back")
    restoring.add_argument("file", type=Path, nargs="?", help="which; without it, all are named")
    exercise = commands.add_parser("exercise", help="write the stubs of a new exercise")
    exercise.add_argument("id", help="its id, such as 1.9")
    exercise.add_argument("--notebook", default="", help="the notebook, if it has none yet")
    trying = commands.add_parser("try", help="show the verdict on each answer in a file")
    trying.add_argument("file", type=Path, help="code of an answer, or a bank of them")
    trying.add_argument("--exercise", default="", help="which one, where the file does not say so")
    chosen = parser.parse_args(arguments)
    if not (chosen.root / "nbgrader_config.py").exists():
        parser.error(f"{chosen.root} has no nbgrader_config.py; give the course's folder as --root")
    return chosen


def _parse_workers(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"the number of workers is 1 or more, but got {text!r}")
    return int(text)


def _run(chosen: argparse.Namespace, course: Course, console: Console) -> int:
    # nbgrader's own sessions cause this warning for each new submission, and it is harmless
    warnings.filterwarnings("ignore", category=SAWarning)
    if chosen.command in RUNS_SUBMISSIONS and is_root():
        console.print(ROOT_WARNING, style="bold yellow", highlight=False)
    match chosen.command:
        case "grade":
            workers = Workers(chosen.scheduler, chosen.workers)
            return grade_class(course, console, chosen.again, _choose(chosen, course), workers)
        case "regrade":
            return regrade_class(course, console, _choose(chosen, course))
        case "report":
            return report_class(course, console, _choose(chosen, course))
        case "feedback":
            return renew_feedback(course, console, _choose(chosen, course), chosen.release)
        case "demo":
            return demonstrate(course, console, chosen.all)
        case "collect":
            return collect(course, console, chosen.file, chosen.assignment, chosen.times)
        case "withdraw":
            with course.hold_lock():
                said = withdraw(course, chosen.student, chosen.back)
            console.print(said, markup=False, highlight=False)
        case "grade-one":
            return _grade_one(chosen, course, console)
        case "gradescope":
            assignment = choose(course, chosen.assignment, "").assignment
            bundle = write_bundle(
                course, assignment, chosen.visibility, chosen.container_is_sandbox
            )
            console.print(str(bundle), soft_wrap=True, markup=False, highlight=False)
        case "restore":
            if chosen.file:
                restore(course, console, chosen.file)
            else:
                list_backups(course, console)
        case "release":
            return _release(course, console, _choose(chosen, course))
        case "exercise":
            written = write_stubs(course.root, chosen.id, chosen.notebook)
            console.print(f"Stubs of {chosen.id} stand at the end of these, to be filled in:")
            for path in (written.module, written.notebook, written.bank):
                console.print(f"  {path}", soft_wrap=True, highlight=False)
        case "try":
            # a compiled loop without an end lets no handler of Python's run; nothing has to be kept
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            return try_answers(course.root, console, chosen.file, chosen.exercise)
    return 0


def _choose(chosen: argparse.Namespace, course: Course) -> Choice:
    return choose(course, chosen.assignment, chosen.student)


def _grade_one(chosen: argparse.Namespace, course: Course, console: Console) -> int:
    """Grade one submission and write its record; without one, only calibrate the grader."""
    if chosen.submission is not None and (why := explain_wrong_path(chosen.submission)):
        console.print(why, markup=False, highlight=False)  # before the minutes of calibration
        return 1
    grader = prepare_grader(course, console, chosen.assignment, chosen.container_is_sandbox)
    if chosen.submission is None:
        return 0
    record = (outcome := grader.grade(chosen.submission)).record
    if chosen.record:
        write_atomically(chosen.record, msgspec.json.encode(record))
    if chosen.gradescope:
        folder = Path(os.path.abspath(chosen.submission)).parent
        notes = compare_points(folder / "submission_metadata.json", grader.points)
        if notes:
            console.print(notes, markup=False, highlight=False)
        write_results(chosen.gradescope, record, grader.points, chosen.visibility)
    console.print(f"{record.state}: {printable(record.why)}", markup=False, highlight=False)
    if outcome.details:
        console.print(outcome.details, markup=False, highlight=False)
    return 1 if record.state is State.FAILED else 0


def _release(course: Course, console: Console, choice: Choice) -> int:
    """Make releases; one that cannot be made does not stop the others."""
    if choice.student:
        console.print("A release is for the whole class: leave the student out.")
        return 1
    status = 0
    with course.hold_lock():
        for assignment in [choice.assignment] if choice.assignment else course.assignments():
            why = course.try_release(assignment)
            released = sorted((course.released / assignment).glob("[!.]*.ipynb"))
            lines = [why] if why else [str(path.relative_to(course.root)) for path in released]
            for line in lines:
                console.print(line, markup=False, highlight=False)
            status = 1 if why else status
    for sentence in course.find_misnamed_solutions():
        console.print(sentence, markup=False, highlight=False)
    return status


if __name__ == "__main__":
    gc.set_threshold(GC_THRESHOLD)
    status = main()
    if status not in STOPPED_STATUSES:  # whose handler stays; Python still removes its own folders
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)
