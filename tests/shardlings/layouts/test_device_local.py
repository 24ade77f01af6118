"""`show` in the body of `shard_map`, and tables of the numbers on each device."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from shardlings import show
from shardlings.errors import UsageError
from shardlings.layouts import device_local_picture
from shardlings.pictures import values_as_html, values_as_text
from tests.helpers import mesh, sharding

GRID = mesh(x=4, y=2)

BLOCKS = jax.P("x", "y")


def drawn(of, spec=BLOCKS, **options):
    """Return the picture of what a function of a device's block returns, in a `shard_map`."""
    pictures = []

    def body(mine):
        pictures.append(device_local_picture("it", of(mine)))
        return mine

    function = jax.shard_map(body, mesh=GRID, in_specs=spec, out_specs=spec, **options)
    jax.jit(function)(jnp.ones((16, 16)))
    (picture,) = pictures
    assert picture is not None
    return picture


def test_the_picture_shows_one_devices_block():
    picture = drawn(lambda mine: mine)
    assert picture.caption == "each device: float32[4,8]"
    assert picture.shape == (4, 2)
    assert picture.labels[3, 1] == (7,)
    assert [edge.bold for edge in picture.edges] == ["x: 4", "y: 2"]


def test_devices_with_the_same_block_share_a_tile():
    picture = drawn(lambda mine: lax.psum(mine.sum(0), "x"))
    assert picture.caption == "each device: float32[8], the same along x"
    assert picture.labels == {(0, 0): (0, 2, 4, 6), (0, 1): (1, 3, 5, 7)}
    everywhere = drawn(lambda mine: lax.psum(mine, ("x", "y")))
    assert everywhere.labels == {(0, 0): tuple(range(8))}


def test_without_tracked_types_no_device_is_said_to_have_the_same_block():
    picture = drawn(lambda mine: lax.psum(mine.sum(0), "x"), check_vma=False)
    assert picture.caption == "each device: float32[8]"
    assert len(picture.labels) == 8


def test_numbers_are_called_positions_if_an_axis_is_left_to_the_compiler():
    picture = drawn(lambda mine: mine, jax.P("x"), axis_names={"x"})
    assert picture.caption == "each device: float32[4,16]; numbers are positions along x"
    assert picture.labels == {(i,): (i,) for i in range(4)}


def test_a_mesh_of_three_axes_is_drawn_in_planes_along_the_first():
    pictures: list[Any] = []

    def body(mine):
        pictures.extend(
            device_local_picture("", each) for each in (mine, lax.psum(mine, ("x", "z")))
        )
        return mine

    spec = jax.P("x", "y", "z")
    jax.shard_map(body, mesh=mesh(x=2, y=2, z=2), in_specs=spec, out_specs=spec)(
        jnp.ones((2, 2, 2))
    )
    assert [[name for _, name in picture.planes] for picture in pictures] == [
        ["x = 0", "x = 1"],
        ["all x"],
    ]
    assert [edge.bold for edge in pictures[0].edges] == ["x: 2", "y: 2", "z: 2"]


def test_show_works_in_a_shard_map_body_and_not_in_jit(capsys):
    def body(mine):
        show(mine=mine, sum=lax.psum(mine, "x"))
        return mine

    line = jax.P("x")
    jax.shard_map(body, mesh=mesh(x=8), in_specs=line, out_specs=line)(jnp.ones(16))
    assert "each device: float32[2], the same along x" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(UsageError, match=r"^a: This is an array inside of jit, which"):
        jax.jit(lambda x: show(a=x))(jnp.ones(3))
    with pytest.raises(UsageError, match="goes with neither figure=True nor processes"):
        show(jnp.ones(3), values=True, figure=True)


def test_show_writes_the_numbers_of_small_arrays(capsys):
    cut = jax.device_put(jnp.arange(16.0).reshape(8, 2), sharding("x", x=8))
    show(cut=cut, whole=jnp.ones((8, 8)), values=True)
    printed = capsys.readouterr().out
    assert "14 15" in printed
    assert "float32[8" in printed, "larger ones by their shape"
    rows = [("cut", {s.device.id: s.data for s in cut.addressable_shards})]
    assert "cut: device 3 holds 6 7" in values_as_text(rows)
    assert ">14 15<" in values_as_html(rows)
    with pytest.raises(UsageError, match="expects arrays, whose numbers it writes, but got str"):
        show("a string", values=True)


def test_the_text_alternative_begins_with_the_title_if_there_is_one():
    described = []

    def body(mine):
        for title in ("block", ""):
            picture = device_local_picture(title, mine)
            assert picture is not None
            described.append(picture.description)
        return mine

    jax.shard_map(body, mesh=GRID, in_specs=jax.P("x"), out_specs=jax.P("x"))(jnp.ones(8))
    caption = "each device: float32[2], the same along y"
    assert described == [f"block: {caption}.", f"{caption}."]
