"""`docs/sources.md`: no row of the five source documents is lost, and every place exists."""

import re

from tests.conftest import ROOT
from tests.places import places

PAGE = (ROOT / "docs" / "sources.md").read_text()
HOW_MANY = {"S0": 26, "S1": 10, "S2": 22, "S3": 9, "S4": 11}
"""The rows of each document, as they were counted before the course was written."""

ROW = re.compile(r"^\| (S\d\.\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_every_row_is_there_once_and_in_order():
    assert [row for row, *_ in ROW.findall(PAGE)] == [
        f"{document}.{number}"
        for document, count in HOW_MANY.items()
        for number in range(1, count + 1)
    ]


def test_every_row_names_places_that_there_are():
    known = places()
    named = [(row, place) for row, _, where in ROW.findall(PAGE) for place in where.split("; ")]
    assert len(named) > sum(HOW_MANY.values())
    assert not [(row, place) for row, place in named if place not in known]


def test_nothing_in_the_tables_is_overlooked():
    lines = [line for line in PAGE.splitlines() if line.startswith("| S")]
    assert len(lines) == len(ROW.findall(PAGE))


THEME = re.compile(
    r"^\| ([^|]+) \| ((?:[\w-]+ )?\d+(?:, (?:[\w-]+ )?\d+)+) \| ([^|]+) \|$", re.MULTILINE
)


def test_all_themes_of_public_questions_have_a_place():
    _, _, section = PAGE.partition("## Questions that people ask in public")
    section, _, _ = section.partition("\n## ")
    themes = THEME.findall(section)
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert len(themes) == len(rows) - 2 == 16
    known = places()
    named = [(theme, place) for theme, _, where in themes for place in where.split("; ")]
    assert not [(theme, place) for theme, place in named if place not in known]
