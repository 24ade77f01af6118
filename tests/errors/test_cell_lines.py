"""Lines of cells: each is looked up in the cell whose code raised, as that cell was when it ran."""

import jax.numpy as jnp
import pytest

from autograder.errors.cell_lines import line_in_cell
from autograder.evidence import unfinished_cells
from autograder.evidence.unfinished_cells import watch_cells

pytest.importorskip("IPython")

HELPER = "# a helper\n\n\n\ndef on(*axes):\n    return jax.NamedSharding(grid, P(*axes))\n"
SETUP = (
    "from autograder import check, programs\nimport jax\nfrom jax import P\n"
    "grid = jax.make_mesh((4, 2), ('x', 'y'))"
)
MISTYPED = 'layout = (on("y"), on("z", "x"), on(("x", "y")))'
ANSWER = "def f(x):\n    y = x + 1\n    return helper(y)\n"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a cell in an IPython of its own, which numbers its cells, and return what it printed."""
    monkeypatch.setattr(unfinished_cells, "_unfinished", {})
    monkeypatch.setenv("COLUMNS", "400")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    watch_cells()

    def run(source):
        capsys.readouterr()
        shell.run_cell(source, store_history=True)
        return " ".join(capsys.readouterr().out.split())

    run(SETUP)
    yield run
    InteractiveShell.clear_instance()


@pytest.fixture
def where():
    """The line that is named for an error in a function of the notebook."""
    from IPython.core.getipython import get_ipython

    def where(name):
        function = get_ipython().user_ns[name]
        try:
            function(jnp.ones(3))
        except Exception as error:
            return line_in_cell(error, function)
        raise AssertionError("it raised nothing")

    return where


def test_an_unfinished_cell_is_told_by_its_own_line(run):
    run(HELPER)
    run(MISTYPED)
    said = run('check("4.8", layout)')
    assert f"(line 1 of the cell: `{MISTYPED}`, which led to on, line 6 of another cell: `" in said
    assert "line 6 of the cell" not in said


def test_a_helper_of_another_cell_is_told_with_the_line_that_called_it(run, where):
    run("helper = lambda x: (\n    x.nothing\n)")
    run(f"\n{ANSWER}".lstrip("\n"))
    assert where("f") == (
        "line 3 of the cell: `return helper(y)`, which led to line 2 of another cell: `x.nothing`"
    )
    run("def helper(x):\n    return x.nothing\n")
    assert where("f") == (
        "line 3 of the cell: `return helper(y)`, which led to helper, line 2 of another cell: "
        "`return x.nothing`"
    )


def test_a_cell_that_was_edited_and_run_again_is_quoted_as_it_is_now(run, where):
    run("def helper(x):\n    return x.nothing\n")
    run(ANSWER)
    run("# now it is\n# longer\ndef helper(x):\n    return x.neither\n")
    assert "helper, line 4 of another cell: `return x.neither`" in where("f")
    run(f"# a comment\n{ANSWER}")
    assert where("f").startswith("line 4 of the cell: `return helper(y)`")


def test_cells_of_one_name_are_not_mistaken_for_each_other(run, where):
    run("%%time\ndef helper(x):\n    return x.nothing\n")
    run(ANSWER)
    assert where("f") == "line 3 of the cell: `return helper(y)`"
    run(f"%%time\n{ANSWER}")
    assert where("f") == ""
    run("%%time\ncolumns = undefined")
    said = run('check("1.1", columns)')
    assert "did not finish: NameError: name 'undefined' is not defined." in said


def test_a_librarys_own_lines_are_no_lines_of_a_cell(run, where):
    run("f = jax.numpy.linalg.inv")
    assert where("f") == ""
    run("def g(x, y):\n    return x.nothing\n\nimport functools\nf = functools.partial(g, y=1)")
    assert where("f") == "line 2 of the cell: `return x.nothing`"
    run("class F:\n    def __call__(self, x):\n        return x.nothing\n\nf = F()")
    assert where("f") == "line 3 of the cell: `return x.nothing`"


def test_what_wraps_itself_has_no_line():
    def f(x):
        return x

    f.__wrapped__ = f  # type: ignore[attr-defined]
    assert line_in_cell(ValueError(), f) == ""


def test_a_syntax_error_in_a_text_is_no_syntax_error_of_the_cell(run):
    run("text = 'P(('\n\ncolumns = eval(text)")
    said = run('check("1.1", columns)')
    assert "(line 3 of the cell: `columns = eval(text)`)" in said
    assert "in line 1" not in said


def test_blank_lines_at_the_top_count_as_in_an_editor(run, where):
    run(f"\n\n{ANSWER}")
    run("\ndef helper(x):\n    return x.nothing\n")
    assert where("f") == (
        "line 5 of the cell: `return helper(y)`, which led to helper, line 3 of another cell: "
        "`return x.nothing`"
    )
    run("\n\ncolumns = undefined")
    assert "(line 3 of the cell: `columns = undefined`)" in run('check("1.1", columns)')
    run("\ncolumns = = 3")
    assert "SyntaxError in line 2: invalid syntax" in run('check("1.1", columns)')
