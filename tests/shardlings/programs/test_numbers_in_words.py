"""Numbers in words."""

import pytest

from shardlings.programs.numbers_in_words import write_apart, write_bytes_apart


@pytest.mark.parametrize(
    ("amount", "limit", "written"),
    [
        (2_500_000, 1e6, ("2.5 million", "1.0 million")),
        (1_000_010, 1_000_000, ("1,000,010", "1,000,000")),
        (1.25, 1, ("1.25", "1")),
    ],
)
def test_an_amount_and_its_limit_are_written_so_that_they_differ(amount, limit, written):
    formats = (lambda n: f"{n / 1e6:.1f} million", "{:,.0f}".format, "{:,}".format)
    assert write_apart(amount, limit, *formats) == written


def test_bytes_and_their_limit_are_in_full_only_if_a_unit_would_hide_the_difference():
    assert write_bytes_apart(2**22 + 4, 2**22) == ("4,194,308 bytes", "4,194,304 bytes")
    assert write_bytes_apart(2**23, 2**22) == ("8,192 KiB", "4,096 KiB")
