"""The course lints itself: notebooks, exercises, twins, and what must not reach a student."""

import json
import re
import tomllib
from graphlib import TopologicalSorter

import jupytext
import nbformat
import pytest
import yaml

from autograder import course_packages
from autograder.exercises import EXERCISES, NOTEBOOKS
from tests.conftest import ROOT

SOLUTIONS = sorted((ROOT / "solutions").glob("*/*.ipynb"))
RELEASED = sorted((ROOT / "course").glob("*/*.ipynb"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def cells(path, kind="code"):
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == kind]


def grading(cell):
    return cell.metadata.get("nbgrader", {})


def name(path):
    return path.stem


def test_there_are_notebooks():
    assert [p.stem for p in SOLUTIONS] == [p.stem for p in RELEASED]
    assert [*NOTEBOOKS] == [p.stem for p in SOLUTIONS]


@pytest.mark.parametrize("path", [*SOLUTIONS, *RELEASED], ids=str)
def test_notebooks_are_valid_and_stripped(path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids))
    assert all(not re.fullmatch("[0-9a-f]{8}", i) for i in ids), "ids are made to stay"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_figures_are_narrow_enough_for_their_words_to_be_read_on_500_pixels():
    code = "\n".join(cell.source for path in SOLUTIONS for cell in cells(path))
    widths = [float(inches) for inches in re.findall(r"figsize=\(([\d.]+)", code)]
    assert len(widths) == code.count("plt.subplots(") + code.count("plt.figure(")
    assert max(widths) <= 5.2


@pytest.mark.parametrize("name", ["08_neural_networks", "12_large_models"])
def test_a_summary_is_printed_in_lines_that_fit_into_a_page_of_1000_pixels(name):
    """JupyterLab breaks the lines of `print` within words, from about 90 characters on."""
    text = (ROOT / "solutions" / name / f"{name}.md").read_text()
    assert re.findall(r"print\(.*\.summary\(\)[^.].*", text) == []


def test_an_exercise_has_the_same_title_in_its_prompt_as_in_verdicts_and_hints():
    text = "\n".join(cell.source for path in RELEASED for cell in cells(path, "markdown"))
    headings = dict(re.findall(r"(?m)^### Exercise (\S+): (.+)$", text))
    plain = {number: re.sub("[`*]", "", heading).lower() for number, heading in headings.items()}
    assert plain == {exercise.id: exercise.title.lower() for exercise in EXERCISES.values()}


@pytest.mark.parametrize("path", SOLUTIONS, ids=name)
def test_the_text_twin_is_in_step(path):
    def essence(notebook):
        return [(c.cell_type, c.source, c.metadata) for c in notebook.cells]

    twin = jupytext.read(path.with_suffix(".md"))
    assert essence(twin) == essence(nbformat.read(path, 4)), f"run `jupytext --sync {path}`"


@pytest.mark.parametrize("path", SOLUTIONS, ids=name)
def test_each_exercise_has_its_cells(path):
    graded = [grading(c) for c in cells(path) if grading(c).get("grade")]
    assert [g["grade_id"] for g in graded] == [e.grade_id for e in NOTEBOOKS.get(path.stem, ())]
    assert all(g["points"] > 0 and g["locked"] for g in graded)
    source = {grading(c).get("grade_id"): c.source for c in cells(path)}
    for exercise in NOTEBOOKS.get(path.stem, ()):
        answer = source[exercise.grade_id.removesuffix("-check")]
        assert "### BEGIN SOLUTION" in answer
        assert "### END SOLUTION" in answer
        assert re.match(rf'check\(\s*"{exercise.id}",\s', source[exercise.grade_id])
        everything = "\n".join(c.source for c in cells(path))
        assert (f'target("{exercise.id}")' in everything) == bool(exercise.targets())
        prose = "\n".join(c.source for c in cells(path, "markdown"))
        assert f"### Exercise {exercise.id}" in prose


@pytest.mark.parametrize("path", SOLUTIONS, ids=name)
def test_each_notebook_keeps_the_pattern(path):
    prose = "\n".join(c.source for c in cells(path, "markdown"))
    assert "## Remember" in prose
    assert "https://docs.jax.dev/" in prose
    assert re.search(r"\b(Explicit|Auto)\b", prose), "says which mode its meshes are in"
    first, second = cells(path)[:2]
    assert "%pip install" in first.source
    assert first.source.startswith("# @title "), "what Colab and JupyterLab show of a folded cell"
    folded = {"jupyter": {"source_hidden": True}, "cellView": "form", "_kg_hide-input": True}
    assert first.metadata == folded, "in JupyterLab, Colab and Kaggle"
    assert "emulate_devices(8)" in second.source
    code = "\n".join(c.source for c in cells(path))
    assert "%timeit" not in code, "emulated devices know nothing about time"


@pytest.mark.parametrize("path", RELEASED, ids=name)
def test_its_end_links_to_the_next_notebook(path):
    *_, next_step = cells(path, "markdown")[-1].source.split("\nNext: ")
    linked = re.findall(r"\]\((\.\./[^)]+)\)", next_step)
    assert linked
    assert all((path.parent / each).exists() for each in linked)
    number = RELEASED.index(path) + 1
    assert number == len(RELEASED) or (path.parent / linked[0]).resolve() == RELEASED[number]


def test_exercises_are_whole():
    for exercise in EXERCISES.values():
        assert len(exercise.hints) >= 3
        assert len(set(exercise.hints)) == len(exercise.hints)
        for words in (*exercise.hints, *exercise.lessons.values()):
            assert words.removesuffix(")").endswith((".", "?", "!")), words
    assert len({e.title for e in EXERCISES.values()}) == len(EXERCISES)
    assert all(e.id == i for i, e in EXERCISES.items())


def solutions():
    """Yield the code between each pair of a solution's marks."""
    for path in SOLUTIONS:
        for cell in cells(path):
            for part in cell.source.split("### BEGIN SOLUTION\n")[1:]:
                yield part.split("### END SOLUTION")[0]


def solution_lines():
    """Each line that only the solutions have."""
    for solution in solutions():
        for line in solution.splitlines():
            if len(line.strip()) > 20 and not line.startswith("def "):
                yield line.strip()


def test_no_solution_reaches_the_course():
    lines = list(solution_lines())
    assert len(lines) > 20
    files = [p for p in (ROOT / "course").rglob("*") if p.is_file()]
    assert {p.suffix for p in files} == {".ipynb"}, "nothing but notebooks is released"
    for path in files:
        text = path.read_text()
        assert "SOLUTION" not in text
        code = "\n".join(c.source for c in cells(path))
        for line in lines:
            assert line not in code, f"{path.name} has a line of a solution: {line}"


def test_no_solution_is_in_the_package_that_students_install():
    package = "\n".join(p.read_text() for p in (ROOT / "autograder").rglob("*.py"))
    squeezed = re.sub(r"\s", "", package)
    for solution in solutions():
        for statement in re.split(r"\n\n+", solution.strip()):
            assert re.sub(r"\s", "", statement) not in squeezed, statement


@pytest.mark.parametrize("path", RELEASED, ids=name)
def test_the_address_and_the_version_stand_in_one_place(path):
    address = PROJECT["project"]["urls"]["Repository"]
    text = path.read_text()
    assert not re.search(r"{{ *\w+ *}}", text)
    version = PROJECT["project"]["version"]
    assert json.dumps(f'repository, release = "{address}", "v{version}"')[1:-1] in text
    badge = (
        f"{address.removeprefix('https://github.com/')}/blob/main/course/{path.stem}/{path.name}"
    )
    assert badge in text
    tracked = [p for p in SOLUTIONS if address in p.read_text()]
    assert not tracked, "the solutions have a placeholder where the address goes"


def test_environment_yml_does_not_drift():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    listed = [d for d in environment["dependencies"] if isinstance(d, str)]
    (through_pip,) = (d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    assert through_pip == ["-c requirements/lock.txt", "-e .[dev]"], (
        "what pyproject.toml says is what conda's users get"
    )
    floor = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert f"python={floor}" in listed, "repo2docker reads no other way to name a version"
    assert environment["name"] == PROJECT["project"]["name"]


def test_what_the_course_asks_for_where_there_is_only_the_library_is_its_extra():
    extra = PROJECT["project"]["optional-dependencies"]["course"]
    assert {re.split("[<>=]", each)[0] for each in extra} == set(course_packages.NEEDED)


@pytest.mark.parametrize("lock", ["lock.txt", "oldest.txt"])
def test_the_locks_hold_what_the_project_asks_for(lock):
    pinned = dict(
        line.split(" ")[0].split("==")
        for line in (ROOT / "requirements" / lock).read_text().splitlines()
        if re.match(r"[a-z0-9-]+==", line)
    )
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = PROJECT["project"]["dependencies"] + extras["course"]
    if lock == "lock.txt":
        wanted += [each for each in extras["instructor"] if each != "shardlings[course]"]
    for requirement in wanted:
        assert re.split(r"[<>=~ ]", requirement)[0].lower() in pinned
    if lock == "oldest.txt":
        (floor,) = re.findall(r"jax>=([0-9.]+)", " ".join(wanted))
        assert pinned["jax"] == pinned["jaxlib"] == floor


def test_the_map_shows_which_notebook_needs_which():
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| `(\d\d)_\w+` \|.*\|([\d, ]*)\|[^|]*\|$", readme, re.MULTILINE)
    needs = {number: set(re.findall(r"\d\d", needed)) for number, needed in rows}
    assert needs.keys() == {path.stem[:2] for path in SOLUTIONS}
    everything = dict[str, set[str]]()
    for number in TopologicalSorter(needs).static_order():
        everything[number] = needs[number].union(*(everything[other] for other in needs[number]))
    # an arrow that follows from others is not drawn
    arrows = {
        (other, number)
        for number, others in needs.items()
        for other in others
        if not any(other in everything[third] for third in others)
    }
    drawn = re.findall(
        r'data-from="(\d\d)" data-to="(\d\d)"', (ROOT / "docs" / "pictures" / "map.svg").read_text()
    )
    assert sorted(drawn) == sorted(arrows)
