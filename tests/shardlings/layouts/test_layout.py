"""Layouts: they are equal if every device holds the same block, for arrays of every rank."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import P
from jax.sharding import AxisType

from shardlings import playground, show
from shardlings.errors import UsageError
from shardlings.layouts import Layout, LayoutError, find_difference
from tests.helpers import sharding


@pytest.mark.parametrize(
    ("picture", "spec", "axes"),
    [
        ("0 1 2 3 4 5 6 7", (None, "x"), {"x": 8}),
        ("0 1 \n 2 3 \n 4 5 \n 6 7", ("x", "y"), {"x": 4, "y": 2}),
        ("0 2 4 6 \n 1 3 5 7", ("y", "x"), {"x": 4, "y": 2}),
        ("0,1 \n 2,3 \n 4,5 \n 6,7", ("x",), {"x": 4, "y": 2}),
        ("0,1,2,3  4,5,6,7", (None, "x"), {"x": 2, "y": 4}),
        ("0,1,2,3,4,5,6,7", (), {"x": 8}),
        ("0 1 \n 2 3", ("x", "y"), {"x": 2, "y": 2}),
        ("0 \n 2 \n 1 \n 3", (("y", "x"),), {"x": 2, "y": 2}),
    ],
)
def test_a_parsed_picture_equals_its_sharding(picture, spec, axes):
    made = Layout.of(sharding(*spec, **axes), (16, 16))
    assert made == Layout.parse(picture, (16, 16)) == Layout.parse(picture).on((16, 16))
    assert Layout.parse(str(made), (16, 16)) == made


@st.composite
def shardings(draw):
    """Draw a sharding of rank 0 to 4, on a mesh of up to eight devices in any order."""
    sizes = draw(st.sampled_from([(8,), (4, 2), (2, 4), (2, 2, 2), (2, 2), (3, 2), (1,), (5,)]))
    names = "xyz"[: len(sizes)]
    order = draw(st.permutations(range(8)))[: int(np.prod(sizes))]
    grid = np.array(jax.devices())[list(order)].reshape(sizes)
    rank = draw(st.integers(0, 4))
    entries: list[list[str]] = [[] for _ in range(rank)]
    for name in draw(st.permutations(names)):
        where = draw(st.integers(0, rank))
        if where < rank:
            entries[where].append(name)
    size = dict(zip(names, sizes, strict=True))
    shape = tuple(
        int(np.prod([size[name] for name in names])) * draw(st.integers(1, 3)) for names in entries
    )
    return jax.NamedSharding(
        jax.sharding.Mesh(grid, tuple(names)), jax.P(*(tuple(e) or None for e in entries))
    ), shape


@given(shardings())
def test_a_layout_has_the_blocks_that_jax_places(case):
    placed, shape = case
    layout = Layout.of(placed, shape)
    array = jax.device_put(np.arange(np.prod(shape, dtype=int)).reshape(shape), placed)
    whole = np.asarray(array)
    blocks = dict(layout.blocks)
    assert Layout.of(array) == layout
    assert set(blocks) == {device.id for device in placed.device_set}
    for shard in array.addressable_shards:
        held = whole[tuple(slice(*bounds) for bounds in blocks[shard.device.id])]
        assert np.array_equal(held, shard.data)
    assert layout.copies * int(np.prod(layout.counts)) == len(blocks)
    if len(shape) < 4:
        assert Layout.parse(str(layout), shape) == layout


@given(shardings(), shardings())
def test_a_difference_is_found_if_and_only_if_there_is_one(one, other):
    asked, made = Layout.of(*one), Layout.of(*other)
    found = find_difference(asked, made)
    assert (found is None) == (asked == made)
    assert find_difference(asked, asked) is None
    if found is not None:
        assert found.sentence.endswith(".")
        assert "P(" not in found.sentence


@pytest.mark.parametrize(
    ("made", "diagnosis", "explanation"),
    [
        (sharding("x", x=8), "transposed", "Your blocks are rows; expected columns."),
        (sharding(x=8), "replicated", "replicated, not sharded"),
        (sharding(None, "x", x=4), "devices-unused", "There is nothing on devices 4 to 7."),
        (sharding(x=1), "one-device", "all of it is on device 0"),
        (sharding("x", "y", x=4, y=2), "grid", "Dimension 0 has 4 shards; expected 1."),
        (sharding(None, "x", x=4, y=2), "replicated-dimension", "Each block is on 2 devices"),
        (sharding(None, ("y", "x"), x=4, y=2), "device-order", "6 of 8 are on the wrong devices"),
    ],
)
def test_differences_between_a_sharding_and_columns(made, diagnosis, explanation):
    found = find_difference(Layout.parse("0 1 2 3 4 5 6 7", (16, 16)), Layout.of(made, (16, 16)))
    assert found is not None
    assert found.diagnosis == diagnosis
    assert explanation in found.sentence


@pytest.mark.parametrize(
    ("asked", "made", "diagnosis"),
    [
        ("0 2 \n 4 6", "0 1 \n 2 3 \n 4 5 \n 6 7", "devices-extra"),
        ("0 2 \n 4 6", "0 1 \n 2 3", "other-devices"),
        ("0 1 2 3 \n 4 5 6 7", "0 4 \n 1 5 \n 2 6 \n 3 7", "transposed"),
        ("0,1 2,3", "0 1 2 3", "split-dimension"),
        ("0,1 2,3", "0,2 1,3", "device-order"),
    ],
)
def test_differences_between_two_pictures(asked, made, diagnosis):
    found = find_difference(Layout.parse(asked, (16, 16)), Layout.parse(made, (16, 16)))
    assert found is not None
    assert found.diagnosis == diagnosis


@pytest.mark.parametrize(
    ("make", "explanation"),
    [
        (lambda: Layout.of(np.ones(8)), "NumPy array: it lives in the host's memory"),
        (lambda: Layout.of(jax.P("x")), "a partition spec: it names mesh axes"),
        (lambda: Layout.of("x"), "but got str"),
        (lambda: Layout.of(sharding("x", x=8)), "A sharding has no shape of its own"),
        (lambda: Layout.of(sharding("x", x=8), (12,)), "its size, 12, is not a multiple of 8"),
        (lambda: Layout.of(sharding("x", "y", x=4, y=2), (8,)), "has 2 entries"),
        (lambda: jax.jit(Layout.of)(jnp.ones(8)), "Inside jit an array is a tracer"),
        (lambda: Layout.parse("0 1 \n 2"), "must be of equal length"),
        (lambda: Layout.parse(""), "needs at least one block, such as '0 1'"),
        (lambda: Layout.parse(" \n "), "needs at least one block"),
        (lambda: Layout.parse("0 1 1"), "gives device 1 two blocks"),
        (lambda: Layout.parse("0 one"), "holds something else"),
        (lambda: Layout.parse("0 1 2", (16, 16)), "do not divide an array of shape (16, 16)"),
    ],
)
def test_an_argument_without_a_layout_gets_an_explanation(make, explanation):
    with pytest.raises(LayoutError) as raised:
        make()
    assert explanation in str(raised.value)


@pytest.fixture
def partial_sums():
    """An array of two rows, each the sum of four devices' partial sums."""
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    rows = jax.device_put(jnp.arange(16.0).reshape(2, 8), jax.NamedSharding(mesh, P("x", "y")))
    ones = jax.device_put(jnp.ones(8), jax.NamedSharding(mesh, P("y")))
    unreduced = jax.NamedSharding(mesh, P("x", unreduced={"y"}))
    return jax.jit(lambda a, b: jnp.einsum("ij,j->i", a, b, out_sharding=unreduced))(rows, ones)


def test_an_unreduced_array_has_no_layout_and_the_error_says_what_gives_it_one(partial_sums):
    with pytest.raises(LayoutError) as raised:
        Layout.of(partial_sums)
    assert 'P("x", unreduced={"y"}) is unreduced over y' in str(raised.value)
    (advice,) = re.findall(r"jax\.reshard\(.*?\)\)\)", str(raised.value))
    known = {"jax": jax, "P": P, "array": partial_sums, "mesh": partial_sums.sharding.mesh}
    assert Layout.of(eval(advice, known)).copies == 4


def test_what_the_error_on_an_unreduced_array_points_to_works(partial_sums, capsys):
    with pytest.raises(UsageError, match=re.escape("show(array, values=True)")):
        show(partial_sums)
    show(partial_sums, values=True)
    assert re.search(r"1 .*│ 5 .*│ 9 .*│ 13 .*│ 17 ", capsys.readouterr().out)
    playground(partial_sums)
    assert "spec=x,unreduced=y" in "".join(capsys.readouterr().out.split())


def test_a_picture_has_a_text_alternative():
    picture = Layout.of(sharding("x", x=4, y=2), (16, 16)).picture("rows")
    assert picture.description.startswith(
        "rows: shape (16, 16) in 4 × 1 blocks of (4, 16), 2 copies of each, on devices 0 to 7."
    )
    assert "block (3, 0) on devices 6 and 7" in picture.description


def test_an_array_without_a_sharding_is_on_one_device():
    assert Layout.of(jnp.ones((4, 4))) == Layout.parse("0", (4, 4))
