"""Progress shows what runs, what is next and when it will end, and logs each step as JSON."""

import io
import json
import re
from types import SimpleNamespace

from rich.console import Console

from autograder.instructor.classroom import grading_progress
from autograder.instructor.classroom.grading_progress import GradingProgress

PAIRS = {(f"student-{n}", "03_resharding"): 10.0 for n in range(6)}
ANN, BOB, *_ = PAIRS


def shown(tmp_path, monkeypatch, terminal):
    """Return the progress shown when the first of six submissions took two minutes, and the log."""
    now, said = [1000.0], io.StringIO()
    monkeypatch.setattr(grading_progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    console = Console(file=said, width=80, force_terminal=terminal, color_system=None)
    with GradingProgress(console, PAIRS, tmp_path / "log.jsonl") as seen:
        seen.begin(ANN)
        now[0] += 120
        seen.end(ANN, seconds=119.5)
        seen.begin(BOB)
        seen.live.refresh()
        seen.end(BOB, why="[/x]", theirs=True)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    return said.getvalue(), [json.loads(line) for line in lines]


def test_on_a_terminal_it_is_a_bar_with_what_runs_and_what_is_next(tmp_path, monkeypatch):
    said, _ = shown(tmp_path, monkeypatch, terminal=True)
    assert "now:  student-1, 03_resharding" in said
    assert "next: student-2, 03_resharding; student-3, 03_resharding; student-4" in said
    assert "1/6" in said
    assert "about 10 minutes left, until" in said
    lines = re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "\n", said).splitlines()
    assert max(map(len, lines)) <= 80


def test_without_a_terminal_each_that_is_begun_is_a_line(tmp_path, monkeypatch):
    said, _ = shown(tmp_path, monkeypatch, terminal=False)
    first, second = said.splitlines()
    assert first == "Grading 1/6: student-0, 03_resharding"
    assert second.startswith("Grading 2/6: student-1, 03_resharding (about 10 minutes left, until ")


def test_what_is_tried_again_or_given_up_before_its_turn_is_counted_once(tmp_path):
    console = Console(file=io.StringIO(), width=80)
    with GradingProgress(console, PAIRS, tmp_path / "log.jsonl") as seen:
        seen.begin(ANN)
        seen.begin(ANN)
        seen.end(ANN)
        seen.end(BOB, why="The scheduler was lost.")
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert (last["graded"], last["left"]) == (2, 4)


def test_each_step_is_a_line_of_json(tmp_path, monkeypatch):
    _, lines = shown(tmp_path, monkeypatch, terminal=False)
    steps = [line["step"] for line in lines]
    assert steps == ["began", "begun", "entered", "begun", "not graded", "ended"]
    assert lines[2]["student"] == "student-0"
    assert lines[2]["seconds"] == 119.5
    assert lines[4]["why"] == "[/x]"
    assert (lines[5]["graded"], lines[5]["left"]) == (2, 4)
