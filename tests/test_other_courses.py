"""`docs/other_courses.md`: each topic has a source, and an exercise here or a reason why not."""

import re

from tests.conftest import ROOT
from tests.places import places

PAGE = (ROOT / "docs" / "other_courses.md").read_text()
COURSES = ("Playbook", "CS336", "Scaling Book", "ARENA", "Puzzles")
REASONS = ("*Not yet*", "*Not about layouts*", "*Needs hardware*", "*Kernels*")

ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
TOPICS = [
    row
    for row in ROW.findall(PAGE.partition("## Foundations")[2])
    if row[0] != "Topic" and not row[0].startswith("---")
]


def test_nothing_in_the_tables_is_overlooked():
    lines = [line for line in PAGE.partition("## Foundations")[2].splitlines() if line[:1] == "|"]
    headings = sum(line.startswith(("| Topic ", "|---")) for line in lines)
    assert len(TOPICS) == len(lines) - headings >= 30
    assert len({topic for topic, *_ in TOPICS}) == len(TOPICS)


def test_every_topic_is_taught_at_a_place_that_exists_or_has_a_reason():
    known = places()
    for topic, _, where in TOPICS:
        for part in where.split("; "):
            assert part in known or part.partition(": ")[0] in REASONS, f"{topic}: {part}"


def test_every_topic_names_a_course_and_links_to_it():
    links = set(re.findall(r"^\[([\w-]+)\]: https://", PAGE, re.MULTILINE))
    used = set(re.findall(r"\]\[([\w-]+)\]", PAGE))
    assert used == links
    for topic, courses, _ in TOPICS:
        for part in courses.split("; "):
            assert part.startswith(COURSES), f"{topic}: {part}"
            assert "][" in part, f"{topic}: {part} has no link"
    for course in COURSES:
        assert any(course in courses for _, courses, _ in TOPICS)


def test_every_reason_is_explained():
    for reason in REASONS:
        assert f"- {reason}:" in PAGE
