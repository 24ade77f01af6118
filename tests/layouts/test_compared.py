"""What was made beside what was expected."""

import msgspec

from autograder.layouts import Layout, compared
from tests.helpers import sharding

COLUMNS = Layout.parse("0 1 2 3 4 5 6 7", (16, 16))


def test_what_is_right_is_drawn_once():
    (picture,) = compared(Layout.of(sharding(None, "x", x=8), (16, 16)), COLUMNS)
    assert picture.title == "Yours, as expected"
    assert not picture.wrong | picture.pale
    assert [edge.strong for edge in picture.edges] == ["", "x"]


def test_wrong_blocks_are_outlined_and_right_ones_are_not_coloured_again():
    made = Layout.of(sharding(None, ("y", "x"), x=4, y=2), (16, 16))
    yours, expected = compared(made, COLUMNS)
    assert yours.wrong == {(0, i) for i in range(1, 7)}
    assert expected.pale == {(0, 0), (0, 7)}
    assert yours.legend() == "dashed: blocks that belong on other devices"
    assert expected.legend() == "without colour: blocks that you have right"


def test_a_block_that_too_many_hold_is_wrong():
    yours, _ = compared(Layout.parse("0,1 2"), Layout.parse("0 2"))
    assert yours.wrong == {(0, 0)}


def test_what_is_cut_in_another_way_is_outlined_as_a_whole():
    whole, _ = compared(Layout.of(sharding(x=4), (16, 16)), COLUMNS)
    assert whole.note == "not cut"
    for spec in (("x",), (None, "x")):
        yours, expected = compared(Layout.of(sharding(*spec, x=4), (16, 16)), COLUMNS)
        assert yours.whole
        assert yours.note == "cut differently"
        assert not expected.pale
    yours, _ = compared(Layout.of(sharding("x", x=8), (16,)), COLUMNS)
    assert yours.note == "wrong shape"


def test_the_outlined_blocks_can_be_heard():
    yours, _ = compared(Layout.parse("1 0 2"), Layout.parse("0 1 2"))
    assert "Blocks that belong on other devices: (0, 0), (0, 1)." in yours.description


def test_a_target_does_not_tell_the_names_of_axes():
    (picture,) = compared(None, COLUMNS)
    assert [edge.strong for edge in picture.edges] == ["", ""]


def test_names_make_no_layout_another_one_and_stored_verdicts_can_be_read():
    one, other = (Layout.of(sharding(name, **{name: 8}), (8,)) for name in "xy")
    assert one == other
    assert hash(one) == hash(other)
    assert one.axes != other.axes
    assert one.on((16,)).axes == one.axes
    stored = msgspec.to_builtins(one)
    assert msgspec.convert(stored, Layout).axes == (("x",),)
    del stored["axes"]
    assert msgspec.convert(stored, Layout) == one
