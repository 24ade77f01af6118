"""Judge captured evidence, and write a verdict and a score into each graded cell."""

import builtins
from collections.abc import Iterable
from typing import Any

from humanize import natural_list
from msgspec.structs import replace
from nbformat.v4 import new_output
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float

from autograder import evidence
from autograder.exercises import BY_GRADE_ID, Exercise, find
from autograder.instructor.course import NAMESPACE, NOT_RUN
from autograder.instructor.nbgrader_plugins.capture_evidence import KernelDeath, find_evidence
from autograder.instructor.pipeline import find_compiled, is_note
from autograder.instructor.sandbox import (
    JUDGE_CPU_SECONDS,
    Case,
    JudgeFailedError,
    NotObservedError,
    Sandbox,
    encode_case,
    is_observed,
    judge_in_sandbox,
    observe_in_sandbox,
)
from autograder.judge import (
    KERNEL_DIED,
    NO_EVIDENCE,
    Verdict,
    verdict_as_html,
    verdict_as_text,
    verdict_without_evidence,
)
from autograder.notebook import NotJudged


class NotGradedError(RuntimeError):
    """The autograder itself failed, so the submission has no grade."""

    def __init__(self, exercise: str, happened: object) -> None:
        super().__init__(
            f"exercise {exercise} could not be judged, by no fault of the answer: {happened}. "
            f"Nothing of this submission was graded."
        )


class JudgeEvidence(NbGraderPreprocessor):
    """Has the evidence of each graded cell judged, and writes the verdict into the cell.

    The outputs of graded cells are replaced, except for printed text, so the number that nbgrader
    reads as the score is never the submission's. Points come from the gradebook, not from the
    submission. Graded cells that an instructor added keep their outputs.

    If the autograder itself fails, in the kernel or in the judge, there is no score for that
    exercise, and scores for the others would look like a grade, so the whole submission fails. A
    submission can fake such a failure; it then gets no score, and an instructor looks into it.
    """

    seconds = Float(
        JUDGE_CPU_SECONDS,
        help="How much CPU time all of one notebook's evidence may take to judge. By the "
        "clock it may take five times as long; where it takes more, nothing is graded.",
    ).tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Judge all evidence of a notebook in one clean process, then write the verdicts.

        Raises:
            NotGradedError: an internal error kept an exercise from being judged.
        """
        points = self._points(resources["nbgrader"])
        capture = resources[NAMESPACE]
        graded = {
            exercise.id: (exercise, cell)
            for cell in nb.cells
            for exercise in [BY_GRADE_ID.get(cell.metadata.get("nbgrader", {}).get("grade_id"))]
            if exercise is not None and exercise.grade_id in points and cell.cell_type == "code"
        }
        too_large = [nb.cells[index] for index in capture["too_large"]]
        fresh = resources["nbgrader"]["seeds"].judge
        cases = [
            Case(exercise.id, captured, capture["seed"], fresh)
            for exercise, cell in graded.values()
            for captured in [_find_evidence_for(exercise, cell, nb)]
            if captured is not None
        ]
        cases = self._observe(cases)
        compiled = find_compiled(self.config, resources["nbgrader"]["assignment"])
        sandbox = Sandbox(parent=self, compiled=compiled)
        verdicts = {v.exercise: v for v in judge_in_sandbox(cases, self.seconds, sandbox)}
        for exercise, cell in graded.values():
            _check_no_fault(exercise, cell, verdicts.get(exercise.id))
        for exercise, cell in graded.values():
            is_too_large = any(cell is large_cell for large_cell in too_large)
            if exercise.id not in verdicts:
                died = capture["died"]
                verdicts[exercise.id] = _explain_missing_evidence(
                    exercise, cell, died, is_too_large
                )
            write_verdict(cell, verdicts[exercise.id], points[exercise.grade_id])
        for cell in nb.cells:
            _remove_evidence(cell)
        if capture["died"] is not None:
            notes_above = sum(map(is_note, nb.cells[:1]))
            _fail_tests_not_run(nb.cells[max(capture["died"].cell, 0) + notes_above :])
        encoded = [case for case in map(encode_case, cases) if case is not None]
        capture["evidence"] = b"[" + b",".join(encoded) + b"]"
        capture["verdicts"] = verdicts
        capture["notes"] = [] if capture["died"] is None else [capture["died"].description]
        if capture["stopped"]:
            cells = natural_list([f"cell {cell + 1}" for cell in capture["stopped"]])
            capture["notes"].append(f"The time limit stopped {cells}.")
        return nb, resources

    def _observe(self, cases: list[Case]) -> list[Case]:
        """Have several processes call the submitted functions, for exercises that need it.

        Raises:
            NotGradedError: the processes could not be started on this machine.
        """
        plans = [find(case.exercise).plan(case.fresh or 0) for case in cases]
        wanted = [i for i, plan in enumerate(plans) if is_observed(plan)]
        if not wanted:
            return cases
        calls = [(plans[i], cases[i].evidence) for i in wanted]
        try:
            observed = observe_in_sandbox(calls, Sandbox(parent=self))
        except NotObservedError as error:
            raise NotGradedError(cases[wanted[0]].exercise, error) from error
        cases = list(cases)
        for i, observation in zip(wanted, observed, strict=True):
            cases[i] = replace(cases[i], evidence=observation)
        return cases

    def _points(self, names: Any) -> dict[str, float]:
        with Gradebook(names["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(names["notebook"], names["assignment"])
            return {cell.name: cell.max_score for cell in notebook.grade_cells}


def _find_evidence_for(exercise: Exercise, cell: Any, nb: Any) -> Any:
    """Return the last evidence for an exercise: from its own check cell, or else from any cell."""
    for cells in ([cell], nb.cells):
        captured = [e for c in cells for e in find_evidence(c) if e.get("exercise") == exercise.id]
        if captured:
            return captured[-1]
    return None


def _check_no_fault(exercise: Exercise, cell: Any, verdict: Verdict | None) -> None:
    """Check that no internal error kept an exercise from being judged.

    Raises:
        NotGradedError: one did, in the judge or in the kernel.
    """
    if verdict is not None and verdict.fault is not None:
        is_machines = is_error_of_machine(verdict.fault.error)
        cause = JudgeFailedError(str(verdict.fault)) if is_machines else None
        raise NotGradedError(exercise.id, verdict.fault) from cause
    errors = [o for o in cell.outputs if o.output_type == "error"]
    if verdict is None and errors and errors[0].ename == NotJudged.__name__:
        raise NotGradedError(exercise.id, "its check failed in the kernel, and says why there")


def is_error_of_machine(name: str) -> bool:
    """Check whether a built-in error of this name says that the machine ran short of something."""
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, OSError | MemoryError | SystemError)


def _remove_evidence(cell: Any) -> None:
    """Remove evidence from a cell's outputs; it has been judged, and the record keeps it."""
    if cell.cell_type == "code":
        cell.outputs = [o for o in cell.outputs if evidence.MIME_TYPE not in o.get("data", {})]


def _fail_tests_not_run(cells: Iterable[Any]) -> None:
    """Make an instructor's own tests fail if they never ran.

    nbgrader would take a test cell without an error for a passed one.
    """
    for cell in cells:
        metadata = cell.metadata.get("nbgrader", {})
        is_test = (
            cell.cell_type == "code" and metadata.get("grade") and not metadata.get("solution")
        )
        if is_test and metadata["grade_id"] not in BY_GRADE_ID:
            why = "the kernel died before this cell had run to its end"
            cell.outputs.append(
                new_output("error", ename=NOT_RUN, evalue=why, traceback=[f"{NOT_RUN}: {why}"])
            )


def _explain_missing_evidence(
    exercise: Exercise, cell: Any, died: KernelDeath | None, is_too_large: bool
) -> Verdict:
    errors = [o for o in cell.outputs if o.output_type == "error"]
    if errors and errors[0].ename in ("KeyboardInterrupt", "CellTimeoutError"):
        return verdict_without_evidence(
            exercise, "timeout", "The check did not end in the time that a cell has: is there a "
            "loop that does not end?",
        )  # fmt: skip
    if errors:
        why = f"The check cell ended with {errors[0].ename}: {errors[0].evalue}".rstrip()
        period = "" if why.endswith((".", "!", "?")) else "."
        return verdict_without_evidence(
            exercise,
            "check-failed",
            f"{why}{period} Often the cell above raised an error of its own.",
        )
    if is_too_large:
        return verdict_without_evidence(
            exercise, "too-large", "The evidence of this check is too large to be kept: call it "
            "with nothing larger than the exercise asks for.",
        )  # fmt: skip
    if died is not None:
        why = f" (it was killed: {died.reason})" * bool(died.reason)
        return verdict_without_evidence(
            exercise,
            KERNEL_DIED,
            f"The kernel died before this check ran{why}, so nothing was handed in from here on.",
        )
    return verdict_without_evidence(
        exercise, NO_EVIDENCE, f'check("{exercise.id}", …) did not run, so nothing was handed in.'
    )


def compute_score(verdict: Verdict, points: float) -> float:
    """Return the points that a verdict earns."""
    return round(verdict.score * points, 4)


def write_verdict(cell: Any, verdict: Verdict, points: float) -> None:
    """Replace a graded cell's outputs by its printed text, the verdict and the score."""
    printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
    score = compute_score(verdict, points)
    cell.outputs = [
        *([new_output("stream", name="stdout", text=printed)] if printed else []),
        new_output(
            "display_data",
            data={
                # a grading kernel draws no targets, so the verdict draws all of them
                "text/html": verdict_as_html(verdict, whole=True),
                "text/plain": verdict_as_text(verdict),
            },
        ),
        new_output("execute_result", data={"text/plain": str(score)}, execution_count=None),
    ]
    cell.execution_count = None
