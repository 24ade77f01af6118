"""The table: every number whole, the total always seen, in any terminal and for any class."""

import codecs
import csv
import io
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len
from rich.console import Console

from autograder.instructor.classroom import grade_tables as csvs
from autograder.instructor.classroom import grade_tables as table
from autograder.instructor.classroom.roster import Person
from autograder.instructor.classroom.submission_states import StateRow
from autograder.instructor.gradebook import Mark
from autograder.instructor.pipeline import State

POINTS = {f"6.{i}": float(points) for i, points in enumerate((1, 1, 2, 1, 3, 2, 1, 3, 2), 1)}
SHARES = (0, 1, 1 / 3, 2 / 3, 0.5, 1, 0.125)
NAMES = (
    "王小明-distributed-systems-2026",
    "bob [late] [/x]",
    "x\x1b[2J\nred",
    "👩‍🚀 astronaut",
    "é",
)


def graded(student, scores):
    """A row, with the scores of the first exercises."""
    marks = {e: Mark(score, most) for (e, most), score in zip(POINTS.items(), scores, strict=False)}
    score, most = sum(m.score for m in marks.values()), sum(m.points for m in marks.values())
    return StateRow(student, "06", State.GRADED, marks, score, most)


def class_of(size):
    """A class with every kind of row and of name."""
    names = [*NAMES, *(f"firstname.lastname-{i:03}@students.example.edu" for i in range(size))]
    rows = [
        graded(name, [round(p * SHARES[(i * 3 + j) % 7], 4) for j, p in enumerate(POINTS.values())])
        for i, name in enumerate(names[:size])
    ]
    rows[1] = StateRow(names[1], "06", State.BROKEN)
    rows[-1] = StateRow(names[size - 1], "06", State.FAILED)
    return rows


def shown(rows, width):
    """The lines that a terminal of some width shows."""
    said = io.StringIO()
    table.show_table(Console(file=said, width=width), "06_shard_map_matmul", rows)
    return said.getvalue().splitlines()


def headings(lines):
    """The names of the columns."""
    return next(line for line in lines if line.startswith("student")).split()


@pytest.mark.parametrize("size", [5, 60])
@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_whatever_the_width_numbers_are_whole_and_the_total_comes_first(size, width):
    rows = class_of(size)
    lines = shown(rows, width)
    assert all(cell_len(line) <= width for line in lines)
    student, total, *exercises = headings(lines)
    assert (student, total) == ("student", "total")
    assert exercises == list(POINTS)[: len(exercises)]
    body = lines[4 : 4 + size]
    by_student = sorted(rows, key=lambda row: row.student.casefold())
    for row, line in zip(by_student, body, strict=True):
        cells = line.split()[-1 - len(exercises) :]
        assert not [cell for cell in cells if "…" in cell]
        wanted = f"{row.total:.2f}" if row.is_graded else row.state
        assert cells[0] == wanted.removesuffix("0").removesuffix("0").removesuffix(".")
        assert all(re.fullmatch(r"✓|–|\d+(\.\d\d?)?", cell) for cell in cells[1:])
    said = " ".join(" ".join(lines).split())
    if dropped := list(POINTS)[len(exercises) :]:
        assert f"There was no room for {', '.join(dropped[:-1])}" in said
        assert f"{dropped[-1]}; grading/exercises.csv has every exercise." in said
    else:
        assert "no room" not in said


def test_in_eighty_columns_a_class_of_nine_exercises_is_seen_whole():
    assert headings(shown(class_of(60), 80)) == ["student", "total", *POINTS]


@pytest.mark.slow
def test_exercises_go_one_after_the_other_as_the_terminal_narrows():
    counts = [len(headings(shown(class_of(60), width))) for width in range(120, 20, -1)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 11
    assert counts[-1] == 2


def test_full_marks_are_a_tick_and_no_rounding_makes_one():
    rows = [graded("all", [1, 1]), graded("nearly", [0.999, 1]), graded("extra", [1, 2])]
    lines = shown(rows, 80)
    assert lines[4].split() == ["all", "2", "✓", "✓"]
    assert lines[5].split() == ["extra", "3", "✓", "2"]
    assert lines[6].split() == ["nearly", "2", "1", "✓"]  # and the CSVs say how nearly


def test_points_stand_in_the_heading_and_decimal_points_below_one_another():
    lines = shown([graded("a", [1, 1, 2]), graded("b", [1 / 3, 0.5, 2])], 80)
    assert lines[2].split() == ["points", "4", "1", "1", "2"]
    assert lines[5].split() == ["b", "2.83", "0.33", "0.5", "✓"]
    assert lines[2].index("4") == lines[4].index("4") == lines[5].index("2.83")


@pytest.mark.parametrize("width", [40, 120])
def test_columns_stand_below_one_another_whatever_the_names(width):
    lines = shown([graded(name, [1, 0.25]) for name in NAMES], width)[4 : 4 + len(NAMES)]
    assert len({cell_len(line[: line.index("1.25")]) for line in lines}) == 1


def test_names_are_shown_as_they_are_but_for_what_cannot_be_seen():
    said = "\n".join(shown(class_of(5), 120))
    assert "bob [late] [/x]" in said
    assert "x␛[2J␊red" in said
    assert "👩�🚀 astro" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("width", [12, 13, 20, 60])
def test_a_long_name_keeps_its_two_ends(width, subtests):
    for name in (*NAMES, "firstname.lastname-001@students.example.edu"):
        with subtests.test(name):
            short = table.shorten_name(name, width)
            assert cell_len(short) <= width
            if cell_len(name) > width:
                head, tail = short.split("…")
                assert name.startswith(head)
                assert name.endswith(tail)
                assert cell_len(short) >= width - 2  # a wide character may not fit
                assert tail
            else:
                assert short == name


@pytest.mark.parametrize(
    "names",
    [
        [f"firstname.lastname-{i:03}@students.example.edu" for i in range(60)],
        [f"{chr(97 + i % 26)}{i}.anybody@students.example.edu" for i in range(60)],
        [*(f"firstname.lastname-{i:03}@students.example.edu" for i in range(59)), "王小明" * 9],
    ],
)
def test_sixty_students_are_told_apart_in_eighty_columns(names):
    rows = [graded(name, [1, 1 / 3, 2, 0, 1.55, 2, 1, 0.25, 2]) for name in names]
    lines = shown(rows, 80)[4:64]
    assert len({line.split()[0] for line in lines}) == 60
    assert not [line for line in lines if "edu" in line], "it is everybody's"


def totals(*scores):
    """A row for each total."""
    return [graded(f"s{i:02}", [score]) for i, score in enumerate(scores)]


def test_averages_stand_below_and_are_of_what_is_graded():
    rows = [*totals(0, 0.25, 0.5, 1, 1), StateRow("z", "06", State.BROKEN)]
    assert shown(rows, 80)[11].split() == ["average", "0.55", "0.55"]
    assert "average" not in "\n".join(shown(rows[:3], 80))


def test_what_waits_for_somebody_is_marked_and_what_is_taken_off_has_a_column():
    marks = {"essay": Mark(0, 3, None, None, 0, needs_a_look=True), "test": Mark(1, 2, 1)}
    rows = [
        StateRow("a", "06", State.GRADED, marks, 1, 5),
        StateRow(
            "b", "06", State.GRADED, {"essay": Mark(3.5, 3), "test": Mark(0.25, 2)}, 3.75, 5, 0.5
        ),
        StateRow("c", "06", State.BROKEN),
    ]
    lines = shown(rows, 80)
    assert lines[1].split() == ["student", "total", "late", "essay", "test"]
    assert lines[2].split() == ["points", "5", "3", "2"]
    assert lines[4].split() == ["a", "1?", "0?", "1"]
    assert lines[5].split() == ["b", "3.25", "-0.5", "3.5", "0.25"]
    assert lines[6].split() == ["c", "broken", "–", "–"]
    assert lines[4].index("1?") == lines[5].index("3.25")
    assert lines[4].index("0?") == lines[5].index("3.5")


def test_a_total_that_is_out_of_date_is_marked_and_still_aligned():
    rows = [graded("a", [0.5]), replace(graded("b", [1.0]), out_of_date="points have changed")]
    first, second = shown(rows, 80)[4:6]
    assert second.split() == ["b", "1*", "✓"]
    assert first.index(".5") == second.index("*")


def test_a_long_table_has_its_headings_below_too():
    assert sum(line.startswith("student ") for line in shown(class_of(60), 80)) == 2
    assert sum(line.startswith("student ") for line in shown(class_of(5), 80)) == 1


def test_the_csvs_are_exact_and_whole(tmp_path):
    rows = [graded("a, b", [0.3333, 0.6667, 0.1]), StateRow("c", "06", State.BROKEN)]
    csvs.write_csvs(tmp_path, rows)
    with (tmp_path / "grades.csv").open(newline="", encoding="utf-8-sig") as file:
        assert [*csv.reader(file)][1:] == [
            ["a, b", "06", "graded", "1.1", "4.0", "0.0", "", "", "", "", "", "", ""],
            ["c", "06", "broken", "", "", "", "", "", "", "", "", "", ""],
        ]
    with (tmp_path / "exercises.csv").open(newline="", encoding="utf-8-sig") as file:
        assert [*csv.reader(file)][1:3] == [
            ["a, b", "06", "6.1", "0.3333", "1.0", "", "0.0", "", "", ""],
            ["a, b", "06", "6.2", "0.6667", "1.0", "", "0.0", "", "", ""],
        ]  # fmt: skip


def test_a_spreadsheet_knows_that_a_csv_is_unicode(tmp_path):
    csvs.write_csvs(tmp_path, [graded("zoë", [1])])
    files = [*tmp_path.glob("*.csv")]
    assert len(files) == 3
    assert all(file.read_bytes().startswith(codecs.BOM_UTF8) for file in files)


def test_what_was_due_and_never_came_counts_in_a_students_points(tmp_path):
    due = datetime(2026, 10, 12, tzinfo=UTC)
    rows = [
        graded("amy", [0.5, 1]),
        StateRow("amy", "07", State.MISSING, points=3.0, due=due),
        StateRow("amy", "08", State.AWAITED, points=5.0, due=due),
        StateRow("bob", "07", State.MISSING, points=3.0),
    ]
    csvs.write_csvs(tmp_path, rows)
    with (tmp_path / "students.csv").open(newline="", encoding="utf-8-sig") as file:
        totals = {row["student"]: (row["score"], row["points"]) for row in csv.DictReader(file)}
    assert totals == {"amy": ("1.5", "5.0"), "bob": ("", "")}


def test_a_row_for_a_student_has_the_roster_and_blanks_where_there_is_no_grade(tmp_path):
    rows = [graded("zoe", [0.5, 1]), StateRow("bob", "06", State.BROKEN), graded("amy", [1, 0.25])]
    people = [Person("zoe", "Zoe Zed", "zoe@example.edu", "B"), Person("nora", "Nora")]
    csvs.write_csvs(tmp_path, rows, people)
    with (tmp_path / "students.csv").open(newline="", encoding="utf-8-sig") as file:
        assert [*csv.reader(file)] == [
            ["student", "name", "email", "section", "out_of_date", "needs_a_look", "score",
             "points", "percent", "does_not_count", "06", "06 6.1", "06 6.2"],
            ["zoe", "Zoe Zed", "zoe@example.edu", "B", "", "", "1.5", "2.0", "75.0", "",
             "1.5", "0.5", "1"],
            ["nora", "Nora", "", "", "", "", "", "", "", "", "", "", ""],
            ["amy", "", "", "", "", "", "1.25", "2.0", "62.5", "", "1.25", "1", "0.25"],
            ["bob", "", "", "", "", "", "", "", "", "", "", "", ""],
        ]  # fmt: skip


def test_no_cell_of_a_csv_is_a_formula_or_moves_the_cursor(tmp_path):
    names = ['=HYPERLINK("x")', "+1", "-1", "@a", "\tb", "\r=c", " =d", "e\x1b[2J", "f-1"]
    names += ["ada;=1+2;x", 'ada; "@b"', "\uff1d1+1", " \uff0b1", "\uff0d1;\uff20a", "a;b-1"]
    csvs.write_csvs(tmp_path, [graded(name, [-1, 0.5]) for name in names])
    with (tmp_path / "grades.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = [*csv.reader(file)][1:]
    assert [row[0] for row in rows] == [
        '\'=HYPERLINK("x")', "'+1", "'-1", "'@a", "'␉b", "'␍=c", "' =d", "e␛[2J", "f-1",
        "ada;'=1+2;x", "ada;' \"@b\"", "'\uff1d1+1", "' \uff0b1", "'\uff0d1;'\uff20a", "a;b-1",
    ]  # fmt: skip
    with (tmp_path / "exercises.csv").open(newline="", encoding="utf-8-sig") as file:
        assert [row[3] for row in csv.reader(file)][1:3] == ["-1", "0.5"]


def test_a_large_class_shows_only_those_about_whom_there_is_something_to_do():
    rows = class_of(table.MAX_ROWS + 1)
    rows[2] = replace(rows[2], out_of_date="points have changed")
    everybody = [row for row in rows if row.is_graded]
    lines = shown(rows, 120)
    said = " ".join(" ".join(lines).split())
    assert f"{len(rows) - 3} of {len(rows)} students are not shown" in said
    (without_grade,) = [line for line in lines if "lastname" in line]
    assert without_grade.split()[1] == "failed"
    average = sum(row.total for row in everybody) / len(everybody)
    assert next(line for line in lines if line.startswith("average")).split()[1] == f"{average:.2f}"
    assert headings(lines) == headings(shown(rows[:60], 120))


def test_a_large_class_about_whom_there_is_nothing_to_do_has_its_average():
    rows = [graded(f"student-{i}", POINTS.values()) for i in range(table.MAX_ROWS + 1)]
    lines = shown(rows, 120)
    assert headings(lines) == ["student", "total", *POINTS]
    (average,) = [line for line in lines if line.startswith("average")]
    assert average.split()[1] == "16"
    assert not [line for line in lines if line.startswith("student-")]


def test_a_class_of_a_hundred_is_shown_whole():
    lines = shown(class_of(table.MAX_ROWS), 120)
    assert len([line for line in lines if "firstname" in line or "lastname" in line]) == 95
