"""Require a property of what a plain Python function returns, where several results are right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from autograder.evidence import ResultsPlan, Value
from autograder.explanations import RAISED
from autograder.judge.comparing_values import Wrong
from autograder.judge.exercise import NOT_AS_PLANNED, Exercise, Requirement
from autograder.judge.requirements_on_results import read_results
from autograder.judge.showing_results import shorten_call, show_plain
from autograder.judge.verdict import Finding
from shardlings.pictures import GanttChart

Case = tuple[Any, ...]
"""The arguments of a call, as plain data."""


@dataclass(frozen=True)
class Satisfies(Requirement):
    """A Python function returns results with a property, on randomly sampled cases.

    For example, with a function that finds what is wrong with one result:

        def explain(result, n):
            if not isinstance(result, int) or n % result:
                return "no-divisor", f"{result} does not divide {n}."

        Satisfies("divisor", "divisor(n) must divide n.", cases, explain)

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what the function must return, in a sentence.
        cases: samples argument lists, of plain data, from a generator.
        explain: finds what is wrong with a result, given the arguments that it is for. The result
            is plain data of any form, because it may be forged.
        draw: draws a result and a right one, for the same arguments; None if there is nothing to
            draw.
        relate: names what is wrong with one case by the results of all, from the diagnosis of that
            case, its arguments, and the results and arguments of all cases; None if each case is
            explained by itself.
        shown_as: the type of a right result. Evidence has only lists, and a verdict shows them as
            this type.
    """

    about: ClassVar = "result"
    evidence: ClassVar = (Value,)
    runs_in_kernel: ClassVar = True

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[Case]]
    explain: Callable[..., Wrong | None]
    draw: Callable[..., tuple[GanttChart, ...]] | None = None
    relate: Callable[[str, Case, Sequence[tuple[Any, Case]]], str] | None = None
    shown_as: type[list[Any] | tuple[Any, ...] | jax.P] = tuple

    def plan_capture(self, generator: np.random.Generator) -> ResultsPlan:
        """Plan to call the function in each case."""
        return ResultsPlan.of(self.cases(generator))

    def judge(self, piece: Value, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Explain the first result that lacks the property."""
        cases = self.cases(exercise.generator(seed))
        results = read_results(piece, len(cases))
        if results is None:
            return finding.problem(*NOT_AS_PLANNED)
        for case, result in zip(cases, results, strict=True):
            call = shorten_call(f"{self.answer}({', '.join(map(repr, case))})")
            if "error" in result:
                sentence = f"Your function raised {result['error']}. The call was {call}."
                return finding.problem(RAISED, sentence, got="")
            returned = result.get("returned")
            problem = self.explain(returned, *case)
            if problem is not None:
                diagnosis, sentence = problem
                if self.relate:
                    pairs = [(r.get("returned"), c) for r, c in zip(results, cases, strict=True)]
                    diagnosis = self.relate(diagnosis, case, pairs)
                charts = self.draw(returned, *case) if self.draw else ()
                shown = show_plain(returned, self.shown_as())
                got = f"{shown} from {call}, one of {len(cases)} cases"
                return finding.problem(diagnosis, sentence, got=got, charts=charts)
        return finding.but(met=True, got=f"a right result in all of {len(cases)} cases")
