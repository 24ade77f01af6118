"""Grade one submission: read it, run it, judge it; the same wherever it is done."""

import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from nbconvert.exporters import NotebookExporter
from traitlets.config import Config, LoggingConfigurable

from autograder.instructor.course import read_apart
from autograder.instructor.worker import notes
from autograder.instructor.worker.facts import Facts
from autograder.instructor.worker.submission import Submission
from autograder.instructor.worker.told_above import told_above

LOG: Final = logging.getLogger("shardlings.worker")
"""What nbgrader says where nobody listens: a worker's words go nowhere else."""

LOG.propagate = False
LOG.addHandler(logging.NullHandler())  # else Python writes warnings to the terminal all the same


@dataclass(frozen=True)
class Work:
    """What has been made of a submission, to be entered.

    Attributes:
        notebooks: each notebook, executed and with its verdicts, as JSON, by its name.
        kept: what else is to lie beside them, such as the evidence, by the file's name.
        seconds: how long it took.
    """

    notebooks: Mapping[str, str]
    kept: Mapping[str, bytes]
    seconds: float


def work(submission: Submission, facts: Facts, parent: LoggingConfigurable | None = None) -> Work:
    """Grade a submission. No gradebook of a class is read or written.

    Args:
        submission: what was handed in.
        facts: what is known of its assignment.
        parent: who is told what nbgrader has to say; nobody, if there is none.

    Raises:
        UnreadableError: a notebook cannot be read.
        Exception: whatever else went wrong here, none of which says anything of an answer.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shardlings-", ignore_cleanup_errors=True) as place:
        book = Path(place, "gradebook.db")
        book.write_bytes(facts.gradebook)
        folder = Path(place, "submission")
        folder.mkdir()
        for name, contents in {**submission.files, **facts.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(contents)
        with _said_to_kernels("NBGRADER_EXECUTION", "autograde"):
            notebooks = {
                name: _graded(name, contents, submission, facts, folder, book, parent)
                for name, contents in submission.notebooks.items()
            }
        kept = dict(_kept(folder, submission, facts))
    return Work(notebooks, kept, round(time.monotonic() - began, 3))


@contextmanager
def _said_to_kernels(variable: str, value: str) -> Iterator[None]:
    """Set a variable for a while; nbgrader's own `setenv` leaves it where something is raised."""
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _graded(
    name: str,
    contents: bytes,
    submission: Submission,
    facts: Facts,
    folder: Path,
    book: Path,
    parent: LoggingConfigurable | None,
) -> str:
    """One notebook, executed and with its verdicts."""
    config = _limited(facts.config, facts.seconds.get(name))
    path = folder / f"{name}.ipynb"
    path.write_bytes(contents)
    handed_in = read_apart(path, config)
    notebook = handed_in.notebook
    said = [sentence for sentence in (*handed_in.said, submission.not_taken) if sentence]
    if said:
        notebook.cells.insert(0, told_above(said))
    about = {
        "student": submission.student,
        "assignment": submission.assignment,
        "notebook": name,
        "db_url": f"sqlite:///{book}",
    }
    prepared = _passed(notebook, facts.reads, about, folder, config, parent)
    path.write_text(prepared, encoding="utf-8")  # no other copy of it is to be found
    notes.begin(folder, name, said)
    return _passed(nbformat.reads(prepared, 4), facts.runs, about, folder, config, parent)


def _limited(config: Config, seconds: int | None) -> Config:
    if seconds is None:
        return config
    limited = config.copy()
    limited.merge(Config({"Sandbox": {"seconds": seconds}}))
    return limited


def _passed(
    notebook: Any,
    preprocessors: Sequence[Any],
    about: Mapping[str, str],
    folder: Path,
    config: Config,
    parent: LoggingConfigurable | None,
) -> str:
    """A notebook, as some preprocessors leave it."""
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
    output, _ = exporter.from_notebook_node(notebook, resources=resources)
    return str(output)


def _no_others(config: Config) -> Config:
    """The configuration without the preprocessors that nbconvert adds, as nbgrader has it."""
    alone = config.copy()
    alone.merge(Config({"Exporter": {"default_preprocessors": []}}))
    return alone


def _kept(folder: Path, submission: Submission, facts: Facts) -> Iterator[tuple[str, bytes]]:
    """What was left beside each notebook, under its name."""
    given = {**submission.files, **facts.files}
    begins = tuple(f"{name}." for name in submission.notebooks)
    for path in sorted(folder.iterdir()):
        if not path.name.startswith(begins) or path.suffix == ".ipynb" or not path.is_file():
            continue
        contents = path.read_bytes()
        if given.get(path.name) != contents:  # else it is what was handed in
            yield path.name, contents
