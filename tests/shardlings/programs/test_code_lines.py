"""A report shows the line that calls a helper, and below it the helper's own lines."""

import functools
import linecache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.programs.code_lines import lines_of
from shardlings.programs.collective import Collective, Frame
from tests.helpers import mesh, sharding
from tests.shardlings.programs import helpers_elsewhere

LINE = mesh(x=8)
X = jax.device_put(np.ones((16, 16), np.float32), sharding("x", x=8))


def on_devices(function):
    """Return a function that runs on each device's rows of two arrays."""
    return jax.shard_map(
        function, mesh=LINE, in_specs=(jax.P("x"), jax.P("x")), out_specs=jax.P("x")
    )


def shown(function, *args):
    """Return the lines of each row: the one to look at, and those of helpers."""
    return [
        [linecache.getline(frame.file, frame.line).strip() for frame in row.lines]
        for row in communication(function, *(args or (X, X))).rows()
    ]


def gather(w):
    return lax.all_gather(w, "x", axis=0, tiled=True)


def gather_twice_removed(w):
    return gather(w)


ITS_LINE = 'return lax.all_gather(w, "x", axis=0, tiled=True)'


def test_each_caller_of_a_helper_has_a_row():
    def program(a, b):
        left = gather(a)
        right = gather(b)
        return left @ right

    assert shown(on_devices(program)) == [
        ["left = gather(a)", ITS_LINE],
        ["right = gather(b)", ITS_LINE],
    ]


def test_a_helper_that_is_called_once_is_one_too():
    assert shown(on_devices(called_once)) == [["right = gather(b)", ITS_LINE]]


def called_once(a, b):
    right = gather(b)
    return a @ right


def test_helpers_may_be_two_deep():
    def program(a, b):
        left = gather_twice_removed(a)
        right = gather_twice_removed(b)
        return left @ right

    deep = ["return gather(w)", ITS_LINE]
    assert shown(on_devices(program)) == [
        ["left = gather_twice_removed(a)", *deep],
        ["right = gather_twice_removed(b)", *deep],
    ]


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@logged
def decorated(w):
    return gather(w)


def test_a_helper_may_be_decorated():
    def program(a, b):
        left = decorated(a)
        right = decorated(b)
        return left @ right

    rows = shown(on_devices(program))
    assert [row[0] for row in rows] == ["left = decorated(a)", "right = decorated(b)"]
    assert {row[-1] for row in rows} == {ITS_LINE}


def gather_over(axis, w):
    return lax.all_gather(w, axis, axis=0, tiled=True)


along_x = functools.partial(gather_over, "x")


def test_a_helper_may_be_a_partial():
    def program(a, b):
        left = along_x(a)
        return left @ functools.partial(gather_over, "x")(b)

    its_line = "return lax.all_gather(w, axis, axis=0, tiled=True)"
    assert shown(on_devices(program)) == [
        ["left = along_x(a)", its_line],
        ['return left @ functools.partial(gather_over, "x")(b)', its_line],
    ]


class Weights:
    def __init__(self, w):
        self.w = w

    def __call__(self):
        return self.whole()

    def whole(self):
        return gather(self.w)


def test_a_helper_may_be_a_method():
    def program(a, b):
        left = Weights(a).whole()
        right = Weights(b)()
        return left @ right

    rows = shown(on_devices(program))
    assert [row[0] for row in rows] == ["left = Weights(a).whole()", "right = Weights(b)()"]
    assert {row[-1] for row in rows} == {ITS_LINE}


whole = lambda w: lax.all_gather(w, "x", axis=0, tiled=True)  # noqa: E731


def test_a_helper_may_be_a_lambda():
    def program(a, b):
        left = whole(a)
        right = whole(b)
        return left @ right

    assert [row[0] for row in shown(on_devices(program))] == [
        "left = whole(a)",
        "right = whole(b)",
    ]


def test_a_helper_may_be_in_another_module():
    def program(a, b):
        left = helpers_elsewhere.gather(a)
        right = helpers_elsewhere.gather(b)
        return left @ right

    report = communication(on_devices(program), X, X)
    for row in report.rows():
        caller, helper = row.lines
        assert caller.file == __file__
        assert helper.file == helpers_elsewhere.__file__
    assert "→ helpers_elsewhere.py:" in str(report)


total = jax.shard_map(
    lambda a: jax.jit(lambda b: lax.psum(b, "x"))(a.sum()),
    mesh=LINE, in_specs=jax.P("x"), out_specs=jax.P(),
)  # fmt: skip


def test_shard_map_and_jit_may_be_inside_each_other():
    @jax.jit
    def program(a, b):
        first = total(a)
        return first / jnp.sum(b)

    rows = shown(program)
    if jax.__version_info__ < (0, 10):  # which notes only where the function was traced first
        return
    assert ["first = total(a)", 'lambda a: jax.jit(lambda b: lax.psum(b, "x"))(a.sum()),'] in rows


def test_a_function_that_is_handed_to_a_transformation_is_no_helper():
    def step(a, b):
        return jax.grad(loss)(a, b)

    assert shown(on_devices(step)) == [["return jnp.sum(jnp.tanh(a @ gather(b)))", ITS_LINE]]


def loss(a, b):
    return jnp.sum(jnp.tanh(a @ gather(b)))


def test_a_function_that_is_written_inside_is_no_helper():
    def program(a, b):
        def body(carry, _):
            return lax.psum(carry, "x") + b, None

        return lax.scan(body, a, None, length=3)[0]

    (row,) = shown(jax.shard_map(
        program, mesh=LINE, in_specs=(jax.P("x"), jax.P("x")), out_specs=jax.P("x"),
        check_vma=False,
    ))  # fmt: skip
    assert row == ['return lax.psum(carry, "x") + b, None']


def frame(name, line, function):
    return Frame(f"{name}.py", line, function)


def collective(*innermost_first):
    return Collective("all-reduce", (), ((0, 1),), 4, 4, stack=innermost_first)


def test_a_library_is_shown_below_the_line_that_calls_it():
    own, library = frame("train", 3, "step"), frame("/env/site-packages/flax/linear", 9, "Dense")
    assert lines_of([collective(library, own)]) == [(own, library)]
    assert lines_of([collective(library)]) == [(library,)]


def test_what_calls_communication_is_no_part_of_the_program():
    from shardlings.programs import compile_and_report

    ours = Frame(compile_and_report.__file__, 1, "_compile")
    own, cell = frame("train", 3, "step"), frame("train", 99, "<module>")
    assert lines_of([collective(own, ours, cell)]) == [(own,)]
    assert lines_of([collective(own, cell)]) == [(own,)]


def test_a_program_without_lines_has_none():
    assert lines_of([collective()]) == [()]
    with_none = communication(lambda a: a.sum(), X)
    assert with_none.rows()


@pytest.mark.parametrize("full", [True, False])
def test_without_full_tracebacks_the_innermost_line_is_shown(full):
    jax.config.update("jax_include_full_tracebacks_in_locations", full)
    try:
        (row,) = shown(on_devices(lambda a, b: a @ gather_here(b)))
    finally:
        jax.config.update("jax_include_full_tracebacks_in_locations", True)
    its_line = 'return lax.all_gather(w, "x", axis=0, tiled=True)  # here'
    assert row[-1] == its_line
    assert len(row) == (2 if full else 1)


def gather_here(w):
    return lax.all_gather(w, "x", axis=0, tiled=True)  # here
