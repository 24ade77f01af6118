"""The parts of sentences that describe a wrong value, a wrong array, or a wrong result."""

import numpy as np
import pytest

from autograder.evidence import Contents, LocalArray, Shards, Value
from autograder.judge.comparing_values import format_pair
from autograder.judge.explaining_places import _describe_pieces
from autograder.judge.requirements_on_layouts import _compare_contents, _describe_change
from autograder.judge.requirements_on_processes import describe_part, find_rows

TABLE = np.arange(24.0).reshape(6, 4)


@pytest.mark.parametrize(
    ("actual", "says"),
    [
        (np.zeros((4, 4)), "the array is all zeros: "),
        (TABLE[:4].T, "the array is transposed: "),
        (TABLE[3::-1], "the array is in the opposite order along dimension 0: "),
        (TABLE[:4, ::-1], "the array is in the opposite order along dimension 1: "),
        (TABLE[:4] + 7, "every value is 7 too large: "),
        (TABLE[:4] ** 2, ""),
    ],
)
def test_a_change_of_an_array_that_is_easily_recognised_is_named(actual, says):
    assert _describe_change(actual, TABLE[:4]) == says


@pytest.mark.parametrize(
    ("right", "texts"),
    [
        (3.0, ("2", "3")),
        (2.0001, ("2", "2.0001")),
        (2.0000001, ("2", "2.0000001")),
        (2.0 + 2**-51, ("2", "2.0000000000000004")),
    ],
)
def test_two_numbers_have_as_many_digits_as_tell_them_apart(right, texts):
    assert format_pair(2.0, right) == texts


def test_integers_have_all_their_digits():
    assert format_pair(np.int32(1234567), np.int32(1234568)) == ("1234567", "1234568")


@pytest.mark.parametrize(
    ("shape", "d", "size", "says"),
    [
        ((8,), 0, 1, "values 0 and 1 are zeros"),
        ((8, 3), 0, 1, "rows 0 and 1 are zeros"),
        ((3, 8), 1, 1, "columns 0 and 1 are zeros"),
        ((2, 3, 8), 2, 1, "parts 0 and 1 are zeros"),
        ((8, 3), 0, 2, "blocks 0 and 1 are zeros"),
    ],
)
def test_missing_pieces_are_named_for_what_they_are(shape, d, size, says):
    count = shape[d] // size
    sources = [-1 if number < 2 else number for number in range(count)]
    assert says in _describe_pieces([(0, sources)], d, size, np.ones(shape))


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (LocalArray(Contents((2,), "int8", b"ab")), "an array of its own, of shape (2,)"),
        (Shards((2,), "int8", ()), "an array"),
        (Value(None), "None"),
        (Value(3), "an int"),
        (Value("x"), "a str"),
        (Value({"of type": "set"}), "something of type set"),
    ],
)
def test_what_a_process_returned_is_named(part, says):
    assert describe_part(part) == says


def test_rows_are_found_only_by_a_block_of_the_right_shape():
    place = ((2, 4), (0, 4))
    assert find_rows(TABLE[3:5], TABLE, place) == 3
    assert find_rows(TABLE[3:5] + 0.5, TABLE, place) is None
    assert find_rows(TABLE[3:6], TABLE, place) is None
    assert find_rows(TABLE[:0], TABLE, ((2, 2), (0, 4))) is None


@pytest.mark.parametrize(
    ("array", "diagnosis"),
    [
        (TABLE, None),
        (TABLE + 1, "values"),
        (TABLE.T, "shape"),
        (TABLE[:3], "shape"),
        (TABLE.astype(np.float32), "dtype"),
    ],
)
def test_contents_that_differ_in_any_way_are_wrong(array, diagnosis):
    contents = Contents(array.shape, array.dtype.name, array.tobytes())
    found = _compare_contents(contents, TABLE)
    assert (found and found[0]) == diagnosis


def test_contents_of_fewer_bytes_than_their_shape_has_are_malformed():
    assert _compare_contents(Contents((6, 4), "float64", b"12345678"), TABLE) == (
        "malformed",
        "The evidence's bytes do not fill the shape that it names.",
    )
