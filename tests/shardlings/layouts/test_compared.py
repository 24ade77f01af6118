"""The pictures of an answer's layout and the expected one."""

import msgspec

from shardlings.layouts import Layout, comparison_pictures
from tests.helpers import sharding

COLUMNS = Layout.parse("0 1 2 3 4 5 6 7", (16, 16))


def test_a_right_layout_has_one_picture():
    (picture,) = comparison_pictures(Layout.of(sharding(None, "x", x=8), (16, 16)), COLUMNS)
    assert picture.title == "Yours, as expected"
    assert not picture.wrong | picture.pale
    assert [edge.bold for edge in picture.edges] == ["", "x"]


def test_wrong_blocks_are_outlined_and_right_ones_are_pale_in_the_expected_picture():
    made = Layout.of(sharding(None, ("y", "x"), x=4, y=2), (16, 16))
    yours, expected = comparison_pictures(made, COLUMNS)
    assert yours.wrong == {(0, i) for i in range(1, 7)}
    assert expected.pale == {(0, 0), (0, 7)}
    assert yours.legend() == "dashed: blocks that belong on other devices"
    assert expected.legend() == "without colour: blocks that you have right"


def test_a_block_on_too_many_devices_is_wrong():
    yours, _ = comparison_pictures(Layout.parse("0,1 2"), Layout.parse("0 2"))
    assert yours.wrong == {(0, 0)}


def test_another_grid_of_blocks_is_outlined_as_a_whole():
    whole, _ = comparison_pictures(Layout.of(sharding(x=4), (16, 16)), COLUMNS)
    assert whole.note == "not sharded"
    for spec in (("x",), (None, "x")):
        yours, expected = comparison_pictures(Layout.of(sharding(*spec, x=4), (16, 16)), COLUMNS)
        assert yours.is_all_wrong
        assert yours.note == "sharded differently"
        assert not expected.pale
    yours, _ = comparison_pictures(Layout.of(sharding("x", x=8), (16,)), COLUMNS)
    assert yours.note == "wrong shape"


def test_blocks_with_another_number_of_copies_are_not_said_to_belong_elsewhere():
    one, two = Layout.parse("0 2 4 6"), Layout.parse("0,1 2,3 4,5 6,7")
    assert comparison_pictures(one, two)[0].note == "every block belongs on more devices"
    assert comparison_pictures(two, one)[0].note == "every block belongs on fewer devices"


def test_copies_of_which_only_some_are_elsewhere_are_not_all_said_to_be():
    made, expected = Layout.parse("4,6 5,7"), Layout.parse("4,5 6,7")
    assert comparison_pictures(made, expected)[0].note == "no block is on all of its devices"
    made, expected = Layout.parse("1 0"), Layout.parse("0 1")
    assert comparison_pictures(made, expected)[0].note == "every block belongs on another device"


def test_the_text_alternative_lists_the_outlined_blocks():
    yours, _ = comparison_pictures(Layout.parse("1 0 2"), Layout.parse("0 1 2"))
    assert "Blocks that belong on other devices: (0, 0), (0, 1)." in yours.description
    vector, _ = comparison_pictures(Layout.parse("1 0 2", (3,)), Layout.parse("0 1 2", (3,)))
    assert "on device 2. Blocks that belong on other devices: 0, 1." in vector.description


def test_the_expected_picture_has_no_axis_names():
    (picture,) = comparison_pictures(None, COLUMNS)
    assert [edge.bold for edge in picture.edges] == ["", ""]


def test_axis_names_do_not_matter_to_equality_and_may_be_absent_from_stored_layouts():
    one, other = (Layout.of(sharding(name, **{name: 8}), (8,)) for name in "xy")
    assert one == other
    assert hash(one) == hash(other)
    assert one.axes != other.axes
    assert one.on((16,)).axes == one.axes
    stored = msgspec.to_builtins(one)
    assert msgspec.convert(stored, Layout).axes == (("x",),)
    del stored["axes"]
    assert msgspec.convert(stored, Layout) == one
