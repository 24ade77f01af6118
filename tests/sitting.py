"""A learner at a notebook, without a kernel: its cells run in a namespace of their own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder import evidence
from autograder.capture import capture
from autograder.exercises import find
from autograder.instructor.bank import Known, answered
from autograder.judge import judge
from autograder.verdict import Verdict


@dataclass
class Sitting:
    """A released notebook, with all its cells run but the exercises' own."""

    notebook: Path
    names: dict[str, Any]

    @classmethod
    def at(cls, notebook: Path) -> "Sitting":
        """Run what the notebook shows, up to its end."""
        names: dict[str, Any] = {"__name__": "__main__"}
        for cell in nbformat.read(notebook, 4).cells:
            if cell.cell_type == "code" and not _grade_id(cell) and "%pip" not in cell.source:
                exec(compile(cell.source, f"<{cell.id}>", "exec"), names)
        return cls(notebook, names)

    def answer(self, known: Known, seed: int) -> tuple[Verdict, Any]:
        """What `check` says to a known answer, and the evidence that it would hand in."""
        exercise = find(known.exercise)
        notebook = answered(nbformat.read(self.notebook, 4), {known.exercise: known.code})
        cells = {_grade_id(cell): cell for cell in notebook.cells}
        names = dict(self.names)
        handed_in: list[evidence.Evidence] = []

        def check(exercise_id: str, *answer: object, **answers: object) -> None:
            assert exercise_id == exercise.id
            named = answers or {exercise.answers[0]: answer[0]}
            handed_in.append(capture(exercise, named, seed))

        source = cells[exercise.grade_id.removesuffix("-check")].source
        try:
            exec(compile(source, f"<{known.title}>", "exec"), names)
        except Exception:  # as in a notebook: the next cell runs all the same
            assert "raises" in known.title, f"{known.title!r} raised"
        exec(cells[exercise.grade_id].source, {**names, "check": check})
        return judge(exercise, handed_in[0], seed), evidence.to_json(handed_in[0])


def _grade_id(cell: Any) -> str | None:
    found: str | None = cell.metadata.get("nbgrader", {}).get("grade_id")
    return found
