"""`playground` leads to the page, at the layout that it was called with."""

import re
import tomllib

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings

from shardlings import playground
from shardlings.errors import UsageError
from shardlings.layouts.playground import PLAYGROUND, _fragment
from tests.conftest import ROOT, fewer
from tests.helpers import mesh, sharding
from tests.playground.cases import cases

READ = """(hash) => {
  const {part, fields} = links.decode(hash);
  const {shape, mesh, spec} = layoutPart.read({...layoutPart.defaults, ...fields});
  const layout = layouts.layoutOf(shape, mesh, spec);
  const blocks = Object.fromEntries(layout.placements.map((p) => [p.device, p.block]));
  return {part, shape, blocks};
}"""


@settings(max_examples=fewer(200))
@given(cases(valid=True))
def test_the_page_reads_the_layout_from_the_link(ask, case):
    entries = [list(names) for names in case.entries]
    link = _fragment(jax.NamedSharding(case.mesh, case.spec), entries, case.shape)
    (found,) = ask(READ, [[link]])
    assert (found["part"], tuple(found["shape"])) == ("layout", case.shape)
    assert {int(i): block for i, block in found["blocks"].items()} == case.blocks


def shown(capsys):
    text = re.sub(r"\s", "", capsys.readouterr().out)
    return text.partition(PLAYGROUND)[2]


def test_an_array_and_a_sharding_have_a_link(capsys):
    x = jax.device_put(jnp.ones((16, 8)), sharding("y", None, x=2, y=4))
    playground(x)
    assert shown(capsys) == "#v1/layout?shape=16,8&mesh=x:2,y:4&spec=y,-"
    playground(x.sharding)
    assert shown(capsys) == "#v1/layout?shape=16,4&mesh=x:2,y:4&spec=y,-"
    playground(sharding("x", x=8), shape=16)
    assert shown(capsys) == "#v1/layout?shape=16&mesh=x:8&spec=x"


def test_partial_sums_have_a_link(capsys):
    grid = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    playground(jax.NamedSharding(grid, jax.P("x", unreduced={"y"})), (8,))
    assert shown(capsys) == "#v1/layout?shape=8&mesh=x:2,y:4&spec=x,unreduced=y"


@pytest.mark.parametrize(
    ("thing", "shape", "words"),
    [
        (jax.P("x"), None, "got PartitionSpec|got P"),
        (sharding("x", x=8), (7,), "not a multiple of 8"),
        (sharding("x", x=8), (8, 1, 1, 1), "up to 3 dimensions"),
        (jax.NamedSharding(mesh(**{"my axis": 2}), jax.P()), (2,), "but got 'my axis'"),
    ],
)
def test_what_the_page_cannot_draw_is_refused(thing, shape, words):
    with pytest.raises(UsageError, match=words):
        playground(thing, shape)


def test_the_page_is_where_the_site_is_published():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"{project['urls']['Documentation']}playground.html" == PLAYGROUND
    assert (ROOT / "website" / "playground.md").exists()
