"""An answer that hard-codes the sizes of the first case is rejected.

Each size that a solution asks for is replaced by the number that it is in the first case. Such an
answer serves the prompt and nothing else, and has to be refused.
"""

import ast
import builtins
from collections import defaultdict

import pytest

from autograder import artifacts
from autograder.evidence import results
from autograder.exercises import EXERCISES, Computes, Returns
from tests.conftest import some_of
from tests.exercises.solutions import session_for, solution_of

SEED = 20260101

THE_SAME_IN_EVERY_CASE: dict[str, set[str]] = {}
"""The sizes that answers may hard-code, by exercise, because the prompt fixes them."""

FUNCTIONS = [
    exercise.id
    for exercise in EXERCISES.values()
    if any(isinstance(r, Computes | Returns) for r in exercise.requirements)
]


class Sizes(ast.NodeTransformer):
    """Finds what asks for a size, and puts something else in its place."""

    def __init__(self, replace):
        self.replace, self.found = replace, []

    def visit(self, node):
        if _asks_for_a_size(node):
            self.found.append(ast.unparse(node))
            return self.replace(len(self.found) - 1, node)
        return self.generic_visit(node)


def _asks_for_a_size(node):
    match node:
        case ast.Attribute(attr="shape" | "ndim" | "size", ctx=ast.Load()):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Name(id="len") | ast.Attribute(attr="axis_size")):
            return True
    return False


def rewritten(code, replace):
    sizes = Sizes(replace)
    return ast.unparse(ast.fix_missing_locations(sizes.visit(ast.parse(code)))), sizes.found


def noted(number, node):
    name = ast.Name("noted_size", ast.Load())
    return ast.Call(name, [ast.Constant(number), node], [])


def sizes_in_the_first_case(session, exercise_id, code, monkeypatch):
    """Return the values that each size in a solution has in the first case."""
    seen = defaultdict(set)
    cases: list[object] = []

    def noted_size(number, value):
        if len(cases) == 1:
            seen[number].add(tuple(value) if isinstance(value, tuple) else value)
        return value

    def counting(function):
        """The function, where it counts the cases of each answer."""

        def counted(answer, *rest):
            if cases and cases[0] is not answer:
                cases.clear()
            cases.append(answer)
            return function(answer, *rest)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "export", counting(artifacts.export))
        patch.setattr(results, "_call_answer", counting(results._call_answer))
        patch.setattr(builtins, "noted_size", noted_size, raising=False)
        tried = session.answer(exercise_id, code, SEED)
    assert tried.verdict.score == 1
    return {number: values.pop() for number, values in seen.items() if len(values) == 1}


@pytest.mark.parametrize("exercise_id", some_of(FUNCTIONS))
def test_a_size_of_the_first_case_written_in_is_refused(exercise_id, monkeypatch):
    session, code = session_for(exercise_id), solution_of(exercise_id)
    instrumented, expressions = rewritten(code, noted)
    sizes = sizes_in_the_first_case(session, exercise_id, instrumented, monkeypatch)
    passed = set()
    for number, size in sizes.items():
        literal = ast.parse(repr(size), mode="eval").body

        def written_in(here, node, number=number, literal=literal):
            return literal if here == number else node

        answer, _ = rewritten(code, written_in)
        if session.answer(exercise_id, answer, SEED).verdict.score == 1:
            passed.add(expressions[number])
    assert passed == THE_SAME_IN_EVERY_CASE.get(exercise_id, set())
