"""Require gradients, and limit what the forward pass keeps for them and what they compute again.

The judge has a function's forward and backward pass as two programs, and passes the arrays from one
to the other itself. So nothing can be kept that it does not count, and nothing that is computed
again can be hidden in the forward pass.
"""

import inspect
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final

import jax
import numpy as np
from humanize import natural_list

from autograder import artifacts
from autograder.artifacts import Argument, GradientRun, ProgramError, describe_arguments
from autograder.evidence import GradientPlan, Program
from autograder.judge.comparing_values import (
    ArrayFunction,
    Wrong,
    compare_outputs,
    describe_array,
)
from autograder.judge.diagnoses import MALFORMED, UNKNOWN_TIMES
from autograder.judge.exercise import Exercise, Mistake, Order, Requirement, ways_of
from autograder.judge.requirements_on_costs import compare_with_limits, write_whole
from autograder.judge.requirements_on_values import judge_runs
from autograder.judge.running_programs import SAMPLES, SampledRun, argument_lists_of
from autograder.judge.verdict import Finding
from autograder.judge.wording import with_arguments
from shardlings.documents import with_noun
from shardlings.programs import write_apart

MAX_LISTED_TYPES: Final = 4
"""The most types of arrays that a verdict lists."""


@dataclass(frozen=True)
class Differentiates(Requirement):
    """A function has the value and the gradients of a reference, on inputs sampled when judging.

    For example, `Differentiates("double", "double(x) must be 2 * x.", lambda x: 2 * x, ((X,),))`.
    `SavesAtMost` and `RecomputesAtMost` on the same answer limit what its backward pass costs.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what the function must compute, in a sentence.
        function: computes the right value, one array, from `jax.Array`s.
        arguments: the lists of arguments, each on a mesh of one device.
        mistakes: for each diagnosis, a function with that mistake and no other, or a `Mistake`.
    """

    about: ClassVar = "values"
    evidence: ClassVar = (Program,)

    answer: str
    asks: str
    function: ArrayFunction
    arguments: tuple[tuple[Argument, ...], ...]
    mistakes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def exported_for(self) -> tuple[tuple[Argument, ...], ...]:
        """The lists of arguments."""
        return self.arguments

    def plan_capture(self, generator: np.random.Generator) -> GradientPlan:
        """Plan to export both passes for each list of arguments."""
        return GradientPlan(self.arguments)

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Run both passes on sampled inputs, and compare the value and the gradients."""
        runs = run_gradients(exercise, self.answer, piece, seed)
        for run, arguments in zip(runs, self.arguments, strict=True):
            wrong = self._compare_type(run)  # a value of another type has no gradients to compare
            if wrong is not None:
                diagnosis, sentence = wrong
                is_first = run is runs[0]
                return finding.but(got=describe_array(run.ran.outputs[0][0])).problem(
                    diagnosis, sentence if is_first else with_arguments(arguments, sentence)
                )
        names = [*inspect.signature(self.function).parameters]
        return judge_runs(
            _Differentiated(
                differentiate(self.function),
                {
                    name: Mistake(*map(differentiate, ways_of(wrong)))
                    for name, wrong in self.mistakes.items()
                },
            ),
            [SampledRun(run.samples, run.ran) for run in runs],
            [describe_arguments(each) for each in self.arguments],
            finding,
            result_names=["the value", *(f"the gradient of {name}" for name in names)],
        )

    def _compare_type(self, run: GradientRun) -> Wrong | None:
        """Say how the value's shape or dtype differs from the right one, if it does."""
        *inputs, _ = run.samples[0]
        value = run.ran.outputs[0][0]
        right = jax.eval_shape(self.function, *inputs)
        if (value.shape, value.dtype) == (right.shape, right.dtype):
            return None
        return compare_outputs([value], [np.asarray(jax.jit(self.function)(*inputs))])


@dataclass(frozen=True)
class SavesAtMost(Requirement):
    """The forward pass keeps few bytes for the backward pass; its arguments do not count.

    For example, `SavesAtMost("block", (4096,))`.

    Attributes:
        answer: the name of the answer in the notebook. A `Differentiates` on it exports it.
        bytes: the most bytes, for each list of arguments.
        small: the part of each limit that is an allowance for small arrays.
    """

    about: ClassVar = "memory"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    bytes: tuple[int, ...]
    small: int = 0

    @property
    def asks(self) -> str:
        """The limit for the first list of arguments, in words."""
        return (
            f"a forward pass that keeps at most {self.bytes[0]:,} bytes for the backward pass, "
            f"besides its arguments"
        )

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the bytes of what is saved with the limit."""
        costs = [run.costs for run in run_gradients(exercise, self.answer, piece, seed)]
        finding = compare_with_limits(
            self.bytes,
            [each.bytes for each in costs],
            argument_lists_of(exercise, self.answer),
            finding,
            "{} bytes that are kept",
            (
                "saves-too-much",
                "The forward pass keeps {} bytes for the backward pass, and at most {} are "
                "allowed.",
            ),
        )
        if finding.met:
            return finding
        lists = argument_lists_of(exercise, self.answer)
        exceeding, allowed, (first, *_) = next(
            (each, most, arguments)
            for each, most, arguments in zip(costs, self.bytes, lists, strict=True)
            if each.bytes > most
        )
        size = math.prod(first.shape) * np.dtype(first.dtype).itemsize
        besides = f", besides {self.small:,} bytes for small arrays" if self.small else ""
        kept, limit = write_apart(
            exceeding.bytes / size, (allowed - self.small) / size, "{:.3g}".format, "{:.9g}".format
        )
        return finding.but(
            difference=f"{finding.difference} Counted in arrays of the size of the first argument, "
            f"{kept} are kept and {limit} allowed{besides}. Kept are "
            f"{_describe_arrays(exceeding.saved)}."
        )


@dataclass(frozen=True)
class RecomputesAtMost(Requirement):
    """The backward pass does few operations, so that it computes little again.

    For example, `RecomputesAtMost("block", (10**6,))`.

    Attributes:
        answer: the name of the answer in the notebook. A `Differentiates` on it exports it.
        flops: the most floating-point operations of the backward pass, for each list of arguments.
    """

    about: ClassVar = "work"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    flops: tuple[int, ...]

    @property
    def asks(self) -> str:
        """The limit for the first list of arguments, in words."""
        return f"a backward pass of at most {self.flops[0] / 1e6:,.0f} million operations"

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the operations of the backward pass with the limit."""
        runs = run_gradients(exercise, self.answer, piece, seed)
        flops = [run.costs.flops for run in runs]
        if not all(map(math.isfinite, flops)):
            return finding.problem(
                UNKNOWN_TIMES,
                "The backward pass has a loop whose length is known only when it runs, or calls a "
                "library's routine, so its work cannot be computed.",
                got="an unknown number of operations",
            )
        finding = compare_with_limits(
            self.flops,
            flops,
            argument_lists_of(exercise, self.answer),
            finding,
            "{} operations",
            (
                "recomputes-too-much",
                "The backward pass does {} operations; at most {} are allowed.",
            ),
            (_write_millions, write_whole),
        )
        if finding.met:
            return finding
        exceeding = next(
            run.costs for run, most in zip(runs, self.flops, strict=True) if run.costs.flops > most
        )
        diagnosis = finding.diagnosis if exceeding.saved else "keeps-nothing"
        kept = _describe_arrays(exceeding.saved)
        sentence = f"{finding.difference} The forward pass keeps {kept}."
        return finding.but(diagnosis=diagnosis, difference=sentence)


def _write_millions(number: float) -> str:
    """Return `1.5 million`."""
    return f"{number / 1e6:,.1f} million"


def _describe_arrays(arrays: Sequence[jax.ShapeDtypeStruct]) -> str:
    """Describe arrays by their types: `3 arrays float32[2,8] and 1 array float32[8,8]`.

    No arrays are `nothing`.
    """
    counted = Counter(map(describe_array, arrays)).most_common()
    described = [f"{with_noun(count, 'array')} {name}" for name, count in counted]
    if len(described) > MAX_LISTED_TYPES:
        described[MAX_LISTED_TYPES:] = ["others"]
    return natural_list(described) or "nothing"


@dataclass(frozen=True)
class _Differentiated:
    """A reference of values and gradients, and known mistakes."""

    reference: ArrayFunction
    mistakes: Mapping[str, Any]


def differentiate(function: ArrayFunction) -> ArrayFunction:
    """Return a function of the arguments, and of its value's gradient: the value and gradients."""

    @jax.jit
    def value_and_gradients(*inputs: Any) -> Any:
        *arguments, cotangent = inputs
        value, pull_back = jax.vjp(function, *arguments)
        return value, *pull_back(cotangent)

    return lambda *inputs: jax.tree.map(np.asarray, value_and_gradients(*inputs))


def run_gradients(exercise: Exercise, answer: str, piece: Program, seed: int) -> list[GradientRun]:
    """Run both passes of each submitted program on sampled inputs.

    Raises:
        ProgramError: the programs cannot be judged.
    """
    lists = argument_lists_of(exercise, answer)
    if len(piece.artifacts) != len(lists):
        raise ProgramError(
            MALFORMED, "The submission does not have a program for each list of arguments."
        )
    runs = [_run(*pair, seed) for pair in zip(piece.artifacts, lists, strict=True)]
    for run in runs:
        if isinstance(run, ProgramError):
            raise run
    return [run for run in runs if isinstance(run, GradientRun)]


@lru_cache(maxsize=16)  # of errors, too: several requirements report the same one
def _run(artifact: bytes, arguments: tuple[Argument, ...], seed: int) -> GradientRun | ProgramError:
    generator = np.random.default_rng(seed)
    samples = [[argument.sample(generator) for argument in arguments] for _ in range(SAMPLES)]
    try:
        return artifacts.run_passes(artifact, arguments, samples, seed + 1)
    except ProgramError as refused:
        return refused
