"""Require what keeps a training step's state: its layouts, and the donation of its buffers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from humanize import natural_list

from autograder import artifacts
from autograder.evidence import Program
from autograder.judge.diagnoses import NOT_COUNTED, WRONG_SHAPE
from autograder.judge.exercise import Exercise, Order, Requirement
from autograder.judge.requirements_on_values import argument_names_of
from autograder.judge.running_programs import argument_lists_of, run_all
from autograder.judge.verdict import Finding
from autograder.judge.wording import with_arguments
from shardlings.layouts import Layout, find_difference


@dataclass(frozen=True)
class KeepsLayouts(Requirement):
    """Each result of a function has the layout of the argument in the same place.

    For example, `KeepsLayouts("step")` for `step(weights, momentum, examples)`, which returns new
    weights and a new momentum. Otherwise the next step would be given other layouts than this one.

    Attributes:
        answer: the name of the answer in the notebook. A `Computes` on the same answer exports it.
        asks: the condition, in words.
        gradients_of: if the results are gradients, the first argument of which they are; others
            follow it.
    """

    about: ClassVar = "layout"
    order: ClassVar = Order.LAYOUT
    evidence: ClassVar = (Program,)

    answer: str
    asks: str = "results with the layouts of the arguments that they replace"
    gradients_of: str = ""

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the layout of each result with that of its argument."""
        names = argument_names_of(exercise, self.answer)
        first = names.index(self.gradients_of) if self.gradients_of else 0
        made_of = "the gradient of" if self.gradients_of else "a new"
        lists = argument_lists_of(exercise, self.answer)
        runs = run_all(exercise, self.answer, piece, seed)
        for number, ((_, ran), arguments) in enumerate(zip(runs, lists, strict=True)):
            if ran.container == "dict":  # whose values are in the order of its keys
                return finding.problem(NOT_COUNTED, "This counts once the results are in a tuple.")
            pairs = zip(names[first:], arguments[first:], ran.outputs[0], strict=False)
            for name, argument, output in pairs:
                target = Layout.of(artifacts.sharding_of(argument), argument.shape)
                made = Layout.of(output)
                if made.shape != target.shape:
                    sentence = f"In place of {made_of} {name} is a result of shape {made.shape}."
                    return finding.problem(WRONG_SHAPE, sentence)
                difference = find_difference(target, made)
                if difference is not None:
                    sentence = (
                        f"As a whole program, {self.answer} returns {made_of} {name} in another "
                        f"layout than {name}. {difference.sentence}"
                    )
                    if number:
                        sentence = with_arguments(arguments, sentence)
                    return finding.problem(
                        difference.diagnosis,
                        sentence,
                        expected=target.describe(),
                        got=made.describe(),
                        target=target,
                        made=made,
                    )
        return finding.but(met=True, got="the same layouts again")


@dataclass(frozen=True)
class Donates(Requirement):
    """A jitted function donates the buffers of its first arguments, and of no other.

    For example, `Donates("step", 2)` for `step(weights, momentum, examples)`. Otherwise the old and
    the new state are in memory at the same time.

    Attributes:
        answer: the name of the answer in the notebook. A `Computes` on the same answer exports it.
        count: the number of arguments to donate.
        asks: the condition, in words.
        is_slight: whether other requirements still count if nothing is donated, where they count
            together; they do if some arguments are, or too many.
    """

    about: ClassVar = "donation"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)
    # a buffer that is donated cannot be used for a result with another layout
    depends_on_layout: ClassVar = True

    answer: str
    count: int
    asks: str = "a jitted function that donates the buffers of its state, and no others"
    is_slight: bool = False

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the arguments that each program donates with the first ones."""
        names = argument_names_of(exercise, self.answer)
        for number, (_, ran) in enumerate(run_all(exercise, self.answer, piece, seed)):
            # those that no result fits into are not always in the program
            offered = ran.donated.union(*piece.donated[number : number + 1])
            donated = [name for i, name in enumerate(names) if i in ran.donated]
            finding = finding.but(got=_describe_donated(donated))
            kept = [name for name in names[: self.count] if name not in donated]
            listed = [name for i, name in enumerate(names) if name in kept and i in offered]
            if kept and listed == kept:
                return finding.problem(
                    "donated-for-nothing",
                    f"jax.jit may donate {natural_list(kept)}, but in the compiled program no "
                    f"result takes {'its place' if len(kept) == 1 else 'their places'}. Does a "
                    f"result depend on {'it' if len(kept) == 1 else 'each of them'}, and have its "
                    f"shape, dtype and layout?",
                    is_slight=self.is_slight or len(kept) < self.count,
                )
            listed = [name for i, name in enumerate(names) if i in offered]
            if kept:
                missing = [name for name in kept if name not in listed]
                its = "its" if len(missing) == 1 else "their"
                return finding.problem(
                    "not-donated",
                    f"As a whole program, {self.answer} does not donate {natural_list(missing)}: "
                    f"{its} old and new values are in memory at the same time then. (Is there a "
                    f"jit within it? That donates only where {self.answer} is called plainly.)",
                    is_slight=self.is_slight or len(kept) < self.count,
                    got=_describe_donated(listed),
                )
            extra = [name for i, name in enumerate(names) if i >= self.count and i in offered]
            if extra:
                several = len(extra) > 1
                return finding.problem(
                    "donates-too-much",
                    f"{natural_list(extra)} {'are' if several else 'is'} donated, too. Expected: "
                    f"only {natural_list(names[: self.count])}.",
                    is_slight=True,
                    got=_describe_donated(listed),
                )
        return finding.but(met=True)


def _describe_donated(names: Sequence[str]) -> str:
    """Return `W and moment donated`."""
    return f"{natural_list([*names]) or 'no argument'} donated"
