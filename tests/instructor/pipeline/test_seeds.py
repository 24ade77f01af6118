"""The same submission of the same class is tried with the same inputs, and no other one is."""

import pytest

from autograder.instructor.pipeline.seeds import derive_seeds, read_secret

SECRET = b"s" * 32
FILES = [("hw.ipynb", b"{}"), ("helper.py", b"x = 1")]


def test_a_class_keeps_its_secret_and_another_has_another(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for root in (first, second):
        (root / "grading").mkdir(parents=True)
    assert read_secret(first) == read_secret(first)
    assert len(read_secret(first)) == 32
    assert read_secret(first) != read_secret(second)


def test_a_secret_that_cannot_be_read_is_not_replaced(tmp_path):
    (tmp_path / "grading" / "secret").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        read_secret(tmp_path)


def test_the_same_submission_has_the_same_seeds():
    assert derive_seeds(SECRET, FILES) == derive_seeds(SECRET, FILES)


@pytest.mark.parametrize(
    ("secret", "files"),
    [
        (b"t" * 32, FILES),
        (SECRET, [("hw.ipynb", b"{ }"), FILES[1]]),
        (SECRET, [FILES[0], ("helper.py", b"x = 2")]),
        (SECRET, [FILES[0], ("helper.p", b"yx = 1")]),
        (SECRET, FILES[:1]),
    ],
)
def test_anything_else_has_others(secret, files):
    assert derive_seeds(secret, files) != derive_seeds(SECRET, FILES)


def test_a_kernel_s_seed_says_nothing_about_the_judge_s():
    kernel, judge = derive_seeds(SECRET, FILES)
    assert kernel < 2**32
    assert 2**96 < judge < 2**128
    assert str(kernel) not in str(judge)
