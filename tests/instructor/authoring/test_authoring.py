"""`docs/authoring.md`, followed to the letter; and what its commands say of what is wrong."""

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from rich.console import Console

from autograder.evidence.unfinished_cells import explain_unfinished
from autograder.exercises import find
from autograder.instructor.authoring import (
    NotebookSession,
    exercise_stubs,
    try_answers,
    write_stubs,
)
from autograder.instructor.authoring.exercise_stubs import PLACEHOLDER, StubError
from autograder.instructor.authoring.trying import CellError, NothingToTryError
from tests.conftest import ROOT
from tests.exercises.solutions import session_for

PAGE = (ROOT / "docs" / "authoring.md").read_text()
HERE, ELSEWHERE = re.split(r"(?m)^## A notebook, and a course, of your own$", PAGE)


@dataclass
class Reader:
    """Somebody who does what the page says, in a folder."""

    root: Path
    notebook: Path
    module: Path
    bank: Path

    def follow(self, page):
        """Write what is to be written, and run what is to be run, in order."""
        for about, text in re.findall(r"(?ms)^```(\w+(?: [^\n]*)?)\n(.*?)^```$", page):
            kind, _, how = about.partition(" ")
            verb, _, what = how.partition("=")
            if kind == "console":
                self.run(text)
            else:
                getattr(self, f"do_{verb}")(what, text)

    def run(self, text):
        """Run commands, each of which says what stands below it."""
        for command, said in re.findall(r"(?m)^\$ ([^\n]*)\n((?:(?!\$ )[^\n]+\n)*)", text):
            if "-m venv" in command:
                continue
            if "pip install" in command:  # by uv, and this checkout in place of a release
                self.install()
                continue
            done = subprocess.run(
                command, shell=True, cwd=self.root, capture_output=True, text=True, check=False
            )
            came = f"{done.stdout}{done.stderr}"
            tried_wrong_on_purpose = "answer.py" in command
            assert done.returncode == 0 or tried_wrong_on_purpose, f"{command}\n{came}"
            for line in said.splitlines():
                assert " ".join(line.split()) in " ".join(came.split()), f"{command}\n{came}"

    def install(self):
        """The page's environment, with the versions that are tested."""
        python = self.root / ".venv" / "bin" / "python"
        uv = Path(sys.executable).with_name("uv")
        lock = ROOT / "requirements" / "lock.txt"
        for command in (
            f"{uv} venv -q --python {sys.executable} .venv",
            f"{uv} pip install -q -p {python} -c {lock} -e {ROOT}[dev] -e .",
        ):
            subprocess.run(command, shell=True, cwd=self.root, check=True)

    def do_file(self, what, text):
        """A file of its own."""
        path = self.root / what
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def do_aside(self, what, text):
        """A module that no exercise uses yet; `test_other_courses.py` tries what is in it."""
        self.do_file(what, text)
        name = what.removesuffix(".py").replace("/", ".")
        python = self.root / ".venv" / "bin" / "python"
        subprocess.run([python, "-c", f"import {name}"], cwd=self.root, check=True)

    def do_stub(self, what, text):
        """An exercise, in place of its stub."""
        module = self.module.read_text()
        found = re.search(rf"(?ms)^{what}: Final = .*?^\)\n", module)
        assert found is not None
        self.module.write_text(module.replace(found[0], text))

    def do_replaces(self, what, text):
        """A name, in place of another."""
        module = self.module.read_text()
        assert module.count(what) == 1
        self.module.write_text(module.replace(what, text.strip()))

    def do_cell(self, what, text):
        """A cell of the notebook."""
        notebook = nbformat.read(self.notebook, 4)
        (cell,) = [cell for cell in notebook.cells if cell.id == what]
        cell.source = text.rstrip()
        nbformat.write(notebook, self.notebook)

    def do_bank(self, what, text):
        """Entries of the bank, in place of the stubs."""
        entries = re.split(r"(?m)^(?=# %%)", self.bank.read_text())
        kept = [entry for entry in entries if f'exercise="{what}"' not in entry]
        assert len(entries) - len(kept) == 4
        self.bank.write_text(f"{''.join(kept)}{text}")

    def left(self):
        """The files in which something is still to be written."""
        files = [self.module, self.notebook, self.notebook.with_suffix(".md"), self.bank]
        return [path for path in files if PLACEHOLDER in path.read_text()]


@pytest.mark.slow
def test_an_exercise_in_this_course(tmp_path):
    root = tmp_path / "course"
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for file in files:
        if (ROOT / file).is_file():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, root / file)
    folder = root / "solutions" / "01_sharding_basics"
    reader = Reader(
        root,
        folder / "01_sharding_basics.ipynb",
        root / "autograder" / "exercises" / "notebooks" / "nb01_sharding_basics.py",
        folder / "bank.py",
    )
    uv = Path(sys.executable).with_name("uv")
    for command in (
        f"{uv} venv -q --python {sys.executable} .venv",
        f"{uv} pip install -q -p .venv/bin/python -c requirements/lock.txt -e .[dev]",
    ):
        subprocess.run(command, shell=True, cwd=root, check=True)
    (root / ".venv" / "installed").touch()
    reader.follow(HERE)
    assert not reader.left()
    released = root / "course" / "01_sharding_basics" / "01_sharding_basics.ipynb"
    assert "Exercise 1.9: the second half" in released.read_text()


@pytest.mark.slow
def test_a_course_of_ones_own(tmp_path):
    folder = tmp_path / "solutions" / "01_heat"
    reader = Reader(
        tmp_path,
        folder / "01_heat.ipynb",
        tmp_path / "heat_course" / "exercises.py",
        folder / "bank.py",
    )
    reader.follow(ELSEWHERE)
    assert not reader.left()
    grading = tmp_path / "demo" / "grading"
    rows = (grading / "grades.csv").read_text("utf-8-sig").splitlines()[1:]
    assert [row.split(",")[3] for row in rows] == ["1.0", "0.0", "0.625", "0.0", ""]
    page = grading / "feedback" / "ben-typical-mistakes" / "01_heat" / "01_heat.html"
    assert "The right neighbours count, too." in page.read_text()


@pytest.mark.parametrize(
    ("exercise", "notebook", "said"),
    [
        ("1.1", "", "There is an exercise 1.1 already: Column strips."),
        ("one", "", "'one' is not the id of an exercise: that is two numbers such as 1.9"),
        ("77.1", "", "No notebook has an exercise whose id begins with '77'."),
        ("77.1", "77_nowhere", "There is no notebook '77_nowhere'. Say first which module"),
        ("1.99", "", "which is not in /"),
    ],
)
def test_where_no_stub_can_be_written_it_is_said_why(tmp_path, exercise, notebook, said):
    with pytest.raises(StubError, match=re.escape(said)):
        write_stubs(tmp_path, exercise, notebook)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(A, B)", "(\n    A,\n    B,\n    NEW,\n)"),
        ("A, B  # all", "(\n    A,\n    B,\n    NEW,\n)  # all"),
        ("()", "(\n    NEW,\n)"),
        ("(\n    # first\n    A,  # naïve\n    B,  # “last”\n)  # all",
         "(\n    # first\n    A,  # naïve\n    B,  # “last”\n    NEW,\n)  # all"),
        ("(\n    A,\n    B  # last, still\n    # more, later\n)",
         "(\n    A,\n    B,  # last, still\n    # more, later\n    NEW,\n)"),
        ("(A,  # one\n    f(\"é\", 2))", "(A,  # one\n    f(\"é\", 2),\n    NEW,\n)"),
        ("(  # none\n)", "(  # none\n    NEW,\n)"),
    ],
)  # fmt: skip
def test_a_stub_keeps_the_comments_of_its_module(before, after):
    source = (
        f"# Ünïcode\nfrom x import Exercise, PlacedLike\n\n# In order.\nEXERCISES: T = {before}\n"
    )
    written = exercise_stubs._with_exercise(source, "1.9", Path("x.py"))
    new = after.replace("NEW", "EXERCISE_1_9")
    assert written.endswith(f"\n# In order.\nEXERCISES: T = {new}\n")
    assert written.startswith("# Ünïcode\nfrom x import Exercise, PlacedLike\n\nEXERCISE_1_9")


def test_a_module_may_begin_with_its_tuple():
    written = exercise_stubs._with_exercise("# All.\nEXERCISES = ()\n", "1.9", Path("x.py"))
    assert written.startswith("from autograder.exercises import Exercise, PlacedLike\n\nEXERCISE_")
    assert written.endswith("\n# All.\nEXERCISES = (\n    EXERCISE_1_9,\n)\n")


def test_stubs_are_utf_8_and_an_earlier_file_is_whole_if_one_cannot_be_written(
    tmp_path, monkeypatch
):
    module = tmp_path / "exercises.py"
    before = "# “Ünïcode”\n\nEXERCISES = ()  # all\n"
    module.write_text(before, encoding="utf-8")
    notebook = "01_sharding_basics"
    bank = tmp_path / "solutions" / notebook / "bank.py"
    bank.parent.mkdir(parents=True)
    bank.write_text("# “Ünïcode”\n", encoding="utf-8")
    monkeypatch.setattr(exercise_stubs, "_find_module", lambda *_: module)

    def fill_the_disk(path, _):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fill_the_disk)
        with pytest.raises(OSError, match="No space left"):
            write_stubs(tmp_path, "1.99", notebook)
    assert module.read_text(encoding="utf-8") == before
    write_stubs(tmp_path, "1.99", notebook)
    for path in (module, bank):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# “Ünïcode”\n")
        assert "1.99" in text
    assert (bank.parent / f"{notebook}.ipynb").read_bytes().endswith(b"}\n")


def tried(tmp_path, text, exercise="", root=ROOT):
    path = tmp_path / "answer.py"
    path.write_text(text)
    console = Console(file=io.StringIO(), width=200)
    status = try_answers(root, console, path, exercise)
    assert isinstance(console.file, io.StringIO)
    return status, console.file.getvalue()


def test_an_answer_that_comes_back_otherwise_than_it_says_is_named(tmp_path):
    claimed = '# %% rows exercise="1.1" score=1\ncolumns = NamedSharding(line, P("x"))\n'
    status, said = tried(tmp_path, claimed)
    assert status == 1
    assert 'rows: the bank says otherwise. What comes back: score=0 diagnoses=["sharding' in said


def test_an_answer_that_raises_is_tried_all_the_same(tmp_path):
    status, said = tried(tmp_path, "columns = undefined\n", "1.1")
    assert status == 0
    assert "The cell raised NameError: name 'undefined' is not defined" in said
    assert "The cell that makes columns did not finish: NameError" in said  # as in a notebook
    assert explain_unfinished("columns", ...) == "", "the next answer would be told of it"


def test_an_answer_that_is_not_python_is_said_to_be_none(tmp_path):
    with pytest.raises(NothingToTryError, match=r"The cell of 1.1 cannot run.* SyntaxError: '\('"):
        tried(tmp_path, "columns = (\n", "1.1")
    _, said = tried(tmp_path, "columns = None\n", "1.1")
    assert "The cell that makes columns did not finish" not in said, "it was told of the last one"


def test_an_answer_that_exits_is_tried_all_the_same(tmp_path):
    status, said = tried(tmp_path, "raise SystemExit\n", "1.1")
    assert status == 0
    assert "The cell raised SystemExit" in said


def session_with(names):
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("rows = ...", metadata={"nbgrader": {"grade_id": "ex-1-1"}}),
            nbformat.v4.new_code_cell(
                "check('1.1', rows)", metadata={"nbgrader": {"grade_id": find("1.1").grade_id}}
            ),
        ]
    )
    return NotebookSession(notebook, names, {"ex-1-1": dict(names)})


def test_the_notebooks_functions_read_what_an_answer_assigns_as_in_a_class():
    names = {"specs": 1}
    exec("def read(): return specs", names)
    tried = session_with(names).answer("1.1", "specs = 2\nassert read() == 2", 0)
    assert tried.raised is None
    assert names["specs"] == 1


def test_an_answer_does_not_see_what_another_one_changed():
    names = {"specs": {"w": None}, "sizes": [1]}
    session = session_with(names)
    session.answer("1.1", "rows = specs.pop('w')\nspecs['v'] = 1\nsizes.append(2)", 0)
    assert names == {"specs": {"w": None}, "sizes": [1]}


def test_an_answer_does_not_see_what_later_cells_define_as_in_a_class(tmp_path):
    later = "mapped_w"  # 7.4's demonstration binds it, which stands below the exercise
    assert later in session_for("7.4").names
    _, said = tried(tmp_path, f"layouts = {later}\n", "7.4")
    assert "The cell raised NameError: name 'mapped_w' is not defined" in said


def test_what_cannot_be_tried_is_said(tmp_path):
    with pytest.raises(NothingToTryError, match=r"Nothing says which exercise .* answers: add ID="):
        tried(tmp_path, "x = 1\n")
    with pytest.raises(NothingToTryError, match="There is no code in"):
        tried(tmp_path, "\n", "1.1")
    with pytest.raises(NothingToTryError, match="cannot be read"):
        try_answers(ROOT, Console(), tmp_path / "nowhere.py", "1.1")


def test_a_notebook_whose_own_cell_raises_is_named(tmp_path):
    folder = tmp_path / "solutions" / "01_sharding_basics"
    folder.mkdir(parents=True)
    source = ROOT / "solutions" / "01_sharding_basics" / "01_sharding_basics.ipynb"
    notebook = json.loads(source.read_text())
    notebook["cells"][1]["source"] = "1 / 0"
    notebook["cells"][1]["id"] = "breaks"
    (folder / source.name).write_text(json.dumps(notebook))
    with pytest.raises(CellError, match=r"The cell 'breaks' of .* raised ZeroDivisionError"):
        tried(tmp_path, "columns = x\n", "1.1", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_compiled_loop_without_an_end_can_be_stopped(tmp_path, number):
    path = tmp_path / "answer.py"
    path.write_text(
        "print('begins', flush=True)\n"
        "made = lax.while_loop(lambda n: n > -1, lambda n: (n + 1) % 7, jnp.int32(0))\n"
        "made.block_until_ready()\n"
    )
    command = [sys.executable, "-m", "autograder.instructor", "try", path, "--exercise", "13.9"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert any("begins" in line for line in process.stdout or ())
            time.sleep(2)  # until it is compiled, and runs
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait(timeout=10) == -number
        finally:
            process.kill()
