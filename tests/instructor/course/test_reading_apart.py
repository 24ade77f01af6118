"""Whatever bytes are handed in, whoever grades gets a small and valid notebook, or a sentence."""

import json
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.instructor.course import (
    ReaderFailedError,
    UnreadableError,
    handed_in,
    notebook_rewriting,
    read_apart,
)
from autograder.instructor.course.course import misplaced
from autograder.instructor.course.notebook_rewriting import (
    MAX_CELLS,
    MAX_PICTURE_CHARACTERS,
    MAX_SOURCE_CHARACTERS,
    NotebookRefusedError,
    rewritten,
)
from autograder.instructor.pages.clean_pages import markdown
from tests.conftest import ROOT
from tests.helpers import pretend_bubblewrap

SOLUTIONS = sorted((ROOT / "solutions").glob("*/*.ipynb"))


def notebook(*cells, **others):
    """A notebook's bytes, spelt as JSON can spell them."""
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **others}
    return json.dumps(whole).encode()


def code(source="", **others):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], **others}


def words(source, **others):
    return {"cell_type": "markdown", "source": source, "metadata": {}, **others}


def in_metadata(inner):
    """A notebook with some JSON, as text, in its first cell's metadata."""
    return notebook(code("1", metadata={"x": "HERE"})).replace(b'"HERE"', inner)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text()
    | st.text(st.characters(categories=["Cs"]), max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)  # fmt: skip
texts = st.text(max_size=30) | st.lists(st.text(max_size=9), max_size=3) | anything
pictures = st.dictionaries(
    st.sampled_from(["a", "b.png", ""]) | st.text(max_size=4),
    st.dictionaries(st.sampled_from(["image/png", "image/svg+xml", "text/html"]), texts) | anything,
    max_size=3,
)
names = st.sampled_from(["ex-1-1", "ex-1-1-check", ""]) | anything
about = st.fixed_dictionaries(
    {},
    optional={
        "nbgrader": st.fixed_dictionaries(
            {}, optional={"grade_id": names, "points": anything, "grade": anything, "more": names}
        )
        | anything,
        "tags": st.lists(texts) | anything,
        "editable": anything,
        "colab": anything,
    },
)
cells = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "raw", "heading"]) | anything,
        "id": st.sampled_from(["a", "b", "not an id"]) | anything,
        "source": texts | st.just("![x](attachment:a) ![y](attachment:b.png)"),
        "input": texts,
        "metadata": about | anything,
        "outputs": anything,
        "attachments": pictures | anything,
        "level": anything,
    },
)
plain = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw"])},
    optional={"id": names, "source": texts, "metadata": about, "attachments": pictures},
)
notebooks = st.fixed_dictionaries(
    {"nbformat": st.sampled_from([4, 4, 4, 3]) | anything},
    optional={
        "metadata": anything,
        "cells": st.lists(plain, max_size=4) | st.lists(cells | anything, max_size=4),
        "worksheets": st.lists(st.fixed_dictionaries({"cells": st.lists(cells)}) | anything)
        | anything,
        "nbformat_minor": anything,
    },
)


def is_fit(came):
    """Whether bytes are refused in one line, or become a notebook that holds nothing odd."""
    try:
        made = rewritten(came)
    except NotebookRefusedError as error:
        assert str(error).isprintable()  # noqa: PT017 it may also be taken
        return False
    nbformat.validate(made["notebook"])
    json.dumps(made, ensure_ascii=False).encode()
    for cell in made["notebook"]["cells"]:
        assert cell["metadata"].keys() <= {"nbgrader", "tags", "editable", "deletable"}
        assert not cell.get("outputs")
    return True


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(notebooks)
def test_whatever_is_made_of_json_is_fit_or_refused(made):
    is_fit(json.dumps(made).encode())


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 400))
def test_whatever_is_made_of_bytes_is_fit_or_refused(noise, place):
    whole = notebook(code("x = 1", id="a"), words("*y*", attachments={"a": {"image/png": "AA"}}))
    is_fit(noise)
    is_fit(whole[:place] + noise + whole[place:])
    is_fit(whole[:place])


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_of_the_courses_own_notebooks_all_comes_through_that_is_graded(path):
    before, after = nbformat.read(path, 4), read_apart(path).notebook
    nbformat.validate(after)
    for old, new in zip(before.cells, after.cells, strict=True):
        parts = ("cell_type", "id", "source")
        assert [old[part] for part in parts] == [new[part] for part in parts]
        for part in ("nbgrader", "tags"):
            assert old.metadata.get(part) == new.metadata.get(part)


def test_what_editors_remember_and_outputs_of_megabytes_are_no_reason_to_refuse(tmp_path):
    state = {"state": {f"{i:032x}": {"model_name": "x", "state": {}} for i in range(5000)}}
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 3 * 2**20},
               "metadata": {}}  # fmt: skip
    curve = {**picture, "data": {"application/vnd.plotly.v1+json": {"y": [[0.5, None]] * 200_000}}}
    path = tmp_path / "a.ipynb"
    about = {"id": "a1", "colab": {"base_uri": "x"}, "vscode": {"languageId": "python"},
             "nbgrader": {"grade_id": "ex-1-1", "grade": False, "points": 2.5}}  # fmt: skip
    path.write_bytes(
        notebook(
            code(["x = 1\n", "y = 2"], outputs=[picture, curve], metadata=about),
            words("![p](attachment:p.png)", attachments={"p.png": {"image/png": ["AA\n", "BB"]}}),
            metadata={"widgets": {"application/vnd.jupyter.widget-state+json": state}, "colab": {}},
            nbformat_minor=0,
        )
    )
    made = read_apart(path)
    assert made.said == ()
    first, second = made.notebook.cells
    assert first.source == "x = 1\ny = 2"
    assert first.metadata == {"nbgrader": about["nbgrader"]}
    assert second.attachments == {"p.png": {"image/png": "AA\nBB"}}


def test_halves_of_characters_are_replaced_and_whole_ones_stay():
    made = rewritten(notebook(code("a = '\ud83d'  # 😀 \ud83d\ude00")))
    assert made["notebook"]["cells"][0]["source"] == "a = '�'  # 😀 😀"


def test_a_thousand_empty_lines_are_a_hundred():
    """IPython's lexer, which colours code in pages, takes the square of a run in time."""
    lines, spaces = "\n" * 4000, " " * 50
    made = rewritten(notebook(code(f"x = 1{lines}y = '{spaces}'"), words(lines)))
    first, second = (cell["source"] for cell in made["notebook"]["cells"])
    assert first == f"x = 1{lines[:100]}y = '{spaces}'"
    assert second == lines


def test_two_cells_of_one_id_are_told_apart():
    first, second = rewritten(notebook(code("1", id="a"), code("2", id="a")))["notebook"]["cells"]
    assert first["id"] == "a" != second["id"]


LIMITS = {
    "cells": (notebook(*[code()] * (MAX_CELLS + 1)), "it has 501 cells, and 500 are taken"),
    "characters": (
        notebook(code("x" * MAX_SOURCE_CHARACTERS), code("x")),
        "its cells have 262,145 characters, and 262,144 are taken",
    ),
    "kinds": (notebook(code(), {"cell_type": "game"}), "cell 2 is of no kind that a notebook has"),
    "old cells": (
        json.dumps({"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code"}] * 501}]}),
        "it has 501 cells, and 500 are taken",
    ),
    "tables": (notebook(code({"a": 1})), "what is written in cell 1 is no text"),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_is_too_much_is_said(limit):
    came, why = LIMITS[limit]
    with pytest.raises(NotebookRefusedError) as refused:
        rewritten(came if isinstance(came, bytes) else came.encode())
    assert str(refused.value) == why


def test_pictures_count_as_often_as_they_are_shown():
    pasted = {"a": {"image/png": "A" * (MAX_PICTURE_CHARACTERS // 100)}}
    often = words("![x](attachment:a) " * 200, attachments=pasted)
    once = words("![x](attachment:a)", attachments=pasted)
    made = rewritten(notebook(once, often, code(), once))
    assert ["attachments" in cell for cell in made["notebook"]["cells"]] == [True, *[False] * 3]
    (said,) = made["said"]
    assert "left out from cell 2 on: each as often as it is referred to, they come to more" in said


PNG = "iVBORw0KGgo" + "A" * 2**19 + "=="
LEFT_OUT = "(A picture is left out here: PNG, JPEG and GIF are shown.)"


@pytest.mark.parametrize(
    "written",
    [
        "before ![a plot](HERE) after",
        'before ![a plot](<HERE> "of it") after',
        "![a plot][plot]\n\n[plot]: HERE",
        "<p>before</p>\n<img width='3' src='HERE' alt='a plot'>",
    ],
)
def test_a_picture_in_the_text_is_a_picture_and_no_writing(written):
    came = notebook(words(written.replace("HERE", f"data:image/png;base64,{PNG}")), code("x = 1"))
    assert len(came) > MAX_SOURCE_CHARACTERS
    made = rewritten(came)
    shown, _ = made["notebook"]["cells"]
    ((name, forms),) = shown["attachments"].items()
    assert shown["source"] == written.replace("HERE", f"attachment:{name}")
    assert forms == {"image/png": PNG}
    assert made["said"] == []
    nbformat.validate(made["notebook"])
    assert f'src="data:image/png;base64,{PNG}"' in markdown({"cell": shown}, shown["source"])


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("a ![p](data:image/webp;base64,AAAA) b", f"a {LEFT_OUT} b"),
        ("a ![p](data:image/svg+xml;utf8,%3Csvg%3E) b", f"a {LEFT_OUT} b"),
        ("a <img src='data:image/png,AA' alt='x'> b", f"a {LEFT_OUT} b"),
        ("a ![p](attachment:x.svg) b ![](attachment:y.png)",
         f"a {LEFT_OUT} b ![](attachment:y.png)"),
        ('![p](attachment:z.webp "title")', LEFT_OUT),
        ("[r]: attachment:z.webp", f"[r]: {LEFT_OUT}"),
    ],
)  # fmt: skip
def test_where_a_picture_is_not_shown_it_is_said(written, left):
    pasted = {
        "x.svg": {"image/svg+xml": "<svg/>"}, "z.webp": {"image/webp": "AAAA"},
        "y.png": {"image/png": "AAAA"},
    }  # fmt: skip
    made = rewritten(notebook(words(written, attachments=pasted)))["notebook"]["cells"][0]
    assert made["source"] == left
    assert set(made.get("attachments", {})) <= {"y.png"}
    assert "left out here" in markdown({"cell": made}, made["source"])


def test_a_picture_that_a_reference_shows_often_counts_as_often():
    pasted = {"a": {"image/png": "A" * (MAX_PICTURE_CHARACTERS // 100)}}
    often = words("![x][r] " * 200 + "\n\n[r]: attachment:a", attachments=pasted)
    (said,) = rewritten(notebook(often))["said"]
    assert "left out from cell 1 on" in said


MB = 2**20
WORST = {
    "braces": lambda: in_metadata(b"[" + b"{}," * (6 * MB) + b"{}]"),
    "pairs": lambda: in_metadata(b"[" + b'{"":0},' * (2 * MB) + b"{}]"),
    "brackets": lambda: in_metadata(b"[" * (19 * MB)),
    "digits": lambda: in_metadata(b"1" * (19 * MB)),
    "lines": lambda: notebook(code(["a", ""] * (2 * MB))),
    "breaks": lambda: notebook(code("\\n" * (MAX_SOURCE_CHARACTERS // 2))),
    "cells": lambda: notebook(*[code()] * 200_000),
    "outputs": lambda: notebook(code(outputs=[{"data": {"text/html": "<b>" * 1000}}] * 5000)),
    "written-out": lambda: notebook(words("![](data:image/png;base64,AA)" * (MB // 2))),
    "no-pictures": lambda: notebook(words("![" * (9 * MB))),
    "tags": lambda: notebook(words("<img " * (3 * MB))),
    "zeros": lambda: notebook(code("\x00" * MAX_SOURCE_CHARACTERS)),
    "pictures": lambda: notebook(
        words("![](attachment:a)" * 480, attachments={"a": {"image/png": "A" * MB}})
    ),
    "noise": lambda: notebook(code("x")) + b"\xff" * (18 * MB),
}
"""Ways to make at most 20 MB of bytes cost the most."""

MEASURE = """
import resource, sys
from pathlib import Path
from autograder.instructor.course import cannot_be_read, read_apart
import nbformat
Path(sys.argv[1], "small.ipynb").write_text('{"nbformat": 4, "cells": []}')
read_apart(Path(sys.argv[1], "small.ipynb")).notebook
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = most()
for path in sorted(Path(sys.argv[1]).glob("*.ipynb")):
    said = cannot_be_read(path)
    if not said:
        read_apart(path).notebook
    print(path.stem, (most() - before) // 1024, said.isprintable())
"""


def test_twenty_megabytes_of_anything_cost_whoever_grades_little(tmp_path):
    for name, make in WORST.items():
        came = make()
        assert len(came) <= handed_in.MAX_NOTEBOOK_BYTES
        (tmp_path / f"{name}.ipynb").write_bytes(came)
    began = time.monotonic()
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _, _ in lines] == sorted([*WORST, "small"])
    assert {is_line for _, _, is_line in lines} == {"True"}
    assert max(int(megabytes) for _, megabytes, _ in lines) < 300, done.stdout
    assert time.monotonic() - began < 30 * len(WORST)


def test_a_reader_that_cannot_be_had_blames_nobody(tmp_path, monkeypatch):
    path = tmp_path / "a.ipynb"
    path.write_bytes(notebook(code("only here")))
    monkeypatch.setattr(handed_in, "READER_MEMORY_BYTES", 2**20)
    with pytest.raises(ReaderFailedError, match="No notebook can be read here"):
        read_apart(path)


def test_a_reader_that_is_kept_waiting_blames_nobody(tmp_path, monkeypatch):
    path = tmp_path / "a.ipynb"
    path.write_bytes(notebook(code("this one alone")))
    monkeypatch.setattr(handed_in, "READER_PATIENCE", 0.0001)
    with pytest.raises(ReaderFailedError, match="Grade it again, when it has less to do"):
        read_apart(path)


ENDLESS = """
import sys
came = sys.stdin.buffer.read()
while b"endless" in came:
    pass
print('{"notebook": {}}')
"""


def test_who_takes_too_much_time_of_the_processor_is_told_what_to_do(tmp_path, monkeypatch):
    path, script = tmp_path / "a.ipynb", tmp_path / "reads.py"
    path.write_bytes(notebook(code("endless")))
    script.write_text(ENDLESS)
    pretend_bubblewrap(monkeypatch, False)  # within them, no other script can be seen
    monkeypatch.setattr(notebook_rewriting, "__file__", str(script))
    monkeypatch.setattr(handed_in, "READER_CPU_SECONDS", 1)
    monkeypatch.setattr(handed_in, "READER_PATIENCE", 600)
    with pytest.raises(UnreadableError, match="more than 1 seconds or 2 GB to read it"):
        read_apart(path)


def test_who_takes_too_much_is_told_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "a.ipynb"
    path.write_bytes(WORST["pairs"]())
    monkeypatch.setattr(handed_in, "READER_MEMORY_BYTES", 2**28)
    with pytest.raises(UnreadableError, match="Clear its outputs, and hand it in again"):
        read_apart(path)


def test_the_reader_imports_nothing_of_the_package():
    script = Path(handed_in.__file__).with_name("notebook_rewriting.py")
    look = f"import runpy, sys; runpy.run_path({str(script)!r}); print('autograder' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", look], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_what_lies_beside_the_folders_was_left_alone(tmp_path):
    (tmp_path / "ann").mkdir()
    for name in ("hal.ipynb", "ann/a.zip", "ann/b.zip"):
        (tmp_path / name).touch()
    above, within = misplaced(tmp_path, ["01_sums"])
    assert above.startswith("hal.ipynb lies directly in grading/submitted/, and was left alone. ")
    assert "a.zip, b.zip lie directly in grading/submitted/ann/, and were left alone." in within


@pytest.mark.parametrize(
    ("came", "why"),
    [
        (b"\n<!DOCTYPE html>\n<html><title>Log in</title></html>", "a web page was saved in its"),
        (b"Dear Sir or Madam,\n", "it is not a notebook's JSON"),
        (notebook(code("1"))[:-9], "its JSON breaks off at line 1"),
        (b"", "its JSON breaks off at line 1"),
    ],
)
def test_what_never_was_a_notebook_is_not_called_cut_off(came, why):
    with pytest.raises(NotebookRefusedError, match=why):
        rewritten(came)
