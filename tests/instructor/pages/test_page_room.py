"""Pages at the limits of what is taken and kept: they are made in bounded time and memory.

That is feedback pages, and those that nbconvert makes for Formgrader with the same filters.
"""

import json
import subprocess
import sys

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from autograder.instructor.course.notebook_rewriting import MAX_CELLS, MAX_SOURCE_CHARACTERS
from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.pages.clean_pages import (
    LONG_CODE,
    LONG_HTML,
    LONG_MARKDOWN,
    MAX_TAGS,
    highlight_code,
    render_printed_text,
)
from autograder.instructor.sandbox.kernel_messages import MIN_OUTPUT_CHARACTERS
from tests.conftest import ROOT

CELL, NOTEBOOK = (
    CaptureEvidence.class_traits()[f"{of}_output"].default_value for of in ("cell", "notebook")
)
CELLS = NOTEBOOK // CELL
"""The number of cells that may each have as much output as one cell may."""


def filled(text, length):
    """So many characters of a text that begins again."""
    return (text * (length // len(text) + 1))[:length]


def coded(text, length=LONG_CODE):
    """As much code as is taken, in cells of a length, made of a text."""
    source = filled(text, length)
    return [new_code_cell(source) for _ in range(MAX_SOURCE_CHARACTERS // length)]


def written(text):
    """As much markdown as is taken and rendered, made of a text."""
    source = filled(text, LONG_MARKDOWN)
    return [new_markdown_cell(source) for _ in range(MAX_SOURCE_CHARACTERS // LONG_MARKDOWN)]


def shown(kind, text, length=LONG_HTML):
    """As much output of a kind as is kept, in outputs of a length, made of a text."""
    data = {kind: filled(text, length)}
    times = CELL // max(length, MIN_OUTPUT_CHARACTERS)
    return [
        new_code_cell("", outputs=[new_output("display_data", data=data) for _ in range(times)])
        for _ in range(CELLS)
    ]


def said(text, length=CELL):
    """As much as is kept of what is printed, in streams of a length, made of a text."""
    stream = new_output("stream", name="stdout", text=filled(text, length))
    return [
        new_code_cell("", outputs=[stream] * (CELL // max(length, MIN_OUTPUT_CHARACTERS)))
    ] * CELLS


COSTS = {
    "lines": lambda: coded("x\n"),
    "braces": lambda: coded("f'{"),
    "one cell": lambda: coded("f'{", MAX_SOURCE_CHARACTERS),
    "cells": lambda: coded("f'{", MAX_SOURCE_CHARACTERS // MAX_CELLS),
    "tables": lambda: written("|a"),
    "images": lambda: written("!["),
    "quotes": lambda: written(">"),
    "paragraphs": lambda: shown("text/html", "<p>a"),
    "short paragraphs": lambda: shown("text/html", "<p>a", 400),
    "bold": lambda: shown("text/html", "<b>" * 290 + "<p>x" * 900, 4470),
    "comparisons": lambda: shown("text/html", "<"),
    "text": lambda: shown("text/html", "a & b "),
    "entities": lambda: shown("text/html", "&lt;"),
    "attributes": lambda: shown("text/html", "<p " + " ".join(f"a{n}" for n in range(50_000))),
    "styles": lambda: shown("text/html", "<p style='" + "color:red;" * 25_000 + "'>"),
    "short styles": lambda: shown("text/html", f"<p style='{'color:red;' * 29}'>"),
    "brackets": lambda: shown("text/html", "<p style='" + "(" * 250_000 + "'>"),
    "deep": lambda: shown("text/html", "<div>"),
    "drawings": lambda: shown("image/svg+xml", "<g>"),
    "outputs": lambda: shown("text/plain", "a", 1),
    "rendered": lambda: shown("text/markdown", ">", LONG_MARKDOWN),
    "formulas": lambda: shown("text/latex", "$a$ ", CELL),
    "pictures": lambda: shown("image/png", "A", CELL),
    "colours": lambda: said("\x1b[31ma"),
    "short colours": lambda: said("\x1b[31ma", 500),
    "escapes": lambda: said("\x1b[1;38;2;1;2;3m"),
}

MEASURE = """
import json, resource, sys, time, warnings
from datetime import datetime
from pathlib import Path
warnings.simplefilter("ignore")
import nbformat
from nbconvert.exporters import HTMLExporter
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config
from autograder.instructor.nbgrader_plugins import configure
from autograder.instructor.pages import SubmissionDetails
from autograder.instructor.pages.feedback_page import PageContents, feedback_page
configure(config := Config(), Path(sys.argv[1]))
made = GenerateFeedback(coursedir=CourseDirectory(config=config), config=config)
exporter = HTMLExporter(parent=made, config=made.config)
about = {"score": 1, "max_score": 1, "late_penalty": 0, "notebook": "a"}
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
def page(cells):
    notebook = nbformat.v4.new_notebook(nbformat_minor=4, cells=[*map(nbformat.from_dict, cells)])
    details = SubmissionDetails("a", "a", "a")
    ours = len(feedback_page(PageContents(details, notebook.cells, {}, {}, {}))(datetime.now()))
    resources = {"metadata": {}, "nbgrader": about}
    return ours + len(exporter.from_notebook_node(notebook, resources=resources)[0])
page([])
cells = json.loads(sys.stdin.read())
before, began = most(), time.process_time()
made = page(cells)
print(most() - before, time.process_time() - began, made)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTS)
def test_no_page_takes_much_to_make(tmp_path, name):
    cells = [{k: v for k, v in cell.items() if k != "id"} for cell in COSTS[name]()]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)],
        input=json.dumps(cells), capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    megabytes, seconds, _ = map(float, done.stdout.split())
    assert megabytes < 300, done.stdout
    assert seconds < 60, done.stdout


def test_what_a_page_has_no_room_for_is_there_as_text():
    context: dict[str, dict[str, int]] = {"resources": {}}
    assert "<span" in highlight_code(context, "x = 1")
    assert "<span" in render_printed_text(context, "\x1b[31mred\x1b[0m")
    assert highlight_code({"resources": {}}, "x<" * LONG_CODE).startswith(
        '<div class="highlight"><pre>x&lt;'
    )
    assert render_printed_text(context, "\x1b[31m<" * MAX_TAGS) == "&lt;" * MAX_TAGS
    context["resources"]["shardlings_tags"] = MAX_TAGS
    plain = '<div class="highlight"><pre>x &lt; 1</pre></div>'
    assert highlight_code(context, "x < 1") == plain
    assert render_printed_text(context, "\x1b[31mred\x1b[0m") == "red"
