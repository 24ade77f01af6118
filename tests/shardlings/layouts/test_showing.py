"""`show`: meshes, specs on a mesh, and titles."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P
from jax.sharding import AbstractMesh, AxisType, Mesh

from shardlings import show
from shardlings.errors import UsageError
from shardlings.layouts.layout import spec_as_code
from shardlings.layouts.showing import pictures_to_show
from tests.helpers import mesh, sharding

GRID = mesh(x=4, y=2)


@pytest.mark.parametrize(
    ("spec", "typed"),
    [
        (P(), "P()"),
        (P("x"), 'P("x")'),
        (P("x", None), 'P("x", None)'),
        (P(("x", "y"), None), 'P(("x", "y"), None)'),
        (P(None, ("x",)), None),  # some versions of JAX turn it into a name
        (P(P.UNCONSTRAINED, "x"), 'P(P.UNCONSTRAINED, "x")'),
        (P("x", unreduced={"z", "y"}), 'P("x", unreduced={"y", "z"})'),
    ],
)
def test_a_spec_is_written_as_code(spec, typed):
    assert typed is None or spec_as_code(spec) == typed
    assert eval(spec_as_code(spec), {"P": P}) == spec


def test_a_mesh_is_drawn_with_its_axes():
    explicit = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    (picture,) = pictures_to_show(explicit)
    assert picture.is_mesh
    assert picture.labels[3, 1] == (7,)
    assert [(e.bold, e.note) for e in picture.edges] == [("x: 4", "Explicit"), ("y: 2", "Auto")]
    assert picture.caption == "a mesh of 8 devices"
    assert "x of size 4 (Explicit), y of size 2 (Auto)" in picture.description


def test_a_figure_needs_matplotlib(monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")
    assert isinstance(show(mesh(x=4, y=2), figure=True), figure.Figure)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as where it is not installed
    with pytest.raises(
        ModuleNotFoundError, match="A figure needs matplotlib: pip install matplotlib"
    ):
        show(mesh(x=4, y=2), figure=True)


def test_a_mesh_of_some_devices_in_another_order():
    some = Mesh(np.array(jax.devices())[[6, 2, 4]], ("x",))
    (picture,) = pictures_to_show(title=some)
    assert list(picture.labels.values()) == [(6,), (2,), (4,)]
    assert picture.title == "title"
    assert picture.caption == "a mesh of 3 devices"


def test_an_abstract_mesh_has_axes_and_no_devices():
    (picture,) = pictures_to_show(AbstractMesh((2, 2, 2), ("a", "b", "c")))
    assert set(picture.labels.values()) == {()}
    assert [edge.bold for edge in picture.edges] == ["a: 2", "b: 2", "c: 2"]
    assert picture.caption == "abstract: axes and no devices"


def test_a_mesh_in_a_terminal(capsys):
    show(mesh(x=2, y=2, z=2))
    printed = capsys.readouterr().out
    assert "x: 2 Auto   ↓ y: 2 Auto   → z: 2 Auto" in printed
    assert "x = 1" in printed
    assert "a mesh of 8 devices" in printed


@pytest.mark.parametrize(
    "draw",
    [
        lambda: pictures_to_show(GRID, P("x"), P(None, "y"), shape=(16, 16)),
        lambda: pictures_to_show(GRID, [P("x"), P(None, "y")], shape=(16, 16)),
        lambda: pictures_to_show(GRID, (P("x"), P(None, "y")), shape=(16, 16)),
    ],
)
def test_specs_after_a_mesh_are_shardings_on_it(draw):
    first, second = draw()
    assert (first.code, second.code) == ('P("x")', 'P(None, "y")')
    assert [edge.bold for edge in first.edges] == ["x", ""]
    assert first.labels[0, 0] == (0, 1)
    assert second.labels[0, 1] == (1, 3, 5, 7)
    assert first.caption == "shape (16, 16), blocks of (4, 16), 2 copies of each"


def test_specs_can_have_titles():
    pictures = pictures_to_show(GRID, {"both": P(("x", "y"))}, along_y=P("y"), shape=(16,))
    assert [(p.title, p.code) for p in pictures] == [
        ("both", 'P(("x", "y"))'),
        ("along_y", 'P("y")'),
    ]
    assert [edge.bold for edge in pictures[0].edges] == ["(x, y)"]


def test_specs_belong_to_the_mesh_before_them_and_a_mesh_without_specs_is_drawn():
    line = mesh(x=8)
    pictures = pictures_to_show(GRID, P("x"), line, P("x"), line, sharding("x", x=2), shape=(8,))
    assert [p.counts for p in pictures] == [(4,), (8,), (8,), (2,)]
    assert [p.is_mesh for p in pictures] == [False, False, True, False]


def test_an_array_without_a_title_is_shown_with_its_spec():
    (picture,) = pictures_to_show(jax.device_put(jnp.ones((8, 8)), sharding("x", None, x=8)))
    assert (picture.title, picture.code) == ("", 'P("x", None)')
    assert pictures_to_show(jnp.ones(3))[0].code == "", (
        "an array without a NamedSharding has no spec"
    )


@pytest.mark.parametrize(
    ("call", "explanation"),
    [
        (lambda: show(GRID, P("z"), shape=(8,)), """P("z") names the axis 'z', which this mesh"""),
        (lambda: show(GRID, P("z"), shape=(8,)), "its axes are 'x', 'y'."),
        (lambda: show(GRID, P("x", "x"), shape=(8, 8)), "twice. An axis can shard only one"),
        (lambda: show(GRID, P("x")), "as in show(sharding, shape=(16, 16))"),
        (lambda: show(GRID, P("x"), shape=(3,)), "its size, 3, is not a multiple of 4"),
        (lambda: show(GRID, [P("x"), "y"], shape=(8,)), "such as P('x', None), but got str"),
        (lambda: show(GRID, {"a": P("q")}, shape=(8,)), """a: P("q") names the axis"""),
        (lambda: show(P("x"), shape=(8,)), "show(mesh, spec, shape=…) will do"),
        (lambda: show(AbstractMesh((8,), ("x",)), P("x"), shape=(8,)), "mesh is abstract"),
        (lambda: show(Mesh(np.arange(8), ("x",))), "in place of devices"),
        (lambda: show(mesh(a=1, b=1, c=1, d=1, e=1)), "of one to 4 axes; this one has 5 axes"),
        (lambda: show(Mesh(np.array(jax.devices()[0]), ())), "this one has no axes"),
        (lambda: show(GRID, values=True), "expects arrays, whose numbers it writes, but got Mesh"),
    ],
)
def test_an_argument_that_cannot_be_drawn_gets_an_explanation(call, explanation):
    with pytest.raises(UsageError) as raised:
        call()
    assert explanation in str(raised.value)


def test_long_and_unprintable_axis_names_are_shortened_and_replaced():
    name = "\x1b" + "n" * 99
    (picture,) = pictures_to_show(mesh(**{name: 8}), P(name), shape=(8,))
    (edge,) = picture.edges
    assert edge.axis == "·" + "n" * 14 + "…"
