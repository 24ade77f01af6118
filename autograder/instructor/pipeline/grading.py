"""Grade one submission: read it, run it, judge it. The result is the same on any machine.

`grade` takes the bytes of the notebooks and of the accepted files beside them, which
`read_submission` reads. It does not use a class's gradebook or a course's folders, so it can run on
any machine, can be repeated, and can be killed at any time.
"""

import logging
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from humanize import natural_list
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
from sqlalchemy.exc import OperationalError
from traitlets.config import Config, LoggingConfigurable

from autograder.instructor.course import (
    EXCHANGE_FILES,
    NAMESPACE,
    UnreadableError,
    describe_rejected_files,
    is_accepted_file,
    read_in_sandbox,
)
from autograder.instructor.pipeline.basis import read_versions
from autograder.instructor.pipeline.facts import AssignmentFacts
from autograder.instructor.pipeline.record import GradedNotebook, Record, State, encoded_verdicts
from autograder.instructor.pipeline.seeds import derive_seeds
from autograder.instructor.sandbox import (
    NO_SANDBOX_ERROR,
    MachineError,
    NoSandboxError,
    has_bubblewrap,
)


@dataclass(frozen=True)
class Submission:
    """A student's submission of an assignment.

    Attributes:
        notebooks: the unchecked contents of each notebook's file, by name.
        files: the contents of the accepted files beside the notebooks, by path.
        rejected_files: a sentence about files that were not accepted; empty if all were.
        exchanged: files that nbgrader's exchange wrote beside the notebooks.
        is_partial: whether only some of its notebooks are to be graded.
    """

    student: str
    assignment: str
    notebooks: Mapping[str, bytes]
    files: Mapping[str, bytes]
    rejected_files: str = ""
    exchanged: Mapping[str, bytes] = field(default_factory=dict)
    is_partial: bool = False


def read_submission(
    folder: Path, student: str, assignment: str, notebooks: Iterable[str], ignored: Iterable[str]
) -> Submission:
    """Read a submission from a folder that is known to be acceptable.

    Args:
        folder: the submission's folder.
        student: the student's id.
        assignment: the assignment's name.
        notebooks: the names of the notebooks that are to be graded, without `.ipynb`.
        ignored: patterns of files that nbgrader never copies.

    Raises:
        OSError: a file cannot be read, or is gone.
    """
    files = find_all_files(str(folder), [*ignored, "*.ipynb"])
    paths = [Path(file).relative_to(folder) for file in files]
    names = [name for name in paths if str(name) not in EXCHANGE_FILES]
    return Submission(
        student,
        assignment,
        {name: (folder / f"{name}.ipynb").read_bytes() for name in notebooks},
        {str(name): (folder / name).read_bytes() for name in names if is_accepted_file(name)},
        describe_rejected_files([name for name in names if not is_accepted_file(name)]),
        {str(name): (folder / name).read_bytes() for name in paths if str(name) in EXCHANGE_FILES},
    )


LOG: Final = logging.getLogger("shardlings.worker")
"""The log of nbgrader's preprocessors in a worker, which is discarded."""

LOG.propagate = False
LOG.addHandler(logging.NullHandler())  # otherwise Python prints warnings anyway


ONE_AT_A_TIME: Final = threading.Lock()
"""Held while a submission is graded, because libraries keep settings for a whole interpreter.

A worker of a Dask scheduler may have several threads.
"""


class OtherPackageError(RuntimeError):
    """A worker has another version of the package or of JAX than the machine that sends work."""


@dataclass(frozen=True)
class Outcome:
    """The result of grading a submission.

    Attributes:
        record: the record to be kept.
        notebooks: each graded notebook with its verdicts, as JSON, by name.
        details: the traceback of an error.
        worker: the address of the worker that graded it; empty if it was this process.
        is_final: whether grading again would have the same result. False if the machine, or what is
            installed there, kept it from being graded.
    """

    record: Record
    notebooks: Mapping[str, str] = field(default_factory=dict)
    details: str = ""
    worker: str = ""
    is_final: bool = True


def grade(
    submission: Submission,
    facts: AssignmentFacts,
    sandboxed: bool = False,
    parent: LoggingConfigurable | None = None,
) -> Outcome:
    """Grade a submission; an error is an outcome, too.

    Args:
        submission: the submission.
        facts: the facts of its assignment.
        sandboxed: whether the machine with the class has a sandbox, so that one is required here.
        parent: the object that nbgrader's preprocessors log to; None to discard their log.
    """
    is_final = False
    try:
        if facts.versions != read_versions():
            raise OtherPackageError(
                "This worker has another version of the package or of JAX. Install the one that "
                "grades there, too."
            )
        if sandboxed and not has_bubblewrap():
            raise NoSandboxError(NO_SANDBOX_ERROR)
        is_final = True
        with ONE_AT_A_TIME, _tell_kernels():
            return _grade(submission, facts, parent)
    except UnreadableError as error:
        return Outcome(Record(State.BROKEN, str(error)))
    except Exception as error:
        return failed_outcome(error, is_final and not is_transient(error))


@contextmanager
def _tell_kernels() -> Iterator[None]:
    """Set the variable by which a check, and an instructor's own code, knows that it is graded.

    nbgrader's own preprocessors start kernels with this process's variables. Where they take the
    place of ours, a failed check has to raise an error, or it would get its points.
    """
    before = os.environ.get(GRADING_VARIABLE)
    os.environ[GRADING_VARIABLE] = "autograde"
    try:
        yield
    finally:
        if before is None:
            del os.environ[GRADING_VARIABLE]
        else:
            os.environ[GRADING_VARIABLE] = before


GRADING_VARIABLE: Final = "NBGRADER_EXECUTION"

TRANSIENT_ERRORS: Final = (
    MachineError, NoSandboxError, OSError, MemoryError, SystemError, OperationalError,
)  # fmt: skip
"""Errors that need not come again: of the machine, a full disk, or a database in use."""


def is_transient(error: BaseException | None) -> bool:
    """Check whether an error, or one that caused it, need not come again."""
    return error is not None and (
        isinstance(error, TRANSIENT_ERRORS)
        or str(error) == "can't start new thread"  # a RuntimeError
        or is_transient(error.__cause__)
    )


GRADING_FAILED: Final = "grading failed. "
"""The beginning of the reason where grading failed, through no fault of the submission."""


def describe_failure(error: BaseException) -> str:
    """Return the reason why grading failed with an error, in a line."""
    return GRADING_FAILED + f"{type(error).__name__}: {error}".strip().splitlines()[0]


def failed_outcome(error: BaseException, is_final: bool = False) -> Outcome:
    """Return the outcome of a submission for which grading failed, through no fault of its own."""
    details = "".join(traceback.format_exception(error))
    return Outcome(
        Record(State.FAILED, describe_failure(error)), details=details, is_final=is_final
    )


def _grade(
    submission: Submission, facts: AssignmentFacts, parent: LoggingConfigurable | None
) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardlings-", ignore_cleanup_errors=True) as parts:
        gradebook = Path(parts, "gradebook.db")
        gradebook.write_bytes(facts.gradebook)
        folder = Path(parts, "submission")
        folder.mkdir()
        for name, contents in {**submission.files, **facts.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(contents)
        graded = {
            name: _grade_notebook(name, contents, submission, facts, folder, gradebook, parent)
            for name, contents in submission.notebooks.items()
        }
    seconds = round(time.monotonic() - began, 3)
    notebooks = {name: notebook for name, (_, notebook) in graded.items()}
    absent = sorted({*facts.time_limits} - {*notebooks}) if not submission.is_partial else []
    if absent and submission.assignment in notebooks:
        first = notebooks[submission.assignment]
        names = natural_list([f"{name}.ipynb" for name in absent])
        notes = (*first.notes, f"Not handed in, and so without points: {names}.")
        notebooks[submission.assignment] = msgspec.structs.replace(first, notes=notes)
    record = Record(State.GRADED, notebooks=notebooks, seconds=seconds)
    return Outcome(record, {name: text for name, (text, _) in graded.items()})


def _grade_notebook(
    name: str,
    contents: bytes,
    submission: Submission,
    facts: AssignmentFacts,
    folder: Path,
    gradebook: Path,
    parent: LoggingConfigurable | None,
) -> tuple[str, GradedNotebook]:
    """Run and judge one notebook; return it as JSON, and what a record keeps of it."""
    config = deepcopy(facts.config)  # reading one may change it
    if facts.time_limits.get(name) is not None:
        config.merge(Config({"Sandbox": {"seconds": facts.time_limits[name]}}))
    path = folder / f"{name}.ipynb"
    submitted = read_in_sandbox(path.name, contents, config)
    other_files = sorted(submission.files.items())
    metadata = {
        "seeds": derive_seeds(facts.secret, [(path.name, contents), *other_files]),
        "student": submission.student,
        "assignment": submission.assignment,
        "notebook": name,
        "db_url": f"sqlite:///{gradebook}",
        # a file beside the notebook could read any name
        "demonstrations": {} if submission.files else facts.demonstrations.get(name, {}),
        "read_names": submitted.read_names,
    }
    prepared, resources = _preprocess(
        submitted.notebook, facts.sanitize_preprocessors, metadata, folder, config, parent
    )
    restored = resources.get(NAMESPACE, {})
    of_this = f"{path.name}: " if len(facts.time_limits) > 1 else ""
    told = (*submitted.notes, *restored.get("notes", ()))
    notes = [submission.rejected_files] * bool(submission.rejected_files)
    notes += [f"{of_this}{sentence}" for sentence in told]
    notebook = nbformat.reads(prepared, 4)
    if notes:
        notebook.cells.insert(0, make_note(notes))
    # so that the kernel finds no other version of it
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    text, resources = _preprocess(
        notebook, facts.grade_preprocessors, metadata, folder, config, parent
    )
    results = resources.get(NAMESPACE, {})
    verdicts = encoded_verdicts(results.get("verdicts", {}))
    evidence = msgspec.Raw(results.get("evidence", b"[]"))
    notes += [f"{of_this}{sentence}" for sentence in results.get("notes", ())]
    looks = restored.get("needs_a_look", ())
    return text, _summarise_notebook(nbformat.reads(text, 4), verdicts, evidence, notes, looks)


def _summarise_notebook(
    notebook: Any,
    verdicts: msgspec.Raw,
    evidence: msgspec.Raw,
    notes: Sequence[str],
    looks: Container[str] = (),
) -> GradedNotebook:
    """Return what a record keeps of a graded notebook, with scores by nbgrader's own rules.

    Args:
        notebook: the notebook with its points and outputs.
        verdicts: its verdicts, as JSON.
        evidence: its evidence, as JSON.
        notes: sentences about what was left out.
        looks: the names of cells that somebody has to look at, though they seem unanswered.
    """
    known = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if c.metadata.get("nbgrader")}
    return GradedNotebook(
        {
            name: None if name in looks else determine_grade(cell, LOG)[0]
            for name, cell in known.items()
            if is_grade(cell)
        },
        tuple(
            name
            for name, cell in known.items()
            if is_solution(cell) and not is_task(cell) and name not in looks
            if cell.metadata.nbgrader.get("checksum") == compute_checksum(cell)
        ),
        verdicts,
        evidence,
        tuple(notes),
    )


def _preprocess(
    notebook: Any,
    preprocessors: Sequence[Any],
    metadata: Mapping[str, Any],
    folder: Path,
    config: Config,
    parent: LoggingConfigurable | None,
) -> tuple[str, Mapping[str, Any]]:
    """Run preprocessors on a notebook; return it as JSON, and nbconvert's resources."""
    log = {"log": LOG} if parent is None else {"parent": parent}
    exporter = NotebookExporter(config=_without_default_preprocessors(config), **log)
    for preprocessor in preprocessors:
        exporter.register_preprocessor(preprocessor)
    name = metadata["notebook"]
    resources = {
        "unique_key": name,
        "output_files_dir": f"{name}_files",
        "nbgrader": dict(metadata),
        "metadata": {"path": str(folder), "name": name},
    }
    output, resources = exporter.from_notebook_node(notebook, resources=resources)
    return str(output), resources


def _without_default_preprocessors(config: Config) -> Config:
    """Copy a configuration without the preprocessors that nbconvert adds, as nbgrader does."""
    copied = config.copy()
    copied.merge(Config({"Exporter": {"default_preprocessors": []}}))
    return copied


def make_note(sentences: Sequence[str]) -> Any:
    """Make the note at the top of a graded notebook that lists what was left out.

    It is indented as code, so that names of files in it are not read as Markdown.
    """
    text = "\n\n".join(f"    {sentence}" for sentence in sentences)
    return new_markdown_cell(text, metadata={NAMESPACE: {"told": True}})


def is_note(cell: Any) -> bool:
    """Check whether a cell is the note at the top of a graded notebook."""
    return "told" in cell.metadata.get(NAMESPACE, {})
