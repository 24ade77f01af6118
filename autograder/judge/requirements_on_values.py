"""Require a function's values: compile and run the exported program, and compare its results.

Wrong results are explained from the values alone in the modules `explaining_….py`, and by making
mistakes and comparing what they give in `recognising_mistakes.py`; `_WrongResults.explain` has the
order. Whatever judges a program raises `artifacts.ProgramError` if the program cannot be judged.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import jax
import numpy as np
from humanize import natural_list

from autograder import artifacts
from autograder.artifacts import Argument, ProgramRun, describe_arguments
from autograder.evidence import (
    Program,
    ProgramPlan,
)
from autograder.judge.comparing_values import (
    ArrayFunction,
    Wrong,
    compare,
    describe_array,
    find_worst_element,
    is_close_throughout,
    is_finite,
    is_right_to_few_digits,
    widen,
)
from autograder.judge.diagnoses import (
    IGNORES_INPUTS,
    IN_A_CONTAINER,
    MISPLACED,
    NOT_A_NUMBER,
    NOT_FINITE,
    WRONG_DTYPE,
    WRONG_SHAPE,
    WRONG_VALUES,
)
from autograder.judge.exercise import Exercise, Requirement, ways_of
from autograder.judge.explaining_factors import (
    explain_change,
    explain_constant,
    explain_factor,
    explain_varying_factors,
)
from autograder.judge.explaining_places import explain_misplaced, explain_wrong_places
from autograder.judge.explaining_products import explain_added_products
from autograder.judge.explaining_shapes import explain_several_results
from autograder.judge.recognising_mistakes import (
    recognise_general_mistake,
    recognise_known_mistake,
)
from autograder.judge.running_programs import SampledRun, argument_lists_of, run_all
from autograder.judge.verdict import Finding
from autograder.judge.wording import with_arguments
from shardlings.pictures import GanttChart


class HasReference(Protocol):
    """A requirement on values: a reference, and known mistakes."""

    @property
    def reference(self) -> ArrayFunction: ...
    @property
    def mistakes(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Computes(Requirement):
    """A function computes the same values as a NumPy reference, on inputs sampled when judging.

    For example, with `X = Argument((16,), axes=(("x", 8),), spec=("x",))`:

        Computes("double", "double(x) must be 2 * x.", lambda x: 2 * x, arguments=((X,),))

    The function is exported once for each list of arguments. The judge compiles and runs these
    programs; other requirements on the same answer, such as `CommunicatesAtMost`, judge them too.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what the function must compute, in a sentence.
        reference: computes the right values from NumPy arrays.
        arguments: the lists of arguments that the function is exported for. The first is the one
            in the notebook; a second list, on another mesh or of other shapes, shows whether sizes
            are hard-coded.
        mistakes: for each diagnosis, a reference with that mistake and no other, or a `Mistake`.
        patterns: for each diagnosis that explains many mistakes, a check for it of the inputs and
            the wrong result (a tuple, if there are several), or a `Mistake` of such checks.
        under_mesh: whether the arguments' mesh is the current one (`jax.set_mesh`) while the
            function is traced, so that the function need not name a mesh.
        blocks: for a matmul of blocks: for each list of arguments, the numbers of blocks along A's
            rows, the contracted dimension and B's columns. A verdict can then say which products
            of blocks were added up.
        draw: draws a wrong result beside the right one, from the inputs and the outputs; None if
            there is nothing to draw.
        results: the names of the results, if there are several; without names, a verdict counts
            them.
    """

    about: ClassVar = "values"
    evidence: ClassVar = (Program,)
    is_usual_subject: ClassVar = False

    answer: str
    asks: str
    reference: ArrayFunction
    arguments: tuple[tuple[Argument, ...], ...]
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    patterns: Mapping[str, Any] = field(default_factory=dict)
    under_mesh: bool = False
    blocks: tuple[tuple[int, int, int], ...] = ()
    draw: Callable[[Sequence[np.ndarray], Sequence[Any]], tuple[GanttChart, ...]] | None = None
    results: tuple[str, ...] = ()

    @property
    def explained(self) -> Mapping[str, Any]:
        """The mistakes and the patterns; of one name, they share the lesson."""
        return {**self.patterns, **self.mistakes}

    @property
    def exported_for(self) -> tuple[tuple[Argument, ...], ...]:
        """The lists of arguments."""
        return self.arguments

    def plan_capture(self, generator: np.random.Generator) -> ProgramPlan:
        """Plan to export the function for each list of arguments."""
        return ProgramPlan(self.arguments, self.under_mesh)

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Run the programs on sampled inputs, and compare their results with the reference."""
        runs = run_all(exercise, self.answer, piece, seed)
        arguments = [describe_arguments(each) for each in self.arguments]
        names = argument_names_of(exercise, self.answer)
        finding = judge_runs(
            self, runs, arguments, finding, self.results, self.arguments, argument_names=names
        )
        if finding.met or self.draw is None:
            return finding
        drawn = (
            self.draw(inputs, outputs)
            for samples, ran in runs
            for inputs, outputs in zip(samples, ran.outputs, strict=True)
            if compare(self.reference, inputs, outputs)
        )
        return finding.but(charts=next(drawn, ()))


def judge_runs(
    requirement: HasReference,
    runs: Sequence[SampledRun],
    inputs_in_words: Sequence[str],
    finding: Finding,
    result_names: Sequence[str] = (),
    argument_lists: Sequence[Sequence[Argument]] = (),
    argument_names: Sequence[str] = (),
) -> Finding:
    """Compare the results of programs with the reference, and explain the first difference.

    Args:
        requirement: the requirement.
        runs: the inputs and results of each program.
        inputs_in_words: the inputs of each program, in words.
        finding: the finding to start from.
        result_names: the names of the results, if they have names.
        argument_lists: the arguments of each program, as the exercise specifies them.
        argument_names: the names of the arguments.
    """
    compare_named = partial(compare, requirement.reference, names=result_names)
    wrongs = [
        next(filter(None, map(compare_named, samples, ran.outputs)), None) for samples, ran in runs
    ]
    number = next((number for number, wrong in enumerate(wrongs) if wrong), None)
    if number is None:
        return _accept(requirement, runs, finding)
    results = _WrongResults(
        requirement, runs, inputs_in_words, number, result_names, argument_lists, argument_names
    )
    finding = finding.but(
        got=_describe_result(
            requirement, *runs[number], inputs_in_words[number], result_names, wrongs[number]
        )
    )
    wrong = results.explain(wrongs[number] or (WRONG_VALUES, ""))
    if number and wrong[0] in (WRONG_VALUES, MISPLACED, WRONG_SHAPE):
        if wrong[0] == WRONG_VALUES:
            wrong = results.explain_first() or wrong
        return _after_right_cases(requirement, runs, inputs_in_words, number, wrong, finding)
    return finding.problem(*wrong)


def _accept(requirement: HasReference, runs: Sequence[SampledRun], finding: Finding) -> Finding:
    """Return the finding for results with the right values."""
    container = _needless_container(requirement, runs) if isinstance(requirement, Computes) else ""
    if container:
        return finding.but(got=f"the right values in a {container}").problem(
            IN_A_CONTAINER,
            f"The values are right, but the function returns them in a {container}; expected the "
            f"array itself.",
        )
    return finding.but(met=True, got="the right values on every input tried")


@dataclass(frozen=True)
class _WrongResults:
    """Explains the results of programs, of which some are wrong.

    Attributes:
        number: the first program whose results are wrong.

    The other attributes are arguments of `judge_runs`.
    """

    requirement: HasReference
    runs: Sequence[SampledRun]
    inputs_in_words: Sequence[str]
    number: int
    result_names: Sequence[str]
    argument_lists: Sequence[Sequence[Argument]]
    argument_names: Sequence[str]

    def explain(self, wrong: Wrong) -> Wrong:
        """Find the mistake, or else return what `compare` says.

        Later explanations are more general. Each is looked for as long as only the values, or the
        shape, are known to be wrong.
        """
        if wrong[0] == WRONG_DTYPE:
            return WRONG_DTYPE, self._with_arguments(wrong[1])
        known = recognise_known_mistake(
            self.requirement.reference, self.requirement.mistakes, self.runs
        )
        if known:  # of a wrong shape, the sentence on the shape says more
            return known[0], wrong[1] if wrong[0] == WRONG_SHAPE else known[1]
        for explain, diagnoses in (
            (self._recognise_pattern, (WRONG_VALUES,)),
            (self._explain_degenerate_values, (WRONG_VALUES,)),
            (self._explain_factor, (WRONG_VALUES,)),
            (self._explain_constant, (WRONG_VALUES,)),
            (self._explain_change, (WRONG_VALUES,)),
            (self._explain_several_results, (WRONG_VALUES, WRONG_SHAPE)),
            (self._explain_places, (WRONG_VALUES,)),
            (self._explain_added_products, (WRONG_VALUES,)),
            (self._recognise_general_mistake, (WRONG_VALUES, WRONG_SHAPE)),
            (self._explain_varying_factors, (WRONG_VALUES,)),
            (self._explain_rounding, (WRONG_VALUES,)),
        ):
            if wrong[0] in diagnoses:
                wrong = explain() or wrong
        return wrong

    def explain_first(self) -> Wrong | None:
        """Explain the first wrong program alone, if the programs before it are right."""
        only = slice(self.number, self.number + 1)
        first = replace(
            self,
            runs=self.runs[only],
            inputs_in_words=self.inputs_in_words[only],
            argument_lists=self.argument_lists[only],
        )
        return first._explain_factor() or first._explain_change()

    def _with_arguments(self, sentence: str) -> str:
        """Prepend the arguments, unless they are those of the first program."""
        if not self.number:
            return sentence
        return with_arguments(self.inputs_in_words[self.number], sentence)

    def _recognise_pattern(self) -> Wrong | None:
        """Find the exercise's pattern that all wrong results have, if all have the right shape."""
        requirement = self.requirement
        if self.number or not isinstance(requirement, Computes) or not requirement.patterns:
            return None
        wrong = []
        for samples, ran in self.runs:
            for inputs, outputs in zip(samples, ran.outputs, strict=True):
                difference = compare(requirement.reference, inputs, outputs)
                if difference and difference[0] != WRONG_VALUES:
                    return None
                arrays = tuple(map(np.asarray, outputs))
                wrong += [(inputs, arrays if len(arrays) > 1 else arrays[0])] if difference else []
        with np.errstate(all="ignore"):
            for diagnosis, pattern in requirement.patterns.items():
                for is_seen in ways_of(pattern):
                    if all(is_seen(inputs, output) for inputs, output in wrong):
                        return diagnosis, "The values are wrong."
        return None

    def _explain_degenerate_values(self) -> Wrong | None:
        """Recognise NaNs, zeros and constants."""
        samples, ran = self.runs[self.number]
        wanted = jax.tree.leaves(self.requirement.reference(*samples[0]))
        explanation = _explain_degenerate_values(ran, wanted)
        return (explanation[0], self._with_arguments(explanation[1])) if explanation else None

    def _explain_factor(self) -> Wrong | None:
        return explain_factor(
            self.requirement.reference, self.inputs_in_words, self.runs, self.argument_lists,
            self.argument_names,
        )  # fmt: skip

    def _explain_constant(self) -> Wrong | None:
        return explain_constant(self.requirement.reference, self.inputs_in_words, self.runs)

    def _explain_change(self, may_differ: bool = False) -> Wrong | None:
        return explain_change(
            self.requirement.reference, self.inputs_in_words, self.runs, self.argument_names,
            may_differ,
        )  # fmt: skip

    def _explain_several_results(self) -> Wrong | None:
        return explain_several_results(self.requirement.reference, self.runs, self.result_names)

    def _explain_places(self) -> Wrong | None:
        """Explain values that are misplaced, or wrong in some places only."""
        if not self.argument_lists:
            return None
        (samples, ran), arguments = self.runs[self.number], self.argument_lists[self.number]
        explanations: list[Wrong] = []
        for inputs, outputs in zip(samples, ran.outputs, strict=True):
            wanted = jax.tree.leaves(self.requirement.reference(*inputs))
            if len(outputs) != 1 or len(wanted) != 1:
                return None
            moved = explain_misplaced(outputs[0], wanted[0], arguments)
            sentence = moved or explain_wrong_places(outputs[0], wanted[0])
            if not sentence:
                return None
            explanations.append((MISPLACED if moved else WRONG_VALUES, sentence))
        return explanations[0] if len(set(explanations)) == 1 else None

    def _explain_added_products(self) -> Wrong | None:
        if self.number or not isinstance(self.requirement, Computes):
            return None
        return explain_added_products(self.requirement.blocks, self.argument_lists, self.runs)

    def _recognise_general_mistake(self) -> Wrong | None:
        if not isinstance(self.requirement, Computes):
            return None
        return recognise_general_mistake(
            self.requirement.reference, self.argument_lists, self.argument_names, self.runs
        )

    def _explain_varying_factors(self) -> Wrong | None:
        """Recognise factors that differ from case to case."""
        return explain_varying_factors(
            self.requirement.reference, self.runs
        ) or self._explain_change(may_differ=True)

    def _explain_rounding(self) -> Wrong | None:
        if self.number:
            return None
        return _explain_fewer_digits(self.requirement, self.runs) or _explain_coarser_type(
            *self.runs[self.number]
        )


def _after_right_cases(
    requirement: HasReference,
    runs: Sequence[SampledRun],
    inputs_in_words: Sequence[str],
    number: int,
    wrong: Wrong,
    finding: Finding,
) -> Finding:
    """Return the finding for program `number`, if the programs before it are right."""
    sentence = with_arguments(inputs_in_words[number], wrong[1])
    if not all(
        is_close_throughout(requirement.reference, inputs, outputs)
        for inputs, outputs in zip(runs[0][0], runs[0][1].outputs, strict=True)
    ):
        return finding.problem(
            wrong[0],
            f"{sentence} For {inputs_in_words[0]}, they are off as well, but by less than the "
            f"tolerance.",
        )
    return finding.problem(
        "only-the-first",
        f"The values are right for {inputs_in_words[0]}. {sentence} Does the code contain "
        f"something that holds in the first case only, such as a size?",
    )


def _needless_container(requirement: Computes, runs: Sequence[SampledRun]) -> str:
    """Return the type of a container around a result that should be an array; empty if none."""
    samples, ran = runs[0]
    expected = artifacts.container_name(jax.tree.structure(requirement.reference(*samples[0])))
    return "" if expected else ran.container


def _describe_result(
    requirement: HasReference,
    samples: list[list[np.ndarray]],
    ran: ProgramRun,
    arguments: str,
    names: Sequence[str],
    wrong: Wrong | None,
) -> str:
    """Describe the worst value of a program, and its arguments; or its types if these are wrong."""
    if wrong and wrong[0] == WRONG_DTYPE:
        return ", ".join(map(describe_array, ran.outputs[0]))
    count = len(ran.outputs[0])
    if not names and count > 1:
        names = [f"array {i} of the {count} returned" for i in range(1, count + 1)]
    random = f"random {arguments}" if isinstance(requirement, Computes) else arguments
    for inputs, outputs in zip(samples, ran.outputs, strict=True):
        if compare(requirement.reference, inputs, outputs) is None:
            continue  # other samples are wrong, and here it would be a rounding error
        place = find_worst_element(outputs, jax.tree.leaves(requirement.reference(*inputs)), names)
        if place:
            return f"{place}, for {random}"
    return ", ".join(map(describe_array, ran.outputs[0]))


def _explain_degenerate_values(ran: ProgramRun, wanted: Sequence[Any]) -> Wrong | None:
    """Recognise values that are wrong in any exercise: NaNs, infinities, zeros, constants.

    Args:
        ran: the program's results.
        wanted: the right results of the first sample: its own NaNs and infinities are right.
    """
    pairs = [(widen(o), widen(w)) for o, w in zip(ran.outputs[0], wanted, strict=True)]
    if any((np.isnan(actual) & ~np.isnan(right)).any() for actual, right in pairs):
        return NOT_A_NUMBER, (
            "The result has NaNs in it. Is there a 0 / 0, inf / inf, 0 * inf or inf - inf? Or a "
            "jnp.take with an index past the end of an array?"
        )
    if any(not is_finite(np.where(actual == right, 0, actual)) for actual, right in pairs):
        return NOT_FINITE, (
            "The result has infinities in it. A number that is too large for its type becomes an "
            "infinity, and so does a number divided by zero."
        )
    if not any(np.asarray(output).any() for output in ran.outputs[0]):
        if all(output.ndim == 0 for output in map(np.asarray, ran.outputs[0])):
            return "nothing-but-zeros", "The result is 0."
        if all(np.asarray(output).dtype == bool for output in ran.outputs[0]):
            return "nothing-but-zeros", "Every value is False."
        return "nothing-but-zeros", (
            "The result is all zeros. Was an array never filled in? (A device to which a ppermute "
            "sends nothing has zeros, too.)"
        )
    # numbers that count something may be equal by chance
    if all(map(_is_identical, *ran.outputs)) and not all(
        output.ndim == 0 and output.dtype.kind in "biu"
        for output in map(np.asarray, ran.outputs[0])
    ):
        return IGNORES_INPUTS, (
            "The function returned the same for two different inputs. Does it use its arguments? "
            "(A result that was computed beforehand is a constant in the program.)"
        )
    return None


def _explain_fewer_digits(requirement: HasReference, runs: Sequence[SampledRun]) -> Wrong | None:
    """Explain values that are right except for their last digits."""
    if all(
        is_right_to_few_digits(outputs, jax.tree.leaves(requirement.reference(*inputs)))
        for samples, ran in runs
        for inputs, outputs in zip(samples, ran.outputs, strict=True)
    ):
        if not any(ran.short_float_types for _, ran in runs):
            return (
                WRONG_VALUES,
                "The values are right in their first two digits, and wrong after that.",
            )
        return "fewer-digits", (
            "The values are right to two or three digits only. Is something converted to a "
            "coarser type on the way?"
        )
    return None


def _explain_coarser_type(samples: list[list[np.ndarray]], ran: ProgramRun) -> Wrong | None:
    """Explain wrong values of a program that converts to less than 32 bits."""
    used = {array.dtype.name for arrays in (samples[0], ran.outputs[0]) for array in arrays}
    short = [name for name in ran.short_float_types if name not in used]
    if not short:
        return None
    return "coarser-type", (
        f"The values are wrong, and some of the program computes in {natural_list(short)}. Is "
        f"that why? Such numbers have at most three digits, and values are compared to more."
    )


def argument_names_of(exercise: Exercise, answer: str) -> list[str]:
    """Return the names of a function's arguments, from its reference; else `argument 1`, …."""
    computes = (r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer)
    arguments = argument_lists_of(exercise, answer)[0]
    try:
        known = inspect.signature(next(computes).reference).parameters.values()
        names = [each.name for each in known if each.default is each.empty]
    except ValueError:  # NumPy's own have none
        names = []
    return (
        names
        if len(names) == len(arguments)
        else [f"argument {i}" for i in range(1, len(arguments) + 1)]
    )


def _is_identical(a: jax.Array, b: jax.Array) -> bool:
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=False)
