"""Any submitted bytes become a small and valid notebook, or are refused with a sentence."""

import errno
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.instructor.course import (
    UnreadableError,
    find_notebook_problem,
    find_unsafe_file,
    notebook_rewriting,
    read_in_sandbox,
    reading_submissions,
)
from autograder.instructor.course.course import find_misplaced_files
from autograder.instructor.course.notebook_rewriting import (
    MAX_CELLS,
    MAX_PICTURE_CHARACTERS,
    MAX_SOURCE_CHARACTERS,
    NotebookRefusedError,
    rewrite_notebook,
)
from autograder.instructor.course.reading_submissions import ReaderFailedError
from autograder.instructor.pages.clean_pages import render_markdown
from tests.conftest import ROOT, fewer, some_of
from tests.helpers import pretend_bubblewrap

SOLUTIONS = sorted((ROOT / "solutions").glob("*/*.ipynb"))


def notebook(*cells, **others):
    """Return a notebook's bytes."""
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **others}
    return json.dumps(whole).encode()


def code(source="", **others):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], **others}


def prose(source, **others):
    return {"cell_type": "markdown", "source": source, "metadata": {}, **others}


def in_metadata(inner):
    """Return a notebook with some JSON, as text, in its first cell's metadata."""
    return notebook(code("1", metadata={"x": "HERE"})).replace(b'"HERE"', inner)


any_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text()
    | st.text(st.characters(categories=["Cs"]), max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)  # fmt: skip
texts = st.text(max_size=30) | st.lists(st.text(max_size=9), max_size=3) | any_json
pictures = st.dictionaries(
    st.sampled_from(["a", "b.png", ""]) | st.text(max_size=4),
    st.dictionaries(st.sampled_from(["image/png", "image/svg+xml", "text/html"]), texts) | any_json,
    max_size=3,
)
names = st.sampled_from(["ex-1-1", "ex-1-1-check", ""]) | any_json
metadata = st.fixed_dictionaries(
    {},
    optional={
        "nbgrader": st.fixed_dictionaries(
            {}, optional={"grade_id": names, "points": any_json, "grade": any_json, "more": names}
        )
        | any_json,
        "tags": st.lists(texts) | any_json,
        "editable": any_json,
        "colab": any_json,
    },
)
cells = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "raw", "heading"]) | any_json,
        "id": st.sampled_from(["a", "b", "not an id"]) | any_json,
        "source": texts | st.just("![x](attachment:a) ![y](attachment:b.png)"),
        "input": texts,
        "metadata": metadata | any_json,
        "outputs": any_json,
        "attachments": pictures | any_json,
        "level": any_json,
    },
)
plain_cells = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown", "raw"])},
    optional={"id": names, "source": texts, "metadata": metadata, "attachments": pictures},
)
notebooks = st.fixed_dictionaries(
    {"nbformat": st.sampled_from([4, 4, 4, 3]) | any_json},
    optional={
        "metadata": any_json,
        "cells": st.lists(plain_cells, max_size=4) | st.lists(cells | any_json, max_size=4),
        "worksheets": st.lists(st.fixed_dictionaries({"cells": st.lists(cells)}) | any_json)
        | any_json,
        "nbformat_minor": any_json,
    },
)


def accept_or_refuse(came):
    """Check that bytes become a clean notebook, or are refused in one line."""
    try:
        result = rewrite_notebook(came)
    except NotebookRefusedError as error:
        assert str(error).isprintable()  # noqa: PT017 it may also be accepted
        return False
    nbformat.validate(result["notebook"])
    json.dumps(result, ensure_ascii=False).encode()
    for cell in result["notebook"]["cells"]:
        assert cell["metadata"].keys() <= {"nbgrader", "tags", "editable", "deletable"}
        assert not cell.get("outputs")
    return True


@settings(max_examples=fewer(300), suppress_health_check=[HealthCheck.too_slow])
@given(notebooks)
def test_any_json_is_accepted_or_refused(result):
    accept_or_refuse(json.dumps(result).encode())


@settings(max_examples=fewer(200))
@given(st.binary(max_size=60), st.integers(0, 400))
def test_any_bytes_are_accepted_or_refused(noise, place):
    whole = notebook(code("x = 1", id="a"), prose("*y*", attachments={"a": {"image/png": "AA"}}))
    accept_or_refuse(noise)
    accept_or_refuse(whole[:place] + noise + whole[place:])
    accept_or_refuse(whole[:place])


@pytest.mark.parametrize("path", some_of(SOLUTIONS), ids=lambda path: path.stem)
def test_the_courses_own_notebooks_keep_everything_that_is_graded(path):
    before, after = nbformat.read(path, 4), read_in_sandbox(path.name, path.read_bytes()).notebook
    nbformat.validate(after)
    for old, new in zip(before.cells, after.cells, strict=True):
        parts = ("cell_type", "id", "source")
        assert [old[part] for part in parts] == [new[part] for part in parts]
        for part in ("nbgrader", "tags"):
            assert old.metadata.get(part) == new.metadata.get(part)


def test_large_outputs_and_metadata_of_editors_are_left_out():
    state = {"state": {f"{i:032x}": {"model_name": "x", "state": {}} for i in range(5000)}}
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 3 * 2**20},
               "metadata": {}}  # fmt: skip
    curve = {**picture, "data": {"application/vnd.plotly.v1+json": {"y": [[0.5, None]] * 200_000}}}
    metadata = {"id": "a1", "colab": {"base_uri": "x"}, "vscode": {"languageId": "python"},
             "nbgrader": {"grade_id": "ex-1-1", "grade": False, "points": 2.5}}  # fmt: skip
    came = notebook(
        code(["x = 1\n", "y = 2"], outputs=[picture, curve], metadata=metadata),
        prose("![p](attachment:p.png)", attachments={"p.png": {"image/png": ["AA\n", "BB"]}}),
        metadata={"widgets": {"application/vnd.jupyter.widget-state+json": state}, "colab": {}},
        nbformat_minor=0,
    )
    result = read_in_sandbox("a.ipynb", came)
    assert result.notes == ()
    first, second = result.notebook.cells
    assert first.source == "x = 1\ny = 2"
    assert first.metadata == {"nbgrader": metadata["nbgrader"]}
    assert second.attachments == {"p.png": {"image/png": "AA\nBB"}}


def test_lone_surrogates_are_replaced():
    result = rewrite_notebook(notebook(code("a = '\ud83d'  # 😀 \ud83d\ude00")))
    assert result["notebook"]["cells"][0]["source"] == "a = '�'  # 😀 😀"


def test_long_whitespace_in_code_is_shortened():
    """The lexer that highlights code in pages takes quadratic time for whitespace in a row."""
    lines, spaces = "\n" * 4000, " " * 50
    result = rewrite_notebook(notebook(code(f"x = 1{lines}y = '{spaces}'"), prose(lines)))
    first, second = (cell["source"] for cell in result["notebook"]["cells"])
    assert first == f"x = 1{lines[:100]}y = '{spaces}'"
    assert second == lines


def test_a_repeated_cell_id_is_replaced():
    first, second = rewrite_notebook(notebook(code("1", id="a"), code("2", id="a")))["notebook"][
        "cells"
    ]
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
def test_exceeded_limits_are_explained(limit):
    came, why = LIMITS[limit]
    with pytest.raises(NotebookRefusedError) as refused:
        rewrite_notebook(came if isinstance(came, bytes) else came.encode())
    assert str(refused.value) == why


def test_pictures_count_as_often_as_they_are_shown():
    pasted = {"a": {"image/png": "A" * (MAX_PICTURE_CHARACTERS // 100)}}
    often = prose("![x](attachment:a) " * 200, attachments=pasted)
    once = prose("![x](attachment:a)", attachments=pasted)
    result = rewrite_notebook(notebook(once, often, code(), once))
    assert ["attachments" in cell for cell in result["notebook"]["cells"]] == [True, *[False] * 3]
    (said,) = result["notes"]
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
def test_a_picture_in_the_text_becomes_an_attachment(written):
    came = notebook(prose(written.replace("HERE", f"data:image/png;base64,{PNG}")), code("x = 1"))
    assert len(came) > MAX_SOURCE_CHARACTERS
    result = rewrite_notebook(came)
    shown, _ = result["notebook"]["cells"]
    ((name, forms),) = shown["attachments"].items()
    assert shown["source"] == written.replace("HERE", f"attachment:{name}")
    assert forms == {"image/png": PNG}
    assert result["notes"] == []
    nbformat.validate(result["notebook"])
    assert f'src="data:image/png;base64,{PNG}"' in render_markdown({"cell": shown}, shown["source"])


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
def test_a_sentence_replaces_a_picture_that_is_not_shown(written, left):
    pasted = {
        "x.svg": {"image/svg+xml": "<svg/>"}, "z.webp": {"image/webp": "AAAA"},
        "y.png": {"image/png": "AAAA"},
    }  # fmt: skip
    result = rewrite_notebook(notebook(prose(written, attachments=pasted)))["notebook"]["cells"][0]
    assert result["source"] == left
    assert set(result.get("attachments", {})) <= {"y.png"}
    assert "left out here" in render_markdown({"cell": result}, result["source"])


def test_a_picture_that_a_reference_shows_often_counts_as_often():
    pasted = {"a": {"image/png": "A" * (MAX_PICTURE_CHARACTERS // 100)}}
    often = prose("![x][r] " * 200 + "\n\n[r]: attachment:a", attachments=pasted)
    (said,) = rewrite_notebook(notebook(often))["notes"]
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
    "written-out": lambda: notebook(prose("![](data:image/png;base64,AA)" * (MB // 2))),
    "no-pictures": lambda: notebook(prose("![" * (9 * MB))),
    "tags": lambda: notebook(prose("<img " * (3 * MB))),
    "zeros": lambda: notebook(code("\x00" * MAX_SOURCE_CHARACTERS)),
    "pictures": lambda: notebook(
        prose("![](attachment:a)" * 480, attachments={"a": {"image/png": "A" * MB}})
    ),
    "noise": lambda: notebook(code("x")) + b"\xff" * (18 * MB),
}
"""Notebooks of at most 20 MB that take as much time or memory as possible."""

MEASURE = """
import resource, sys
from pathlib import Path
from autograder.instructor.course import find_notebook_problem, read_in_sandbox
import nbformat
small = Path(sys.argv[1], "small.ipynb")
small.write_text('{"nbformat": 4, "cells": []}')
read_in_sandbox(small.name, small.read_bytes()).notebook
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = most()
for path in sorted(Path(sys.argv[1]).glob("*.ipynb")):
    said = find_notebook_problem(path)
    if not said:
        read_in_sandbox(path.name, path.read_bytes()).notebook
    print(path.stem, (most() - before) // 1024, said.isprintable())
"""


@pytest.mark.crowded
def test_twenty_megabytes_of_anything_take_little_memory_and_time(tmp_path):
    for name, make in WORST.items():
        came = make()
        assert len(came) <= reading_submissions.MAX_NOTEBOOK_BYTES
        (tmp_path / f"{name}.ipynb").write_bytes(came)
    began = time.monotonic()
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _, _ in lines] == sorted([*WORST, "small"])
    assert {is_line for _, _, is_line in lines} == {"True"}
    assert max(int(megabytes) for _, megabytes, _ in lines) < 300, done.stdout
    assert time.monotonic() - began < 30 * len(WORST)


def read_cell(source):
    """Read a notebook of one cell."""
    return read_in_sandbox("a.ipynb", notebook(code(source)))


def test_a_reader_without_memory_does_not_blame_the_submission(monkeypatch):
    monkeypatch.setattr(reading_submissions, "READER_MEMORY_BYTES", 2**20)
    with pytest.raises(ReaderFailedError, match="No notebook can be read here"):
        read_cell("only here")


DIES = """
import os, signal, sys
from pathlib import Path
deaths = Path(sys.argv[0]).with_name("deaths")
died = len(deaths.read_text()) if deaths.exists() else 0
if b"kills" in sys.stdin.buffer.read() and died < TIMES:
    deaths.write_text("x" * (died + 1))
    os.kill(os.getpid(), signal.SIGKILL)
print('{"notebook": {"read": 1}}')
"""


@pytest.fixture
def deadly(monkeypatch, tmp_path):
    """Return a function that makes the readers of some notebooks die so many times."""
    pretend_bubblewrap(monkeypatch, False)  # in a sandbox, the script could not be read
    monkeypatch.setattr(notebook_rewriting, "__file__", str(tmp_path / "reads.py"))

    def die(times):
        (tmp_path / "reads.py").write_text(DIES.replace("TIMES", str(times)))

    return die


def test_a_reader_that_is_kept_waiting_does_not_blame_the_submission(deadly, monkeypatch, tmp_path):
    (tmp_path / "reads.py").write_text("import time\ntime.sleep(600)")
    monkeypatch.setattr(reading_submissions, "READER_PATIENCE", 0.01)
    with pytest.raises(ReaderFailedError, match="Grade it again, when it has less to do"):
        read_cell("this one alone")


def test_a_reader_that_is_killed_is_tried_again(deadly):
    deadly(1)
    assert read_cell("kills one reader").text == '{"read": 1}'


def test_a_reader_that_is_killed_twice_does_not_blame_the_submission(deadly):
    deadly(2)
    with pytest.raises(ReaderFailedError, match="2 processes died while they read the notebook"):
        read_cell("kills two readers")


def test_a_notebook_is_read_while_the_temporary_folder_is_full(monkeypatch):
    read_cell("before")

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "_get_default_tempdir", refuse)
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(OSError, match="No space left"):
        tempfile.TemporaryFile()  # noqa: SIM115
    assert read_cell("on a full disk").notebook.cells[0].source == "on a full disk"


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOENT, errno.ESTALE])
def test_only_a_permission_of_their_own_file_is_the_students_error(tmp_path, monkeypatch, number):
    (tmp_path / "a").mkdir()

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        find_notebook_problem(tmp_path / "a.ipynb")
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        find_unsafe_file(tmp_path)
    number = errno.EACCES
    assert find_notebook_problem(tmp_path / "a.ipynb") == (
        "a.ipynb cannot be opened: Permission denied. Hand it in again."
    )
    assert "cannot be opened by the account that grades" in find_unsafe_file(tmp_path)


def test_a_notebook_that_takes_too_much_time_is_refused(monkeypatch):
    monkeypatch.setattr(reading_submissions, "READER_CPU_SECONDS", 0.05)
    monkeypatch.setattr(reading_submissions, "READER_PATIENCE", 600)
    with pytest.raises(UnreadableError, match=r"more than 0\.05 seconds or 2 GB to read it"):
        read_in_sandbox("a.ipynb", WORST["pairs"]())


def test_a_notebook_that_takes_too_much_memory_is_refused(monkeypatch):
    monkeypatch.setattr(reading_submissions, "READER_MEMORY_BYTES", 2**28)
    with pytest.raises(UnreadableError, match="Clear its outputs, and hand it in again"):
        read_in_sandbox("a.ipynb", WORST["pairs"]())


def test_the_reader_does_not_import_the_package():
    script = Path(reading_submissions.__file__).with_name("notebook_rewriting.py")
    look = f"import runpy, sys; runpy.run_path({str(script)!r}); print('autograder' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", look], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_find_misplaced_files_files_are_reported(tmp_path):
    (tmp_path / "ann").mkdir()
    for name in ("hal.ipynb", "ann/a.zip", "ann/b.zip"):
        (tmp_path / name).touch()
    above, within = find_misplaced_files(tmp_path, ["01_sums"])
    assert above.startswith("hal.ipynb is directly in grading/submitted/, and was skipped. ")
    assert "a.zip, b.zip are directly in grading/submitted/ann/, and were skipped." in within


@pytest.mark.parametrize(
    ("came", "why"),
    [
        (b"\n<!DOCTYPE html>\n<html><title>Log in</title></html>", "a web page was saved in its"),
        (b"Dear Sir or Madam,\n", "it is not a notebook's JSON"),
        (notebook(code("1"))[:-9], "its JSON breaks off at line 1"),
        (b"", "its JSON breaks off at line 1"),
    ],
)
def test_a_file_that_never_was_a_notebook_gets_its_own_message(came, why):
    with pytest.raises(NotebookRefusedError, match=why):
        rewrite_notebook(came)
