"""Grade one submission: read it, run it, judge it. The result is the same on any machine.

`grade` takes bytes: the notebooks, and the accepted files beside them (`submission_in` reads
these). It reads and writes neither a class's gradebook nor a course's folders, so it can run in
many threads, on any machine, repeatedly, and can be killed at any time.
"""

import logging
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat.v4 import new_markdown_cell
from nbgrader.utils import (
    compute_checksum,
    determine_grade,
    find_all_files,
    is_grade,
    is_solution,
    is_task,
)
from traitlets.config import Config, LoggingConfigurable

from autograder.instructor.course import (
    EXCHANGE_FILES,
    NAMESPACE,
    UnreadableError,
    is_taken,
    left_out,
    read_apart,
)
from autograder.instructor.pipeline.basis import versions
from autograder.instructor.pipeline.facts import Facts
from autograder.instructor.pipeline.record import GradedNotebook, Record, State, encoded_verdicts
from autograder.instructor.sandbox import NO_SANDBOX, NoSandboxError, has_bubblewrap


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
    names = [name for name in beside if str(name) not in EXCHANGE_FILES]
    return Submission(
        student,
        assignment,
        {name: (folder / f"{name}.ipynb").read_bytes() for name in notebooks},
        {str(name): (folder / name).read_bytes() for name in names if is_taken(name)},
        left_out([name for name in names if not is_taken(name)]),
        {str(name): (folder / name).read_bytes() for name in beside if str(name) in EXCHANGE_FILES},
    )


LOG: Final = logging.getLogger("shardlings.worker")
"""What nbgrader says where nobody listens: a worker's words go nowhere else."""

LOG.propagate = False
LOG.addHandler(logging.NullHandler())  # else Python writes warnings to the terminal all the same


LOCK: Final = threading.Lock()

AT_WORK: Final[list[int]] = []
"""The threads that are grading."""


class OtherPackageError(RuntimeError):
    """A worker has another version of the package or of JAX than whoever gave it work."""


@dataclass(frozen=True)
class Outcome:
    """What became of a submission, as it comes back from whoever graded it.

    Attributes:
        record: what is to be kept.
        notebooks: each graded notebook with its verdicts, as JSON, by its name.
        details: how an error came up, for whoever looks for it.
        where: the address of the worker that it was; empty where it was nobody else's.
        is_final: whether grading the same again would say the same; not where the machine, or
            what is installed there, kept it from being tried at all.
    """

    record: Record
    notebooks: Mapping[str, str] = field(default_factory=dict)
    details: str = ""
    where: str = ""
    is_final: bool = True


def grade(
    submission: Submission,
    facts: Facts,
    sandboxed: bool = False,
    parent: LoggingConfigurable | None = None,
) -> Outcome:
    """Grade a submission; an error is an outcome, too.

    Args:
        submission: what was handed in.
        facts: what is known of its assignment.
        sandboxed: whether there is a sandbox where the class is, so that there has to be one here.
        parent: who is told what nbgrader has to say; nobody, if there is none.
    """
    is_final = False
    try:
        if facts.versions != versions():
            raise OtherPackageError(
                "This worker has another version of the package or of JAX. Install the one that "
                "grades there, too."
            )
        if sandboxed and not has_bubblewrap():
            raise NoSandboxError(NO_SANDBOX)
        is_final = True
        return _graded(submission, facts, parent)
    except UnreadableError as error:
        return Outcome(Record(State.BROKEN, str(error)))
    except Exception as error:
        return failed(error, is_final and not isinstance(error, NoSandboxError))


def failed(error: BaseException, is_final: bool = False) -> Outcome:
    """The outcome of a submission that could not be graded, for no fault of what was handed in."""
    said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    details = "".join(traceback.format_exception(error))
    return Outcome(
        Record(State.FAILED, f"grading failed. {said}"), details=details, is_final=is_final
    )


def _graded(submission: Submission, facts: Facts, parent: LoggingConfigurable | None) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardlings-", ignore_cleanup_errors=True) as place:
        book = Path(place, "gradebook.db")
        book.write_bytes(facts.gradebook)
        folder = Path(place, "submission")
        folder.mkdir()
        for name, contents in {**submission.files, **facts.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(contents)
        with _said_to_kernels():
            graded = {
                name: _graded_notebook(name, contents, submission, facts, folder, book, parent)
                for name, contents in submission.notebooks.items()
            }
    seconds = round(time.monotonic() - began, 3)
    found = {name: found for name, (_, found) in graded.items()}
    record = Record(State.GRADED, notebooks=found, seconds=seconds)
    return Outcome(record, {name: text for name, (text, _) in graded.items()})


@contextmanager
def _said_to_kernels() -> Iterator[None]:
    """Set the variable that nbgrader's own preprocessors tell kernels of, while any thread grades.

    It is not left behind: a check in this process would take it for its own.
    """
    with LOCK:
        AT_WORK.append(threading.get_ident())
        os.environ["NBGRADER_EXECUTION"] = "autograde"
    try:
        yield
    finally:
        with LOCK:
            AT_WORK.remove(threading.get_ident())
            if not AT_WORK:
                del os.environ["NBGRADER_EXECUTION"]


def _graded_notebook(
    name: str,
    contents: bytes,
    submission: Submission,
    facts: Facts,
    folder: Path,
    book: Path,
    parent: LoggingConfigurable | None,
) -> tuple[str, GradedNotebook]:
    """One notebook, executed and with its verdicts, and what was found of it."""
    config = deepcopy(facts.config)  # to read one may change it, and other threads have it, too
    if facts.seconds.get(name) is not None:
        config.merge(Config({"Sandbox": {"seconds": facts.seconds[name]}}))
    path = folder / f"{name}.ipynb"
    path.write_bytes(contents)
    handed_in = read_apart(path, config)
    notebook = handed_in.notebook
    notes = [sentence for sentence in (*handed_in.said, submission.not_taken) if sentence]
    if notes:
        notebook.cells.insert(0, told_above(notes))
    about = {
        "student": submission.student,
        "assignment": submission.assignment,
        "notebook": name,
        "db_url": f"sqlite:///{book}",
    }
    prepared, _ = _passed(notebook, facts.reads, about, folder, config, parent)
    path.write_text(prepared, encoding="utf-8")  # no other copy of it is to be found
    text, resources = _passed(
        nbformat.reads(prepared, 4), facts.runs, about, folder, config, parent
    )
    judged = resources.get(NAMESPACE, {})
    verdicts = encoded_verdicts(judged.get("verdicts", {}))
    evidence = msgspec.Raw(judged.get("evidence", b"[]"))
    notes += judged.get("notes", ())
    return text, graded_notebook(nbformat.reads(text, 4), verdicts, evidence, notes)


def graded_notebook(
    notebook: Any, verdicts: msgspec.Raw, evidence: msgspec.Raw, notes: Sequence[str]
) -> GradedNotebook:
    """What is to be kept of a graded notebook, whose scores are found by nbgrader's own rules.

    Args:
        notebook: with its points and outputs.
        verdicts: as a record has them.
        evidence: likewise.
        notes: what else is to be known, in sentences.
    """
    cells = notebook.cells
    known = [cell for cell in cells if cell.metadata.get("nbgrader")]
    by_hand = [cell for cell in known if is_solution(cell) and not is_task(cell)]
    return GradedNotebook(
        {c.metadata.nbgrader.grade_id: determine_grade(c, LOG)[0] for c in known if is_grade(c)},
        tuple(
            cell.metadata.nbgrader.grade_id
            for cell in by_hand
            if cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
        ),
        verdicts,
        evidence,
        tuple(notes),
    )


def _passed(
    notebook: Any,
    preprocessors: Sequence[Any],
    about: Mapping[str, str],
    folder: Path,
    config: Config,
    parent: LoggingConfigurable | None,
) -> tuple[str, Mapping[str, Any]]:
    """A notebook, as some preprocessors leave it, and what they say of it."""
    listener = {"log": LOG} if parent is None else {"parent": parent}
    exporter = NotebookExporter(config=_no_others(config), **listener)
    for each in preprocessors:
        exporter.register_preprocessor(each)
    name = about["notebook"]
    resources = {
        "unique_key": name,
        "output_files_dir": f"{name}_files",
        "nbgrader": dict(about),
        "metadata": {"path": str(folder), "name": name},
    }
    output, resources = exporter.from_notebook_node(notebook, resources=resources)
    return str(output), resources


def _no_others(config: Config) -> Config:
    """The configuration without the preprocessors that nbconvert adds, as nbgrader has it."""
    alone = config.copy()
    alone.merge(Config({"Exporter": {"default_preprocessors": []}}))
    return alone


def told_above(sentences: Sequence[str]) -> Any:
    """A cell above all others that says what is missing; names in it are text, not markdown."""
    text = "\n\n".join(f"    {sentence}" for sentence in sentences)
    return new_markdown_cell(text, metadata={NAMESPACE: {"told": True}})


def is_told(cell: Any) -> bool:
    """Whether a cell is one that was put above what was handed in."""
    return "told" in cell.metadata.get(NAMESPACE, {})
