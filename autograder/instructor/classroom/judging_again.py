"""Graded submissions, judged again from the evidence that was kept: nobody's code is run again."""

import copy
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties

from autograder.exercises import EXERCISES
from autograder.instructor.calibration import compiled_before
from autograder.instructor.classroom.what_changed import Bases
from autograder.instructor.course import Course, keep_verdicts, kept_verdicts, reason
from autograder.instructor.nbgrader_plugins import JudgeEvidence, NotGradedError, write_verdict
from autograder.instructor.walls import Case, NoSandboxError, Sandbox, judge_apart
from autograder.judge import Verdict

CORES: Final = os.cpu_count() or 1
"""How many judges are at work, each on one submission."""

KEPT: Final = ".evidence.json"
"""How the name of a file with evidence ends, after its notebook's."""

LARGEST: Final = 2**26
"""The most bytes of such a file: a notebook's evidence has a limit, and this is far above it."""


class UnreadableEvidenceError(RuntimeError):
    """A file with evidence cannot be read; the message says why."""


@dataclass(frozen=True)
class Graded:
    """A graded notebook, and what it handed in.

    Attributes:
        student: whose.
        assignment: which.
        notebook: where it lies.
        cases: the evidence.
        verdicts: those on all of it, where nothing that they rest on has changed; else none.
    """

    student: str
    assignment: str
    notebook: Path
    cases: tuple[Case, ...]
    verdicts: tuple[Verdict, ...] = ()

    def with_kept_verdicts(self) -> "Graded":
        """The same with the verdicts that were kept, if there is one on each case."""
        kept = kept_verdicts(self.notebook.parent, self.notebook.stem)
        if not all(case.exercise in kept for case in self.cases):
            return self
        return replace(self, verdicts=tuple(kept[case.exercise] for case in self.cases))


@dataclass(frozen=True)
class Again:
    """What became of judging a notebook again.

    Attributes:
        graded: which.
        is_new: whether anything of its grade is another.
        why: what went wrong, in a sentence; empty if nothing did.
    """

    graded: Graded
    is_new: bool
    why: str = ""


def evidence_of(course: Course, student: str, assignment: str) -> list[Path]:
    """The files with evidence of a graded submission.

    They are looked for by the names of the assignment's own notebooks: what else lies there may be
    called what a student wants it to be.
    """
    own = {assignment, *(path.stem for path in (course.solutions / assignment).glob("*.ipynb"))}
    folder = course.autograded / student / assignment
    return [path for name in sorted(own) if (path := folder / f"{name}{KEPT}").is_file()]


def whole_evidence(course: Course, student: str, assignment: str) -> tuple[Graded, ...]:
    """What was kept of each notebook of a graded submission: all is judged again, or nothing.

    Raises:
        UnreadableEvidenceError: some of it is missing, or cannot be read.
    """
    found = []
    for path in evidence_of(course, student, assignment):
        try:
            found.append(evidence_in(path))
        except UnreadableEvidenceError as error:
            raise UnreadableEvidenceError(f"{path.name} cannot be read: {error}") from None
    folder = course.autograded / student / assignment
    own = {path.name for path in (course.solutions / assignment).glob("*.ipynb")}
    graded = {path.name for path in folder.glob("*.ipynb")} & own
    if without := sorted(graded - {one.notebook.name for one in found}):
        raise UnreadableEvidenceError(f"there is no evidence of {', '.join(without)}.")
    return tuple(found)


def evidence_in(path: Path) -> Graded:
    """The graded notebook beside which a file of evidence lies, with what is in that.

    Raises:
        UnreadableEvidenceError: it cannot be read.
    """
    folder = path.parent
    try:
        if path.stat().st_size > LARGEST:
            raise UnreadableEvidenceError(f"It is larger than {LARGEST:,} bytes.")
        cases = msgspec.json.decode(path.read_bytes(), type=tuple[Case, ...])
    except (OSError, msgspec.MsgspecError) as error:
        raise UnreadableEvidenceError(str(error)) from None
    except RecursionError:
        raise UnreadableEvidenceError("It is nested too deeply.") from None
    if any(map(_is_of_a_kernels_processes, cases)):
        raise UnreadableEvidenceError(
            "An earlier version made it, in which a kernel handed in the results of several "
            "processes. The grader runs these itself now: grade the submission again."
        )
    known = tuple(case for case in cases if case.exercise in EXERCISES)
    notebook = folder / f"{path.name.removesuffix(KEPT)}.ipynb"
    return Graded(folder.parent.name, folder.name, notebook, known)


def _is_of_a_kernels_processes(case: Case) -> bool:
    """Whether evidence has results of processes that the kernel started, and not the grader."""
    answers = case.evidence.get("answers") if isinstance(case.evidence, dict) else None
    pieces = answers.values() if isinstance(answers, dict) else ()
    return any(isinstance(piece, dict) and piece.get("type") == "runs" for piece in pieces)


def judge_again(
    course: Course, bases: Bases, graded: Sequence[Graded], all_pages: bool = False
) -> Iterator[Again]:
    """Judge each notebook's evidence, and enter verdicts where they, or points, are others.

    Exercises that handed in no evidence keep what they have. The inputs are the same as before, so
    where neither exercises nor judge nor points have changed, no score does. Where an error of ours
    keeps a notebook from being judged, it keeps its grade and its page.

    Stopped or killed at any moment, this leaves no new score that is said to rest on what there was
    before: what a grade rests on is forgotten first, and remembered with its page.

    Args:
        course: where.
        bases: what its grades rest on.
        graded: what to judge; the notebooks of one submission stand together.
        all_pages: make pages of what has stayed the same, too: what was judged again may have been
            killed before it came to that.

    Raises:
        NoSandboxError: nothing is to be judged here.
    """
    about, config = course.api.coursedir, course.api.config
    with (
        Gradebook(about.db_url, about.course_id) as gradebook,
        closing(judged(graded, config)) as each,
    ):
        for pair, notebooks in groupby(zip(graded, each, strict=True), _whose):
            then, is_done = bases.then(*pair), True
            for one, verdicts in notebooks:
                try:
                    found = _without_faults(verdicts.result())
                    course.forget(*pair)
                    is_new = _enter(gradebook, one, found)
                except NoSandboxError:
                    raise
                except Exception as error:  # one submission's failure is its own
                    gradebook.db.rollback()
                    is_done, is_begun = False, course.has_forgotten(*pair)
                    what = "it is to be graded anew" if is_begun else "the old grade stays"
                    why = f"{what}. {type(error).__name__}: {error}"
                    yield Again(one, is_new=False, why=why)
                    continue
                why = _finish(course, one) if is_new or all_pages else ""
                is_done &= not why
                yield Again(one, is_new, why)
            if is_done and then is not None:
                bases.remember(*pair, then.but_judged_by(bases.of_assignment(pair[1])))


def _whose(judged: tuple[Graded, Any]) -> tuple[str, str]:
    return judged[0].student, judged[0].assignment


def judged(graded: Sequence[Graded], config: Any) -> Generator[Future[list[Verdict]]]:
    """The verdicts on each submission, or why there are none.

    A process of its own for each: what a submission does to its judge is done to nobody else's.
    """
    seconds = JudgeEvidence(config=config).seconds
    rooms = {
        assignment: Sandbox(config=config, compiled=compiled_before(config, assignment))
        for assignment in {one.assignment for one in graded}
    }
    pool = ThreadPoolExecutor(CORES)
    try:
        yield from [
            pool.submit(list, one.verdicts)
            if one.verdicts
            else pool.submit(judge_apart, one.cases, seconds, rooms[one.assignment])
            for one in graded
        ]
    finally:  # whoever stops it is not kept waiting for the rest
        pool.shutdown(wait=False, cancel_futures=True)


def _without_faults(verdicts: list[Verdict]) -> list[Verdict]:
    """The same verdicts.

    Raises:
        NotGradedError: one of them is that judging failed.
    """
    for verdict in verdicts:
        if verdict.fault is not None:
            raise NotGradedError(verdict.exercise, verdict.fault)
    return verdicts


def _enter(gradebook: Any, one: Graded, verdicts: list[Verdict]) -> bool:
    """Enter verdicts into the gradebook and into the graded notebook; whether any is another."""
    notebook = nbformat.read(one.notebook, 4)
    before, is_another_score = copy.deepcopy(notebook), False
    cells = {c.metadata.get("nbgrader", {}).get("grade_id"): c for c in notebook.cells}
    book = gradebook.find_submission_notebook(one.notebook.stem, one.assignment, one.student)
    grades = {grade.name: grade for grade in book.grades}
    for verdict in verdicts:
        name = EXERCISES[verdict.exercise].grade_id
        if name not in grades or name not in cells:
            continue  # the notebook has no such exercise any more
        grade, points = grades[name], grades[name].cell.max_score
        write_verdict(cells[name], verdict, points)
        score = round(verdict.score * points, 4)
        if grade.auto_score != score:
            grade.auto_score, is_another_score = score, True
            grade.needs_manual_grade |= grade.manual_score is not None  # which hides the new one
    for name, grade in grades.items():
        if name in cells:  # with evidence or without
            about = cells[name].metadata["nbgrader"]
            if grade.manual_score is not None and about.get("points") != grade.cell.max_score:
                grade.needs_manual_grade = True  # it was given out of other points
            about["points"] = grade.cell.max_score
    gradebook.db.commit()
    kept = kept_verdicts(one.notebook.parent, one.notebook.stem)  # some handed in no evidence
    kept |= {verdict.exercise: verdict for verdict in verdicts}
    keep_verdicts(one.notebook.parent, one.notebook.stem, kept.values())
    is_another_notebook = bool(notebook != before)
    if is_another_notebook:
        one.notebook.unlink()  # nbgrader leaves it read-only
        nbformat.write(notebook, one.notebook)
    return is_another_score or is_another_notebook


def _finish(course: Course, one: Graded) -> str:
    """What follows from another score: penalties for being late, and a page; what went wrong."""
    about = {
        "student": one.student,
        "assignment": one.assignment,
        "notebook": one.notebook.stem,
        "db_url": course.api.coursedir.db_url,
    }
    try:
        late = AssignLatePenalties(config=course.api.config)
        late.preprocess(nbformat.v4.new_notebook(), {"nbgrader": about})
    except Exception as error:  # one submission's failure is its own
        return f"no feedback page. {type(error).__name__}: {error}"
    done = course.api.generate_feedback(one.assignment, one.student, force=True)
    return "" if done["success"] else f"no feedback page. {reason(done)}"
