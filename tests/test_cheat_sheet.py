"""The cheat sheet's pictures are those that `show` and `communication` draw today."""

import re

from jax import P

from tests.conftest import ROOT
from website.pictures import COLLECTIVES, FOLDER, SPECS, draw

PAGE = (ROOT / "docs" / "cheat_sheet.md").read_text()


def test_pictures_are_drawn_so_today():
    for name, svg in draw():
        assert (FOLDER / f"{name}.svg").read_text() == f"{svg}\n", (
            f"docs/pictures/{name}.svg is drawn otherwise now: run `python -m website.pictures`, "
            f"and look at the cheat sheet."
        )


def test_each_picture_is_below_its_spec():
    below = dict[str, str]()
    for codes, pictures in re.findall(r"(?m)^(\| `.*)\n\|[-|]+\n(\| !\[.*)$", PAGE):
        names = re.findall(r"\(pictures/([\w-]+)\.svg\)", pictures)
        below |= zip(names, re.findall(r"`([^`]*)`", codes), strict=True)
    assert below.pop("mesh") == "mesh"
    assert {name: eval(code, {"P": P}) for name, code in below.items()} == SPECS


def test_each_picture_is_beside_its_collective():
    beside = dict(
        re.findall(r"(?m)^\| `lax\..*: ([\w-]+) \| !\[.*\(pictures/([\w-]+)\.svg\)", PAGE)
    )
    assert beside == {kind: kind for kind in COLLECTIVES}
