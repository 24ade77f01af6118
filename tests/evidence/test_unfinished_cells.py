"""Answers that a failed cell did not assign are reported, and not judged."""

import pytest

from autograder.evidence import unfinished_cells
from autograder.evidence.unfinished_cells import assigned_names, watch_cells

pytest.importorskip("IPython")


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs a cell in a new IPython shell, and returns what it printed."""
    monkeypatch.setattr(unfinished_cells, "_unfinished", {})
    monkeypatch.setenv("COLUMNS", "400")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    watch_cells()
    watch_cells()
    shell.run_cell("from autograder import check\nimport jax\nfrom jax import P, lax")
    shell.run_cell("line = jax.make_mesh((8,), ('x',))\nx = jax.numpy.ones((16, 16))")

    def run(source):
        capsys.readouterr()
        shell.run_cell(source)
        return " ".join(capsys.readouterr().out.split())

    yield run
    InteractiveShell.clear_instance()


RIGHT = "columns = ...\ncolumns = jax.device_put(x, jax.NamedSharding(line, P(None, 'x')))"
WRONG = "columns = ...\ncolumns = jax.device_put(x, jax.NamedSharding(line, P(None, 'z')))"
STOPPED = "1.1 Column strips: not yet The cell that makes columns did not finish: "


def test_a_value_from_before_the_failed_cell_is_not_judged(run):
    run(WRONG)
    said = run('check("1.1", columns)')
    assert STOPPED in said
    assert "(line 2 of the cell: `columns = jax.device_put(x, jax.Named" in said
    assert "Stuck?" not in said
    run(RIGHT)
    assert STOPPED not in run('check("1.1", columns)')
    run("columns = undefined")
    assert f"{STOPPED}NameError: name 'undefined' is not defined" in run('check("1.1", columns)')
    run("columns = = 3")
    assert f"{STOPPED}SyntaxError in line 1: invalid syntax." in run('check("1.1", columns)')
    assert STOPPED not in run('check("1.1", x)'), "it is another answer"


def test_an_answer_assigned_before_the_error_is_judged(run):
    run(f"{RIGHT}\nundefined")
    assert STOPPED not in run('check("1.1", columns)')


def test_an_undefined_answer_is_explained(run):
    run("columns = undefined")
    said = run('check("1.1", columns)')
    assert "columns is not defined. The cell that makes columns did not finish: NameErr" in said


def test_assigned_names_are_found_in_invalid_python():
    source = "a, b = 1, 2\nc: int = 3\ndef d(x):\n    e = 4\nclass F: pass\ng == 5\nh = = 6\n"
    assert assigned_names(source) == {"a", "b", "c", "d", "F", "h"}
