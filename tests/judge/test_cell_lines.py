"""Lines of cells: each is quoted from the cell whose code raised, as it was when it ran."""

import jax.numpy as jnp
import pytest

from autograder.evidence import unfinished_cells
from autograder.evidence.unfinished_cells import watch_cells
from shardlings.errors.cell_lines import line_in_cell

pytest.importorskip("IPython")

HELPER = "# a helper\n\n\n\ndef on(*axes):\n    return jax.NamedSharding(grid, P(*axes))\n"
SETUP = (
    "from autograder import check\nimport jax\nfrom jax import P\n"
    "grid = jax.make_mesh((4, 2), ('x', 'y'))"
)
MISTYPED = 'layout = (on("y"), on("z", "x"), on(("x", "y")))'
ANSWER = "def f(x):\n    y = x + 1\n    return helper(y)\n"


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs a cell in a new IPython and returns what it printed."""
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
    """Return a function that calls one in the notebook and returns where it raised an error."""
    from IPython.core.getipython import get_ipython

    def where(name):
        function = get_ipython().user_ns[name]
        try:
            function(jnp.ones(3))
        except Exception as error:
            raised = error
        return line_in_cell(raised, function)

    return where


def test_an_unfinished_cell_is_reported_with_its_own_line(run):
    run(HELPER)
    run(MISTYPED)
    printed = run('check("4.8", layout)')
    assert (
        f"(line 1 of the cell: `{MISTYPED}`, which led to on, line 6 of another cell: `" in printed
    )
    assert "line 6 of the cell" not in printed


def test_an_error_in_a_helper_is_reported_with_the_line_that_called_it(run, where):
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


def test_an_edited_cell_is_quoted_as_it_was_run_last(run, where):
    run("def helper(x):\n    return x.nothing\n")
    run(ANSWER)
    run("# now it is\n# longer\ndef helper(x):\n    return x.neither\n")
    assert "helper, line 4 of another cell: `return x.neither`" in where("f")
    run(f"# a comment\n{ANSWER}")
    assert where("f").startswith("line 4 of the cell: `return helper(y)`")


def test_cells_that_share_a_file_name_get_no_line(run, where):
    run("%%time\ndef helper(x):\n    return x.nothing\n")
    run(ANSWER)
    assert where("f") == "line 3 of the cell: `return helper(y)`"
    run(f"%%time\n{ANSWER}")
    assert where("f") == ""
    run("%%time\ncolumns = undefined")
    printed = run('check("1.1", columns)')
    assert "did not finish: NameError: name 'undefined' is not defined." in printed


def test_only_the_learners_lines_are_quoted(run, where):
    run("f = jax.numpy.linalg.inv")
    assert where("f") == ""
    run("def g(x, y):\n    return x.nothing\n\nimport functools\nf = functools.partial(g, y=1)")
    assert where("f") == "line 2 of the cell: `return x.nothing`"
    run("class F:\n    def __call__(self, x):\n        return x.nothing\n\nf = F()")
    assert where("f") == "line 3 of the cell: `return x.nothing`"


def test_an_instruction_without_a_line_is_passed_over(run, where):
    run(ANSWER)
    run(
        "def helper(x):\n    return x.nothing\n\n"
        "def without_lines(function):\n    code = function.__code__\n"
        "    function.__code__ = code.replace(co_linetable=b'\\xff' * len(code.co_code))\n\n"
        "without_lines(helper)"
    )
    assert where("helper") == ""
    assert where("f") == "line 3 of the cell: `return helper(y)`"


def test_a_function_that_wraps_itself_has_no_line():
    def f(x):
        return x

    f.__wrapped__ = f  # type: ignore[attr-defined]
    assert line_in_cell(ValueError(), f) == ""


def test_a_syntax_error_in_evaluated_text_is_not_one_of_the_cell(run):
    run("text = 'P(('\n\ncolumns = eval(text)")
    printed = run('check("1.1", columns)')
    assert "(line 3 of the cell: `columns = eval(text)`)" in printed
    assert "in line 1" not in printed


def test_blank_lines_at_the_top_are_counted_as_in_an_editor(run, where):
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


def test_a_function_that_a_cell_made_is_said_to_be_of_that_cell(run, where):
    run("def make(layers):\n    def f(x):\n        return x + layers['q']\n    return f")
    run("f = make({})")
    assert where("f") == "line 3 of the cell with make: `return x + layers['q']`"
