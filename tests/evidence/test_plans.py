"""Plans: plain data that says what becomes of an answer, and nothing of what is right."""

import json
import os
import subprocess
import sys

import jax
import msgspec
import numpy as np
import pytest

from autograder.devices import environment
from autograder.evidence import (
    PLANS_VARIABLE,
    Plan,
    PlansError,
    ResultsPlan,
    capture,
    plans,
    told,
    write_plans,
)
from autograder.exercises import (
    EXERCISES,
    CommunicatesAtMost,
    Exercise,
    Predicts,
    Returns,
    find,
    pictured,
)
from tests.conftest import ROOT


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_a_plan_travels_and_says_nothing_of_what_is_right(exercise):
    plan = exercise.plan(7)
    written = msgspec.json.encode(plan)
    assert msgspec.json.decode(written, type=Plan) == plan
    assert len(written) < 20_000
    assert tuple(plan.answers) == exercise.answers
    text = written.decode()
    lessons = (exercise.title, *exercise.hints, *exercise.diagnoses.values())
    assert not [words for words in lessons if words in text]
    for requirement in exercise.requirements:
        if isinstance(requirement, Predicts):
            assert json.loads(text)["answers"][requirement.answer] == {"type": "table"}
        drawn = pictured(requirement)
        assert drawn is None or json.dumps(drawn.picture) not in text


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_cases_are_called_with_as_they_were_drawn(exercise):
    for requirement in exercise.requirements:
        if isinstance(requirement, Returns):
            plan = exercise.plan(7).answers[requirement.answer]
            assert isinstance(plan, ResultsPlan)
            drawn = list(requirement.cases(exercise.generator(7)))
            assert repr(plan.cases) == repr(drawn)  # tuples are tuples


def test_a_case_that_is_no_plain_data_is_refused():
    for cases in ([(np.float32(1),)], [(np.arange(3),)], [(object(),)], [(float("nan"),)]):
        with pytest.raises(TypeError, match="A case is made of numbers, strings, None"):
            ResultsPlan.of(cases)


def test_what_is_read_off_a_program_needs_somebody_to_have_one_exported():
    alone = Exercise("1.1", "t", (CommunicatesAtMost("answer", ((),)),), ("h",))
    with pytest.raises(TypeError, match="CommunicatesAtMost of answer needs a Computes of the"):
        alone.plan(1)


def test_a_kernel_is_told_its_plans_in_a_file(tmp_path, monkeypatch):
    assert told() is None
    path = tmp_path / "plans.json"
    write_plans(path, [find(i).plan(5) for i in ("1.1", "1.7", "3.1")])
    monkeypatch.setenv(PLANS_VARIABLE, str(path))
    known = told()
    assert known is not None
    assert list(known) == ["1.1", "1.7", "3.1"]
    assert known["3.1"] == find("3.1").plan(5)
    answers = {"turned": lambda x: jax.numpy.sin(x)}
    there, here = capture(known["3.1"], answers), capture(find("3.1").plan(5), answers)
    assert type(there.answers["turned"]) is type(here.answers["turned"])


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "{}", '[{"exercise": 1}]', '[{"exercise": "1.1", "answers": {}, "more": 1}]',
     '[{"exercise": "1.1", "answers": {"a": {"type": "other"}}}]',
     '[{"exercise": "3.1", "answers": {"f": {"type": "program", "under_mesh": false, "arguments": '
     '[[{"shape": [8], "axes": [["x", 8]], "evil": 1}]]}}}]'],
)  # fmt: skip
def test_a_file_of_another_form_is_refused(tmp_path, monkeypatch, text):
    path = tmp_path / "plans.json"
    path.write_text(text)
    monkeypatch.setenv(PLANS_VARIABLE, str(path))
    with pytest.raises(
        PlansError, match=r"the plans in .* cannot be read, so nothing is handed in"
    ):
        told()


def test_a_file_that_is_too_large_or_gone_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "plans.json"
    path.write_text(" " * (plans.LARGEST + 1))
    monkeypatch.setenv(PLANS_VARIABLE, str(path))
    with pytest.raises(PlansError, match="It has more than 1,048,576 bytes"):
        told()
    monkeypatch.setenv(PLANS_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(PlansError, match="cannot be read"):
        told()


def test_what_grades_makes_plans_without_devices():
    """It has one device, and its JAX is not even started."""
    code = (
        "import jax\n"
        "from autograder.exercises import EXERCISES\n"
        "from autograder.judge import no_evidence\n"
        "for exercise in EXERCISES.values():\n"
        "    exercise.plan(3)\n"
        "    no_evidence(exercise, 'no-evidence', 'It was not run.')\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"  # refused once a backend runs
        "print(len(jax.devices()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={name: os.environ[name] for name in os.environ if name not in environment()},
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout == "3\n", done.stderr
