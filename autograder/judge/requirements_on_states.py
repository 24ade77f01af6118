"""Require that a training step returns its state in the layout in which it was given it."""

from dataclasses import dataclass
from typing import ClassVar

from autograder import programs
from autograder.evidence import Program
from autograder.judge.exercise import Exercise, Order, Requirement
from autograder.judge.requirements_on_values import argument_names_of
from autograder.judge.running_programs import argument_lists_of, run_all
from autograder.judge.verdict import Finding
from autograder.judge.wording import with_arguments
from autograder.layouts import Layout, find_difference


@dataclass(frozen=True)
class KeepsLayouts(Requirement):
    """Each result of a function has the layout of the argument in the same place.

    For example, `KeepsLayouts("step")` for `step(weights, momentum, examples)`, which returns new
    weights and a new momentum. Otherwise the next step would be given other layouts than this one.

    Attributes:
        answer: the name of the answer in the notebook. A `Computes` on the same answer exports it.
        asks: the condition, in words.
    """

    about: ClassVar = "layout"
    order: ClassVar = Order.LAYOUT
    evidence: ClassVar = (Program,)

    answer: str
    asks: str = "results with the layouts of the arguments that they replace"

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the layout of each result with that of its argument."""
        names = argument_names_of(exercise, self.answer)
        lists = argument_lists_of(exercise, self.answer)
        runs = run_all(exercise, self.answer, piece, seed)
        for number, ((_, ran), arguments) in enumerate(zip(runs, lists, strict=True)):
            pairs = zip(names, arguments, ran.outputs[0], strict=False)
            for name, argument, output in pairs:
                target = Layout.of(programs.sharding_of(argument), argument.shape)
                made = Layout.of(output)
                if made.shape != target.shape:
                    sentence = f"A result in place of {name} has the shape {made.shape}."
                    return finding.problem("shape", sentence)
                found = find_difference(target, made)
                if found is not None:
                    sentence = f"The new {name} has another layout than {name}. {found.sentence}"
                    if number:
                        sentence = with_arguments(arguments, sentence)
                    return finding.problem(
                        found.diagnosis,
                        sentence,
                        expected=target.describe(),
                        got=made.describe(),
                        target=target,
                        made=made,
                    )
        return finding.but(met=True, got="the same layouts again")
