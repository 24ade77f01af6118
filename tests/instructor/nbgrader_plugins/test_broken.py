"""Damaged notebooks and odd answers: credit for the rest is kept."""

import json

import pytest

from tests.conftest import some_of
from tests.instructor.room import ASSIGNMENT, FULL, RIGHT, Classroom, edit

POINTS = {exercise: FULL[exercise] for exercise in ("1.1", "1.2", "1.7")}
"""The points of the exercises that are left in the notebook: two layouts, and one of functions."""

ODD = {
    # the exercise's own score for an odd answer to it; everything else is right
    "nothing_to_draw": ("1.1", "columns = jnp.zeros((0, 0))", 0),
    "random_key": ("1.2", "blocks = jax.random.key(0)", 0),
    "mesh_of_numbers": (
        "1.2",
        "blocks = NamedSharding(Mesh(np.arange(8).reshape(2, 4), ('x', 'y')), P('x', 'y'))",
        0,
    ),
    "axes_named_by_numbers": (
        "1.2",
        "blocks = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4), (5, 6)), P(5, 6))",
        1,
    ),
    "strange_strings": ("1.7", "def holders(*_):\n    return '\\udce9', 10**400, object()", 2),
    "holds_itself": ("1.7", "def holders(*_):\n    a = []\n    a.append(a)\n    return a", 2),
}
CHANGES_ITS_ARGUMENTS = """
of_a_copy = bytes_total
def bytes_total(shape, itemsize, spec, axes):
    found = of_a_copy(shape, itemsize, spec, dict(axes))
    axes.clear()
    return found
"""
DIES = "import os\nos._exit(1)"
FORGED = """
from IPython.display import display
def forge(*_):
    odd = {"type": "value", "value": [{"returned": [1]}] + [7] * 9}
    display({"application/vnd.shardlings.evidence+json": {"exercise": "1.7", "answers": {
        "shard_shape": odd, "bytes_total": odd, "holders": odd}}}, raw=True)
get_ipython().events.register("post_run_cell", forge)
"""


def about(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def duplicate(name):
    def change(notebook):
        place = next(i for i, cell in enumerate(notebook["cells"]) if about(cell) == name)
        copied = json.loads(json.dumps(notebook["cells"][place]))
        notebook["cells"].insert(place, {**copied, "id": "pasted"})

    return change


def delete(*names):
    def change(notebook):
        notebook["cells"] = [cell for cell in notebook["cells"] if about(cell) not in names]

    return change


def strip(notebook):
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def strip_and_renumber(notebook):
    strip(notebook)
    for i, cell in enumerate(notebook["cells"]):
        cell["id"] = f"cell-{i}"


def foreign(name):
    def change(notebook):
        notebook["cells"].append(
            {
                "cell_type": "code", "id": "foreign", "source": "pass", "outputs": [],
                "execution_count": None,
                "metadata": {"nbgrader": {"grade_id": name, "grade": True, "points": 5}},
            }
        )  # fmt: skip

    return change


EDITS = {
    "check_twice": (duplicate("ex-1-2-check"), set()),
    "answer_twice": (duplicate("ex-1-2"), set()),
    "check_deleted": (delete("ex-1-2-check"), set()),
    "both_deleted": (delete("ex-1-2", "ex-1-2-check"), {"1.2"}),
    "foreign_cell": (foreign("somebody-elses"), set()),
    "list_for_a_name": (foreign(["a"]), set()),
    "metadata_stripped": (strip, set()),
    "ids_lost_too": (strip_and_renumber, set()),
}


SOME_ODD, SOME_EDITS = some_of(list(ODD)), some_of(list(EDITS))


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """The accidents in one class."""
    root, others = tmp_path_factory.mktemp("course"), ("1.3", "1.4", "1.5", "1.6")
    room = Classroom.at(root, until="1.7", without=others, calibrated=False)
    room.grade_uncalibrated()
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    for name in SOME_ODD:
        exercise, code, _ = ODD[name]
        room.hand_in(name, {**RIGHT, exercise: f"{RIGHT[exercise]}\n{code}"})
    for name in SOME_EDITS:
        change, _ = EDITS[name]
        edit(room.hand_in(name, RIGHT), change)
    room.hand_in(
        "changes_its_arguments", {**RIGHT, "1.7": f"{RIGHT['1.7']}\n{CHANGES_ITS_ARGUMENTS}"}
    )
    room.hand_in("dies", {**RIGHT, "1.7": DIES})
    room.hand_in("forged", {k: v for k, v in RIGHT.items() if k != "1.7"}, first=FORGED)
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    return room


@pytest.mark.parametrize("name", SOME_ODD)
def test_an_odd_answer_costs_itself_alone(room, name):
    exercise, _, score = ODD[name]
    assert room.scores()[name] == {**POINTS, exercise: score}


@pytest.mark.parametrize("name", SOME_EDITS)
def test_an_edited_notebook_keeps_what_credit_can_be_had(room, name):
    _, lost = EDITS[name]
    assert room.scores()[name] == {**POINTS, **dict.fromkeys(lost, 0)}


def test_a_function_may_change_what_it_is_given(room):
    assert room.scores()["changes_its_arguments"] == POINTS


def test_what_was_handed_in_before_the_kernel_died_is_judged(room):
    assert room.scores()["dies"] == {**POINTS, "1.7": 0}
    assert "The kernel died before this check ran" in room.verdicts("dies")["ex-1-7-check"]


def test_a_forged_list_of_results_is_a_verdict(room):
    assert room.scores()["forged"] == {**POINTS, "1.7": 0}
