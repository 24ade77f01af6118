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
    Plan,
    ResultsPlan,
    capture,
    give_plans,
    plans,
    told,
)
from autograder.exercises import (
    EXERCISES,
    CommunicatesAtMost,
    Exercise,
    Predicts,
    Returns,
    find,
)
from tests.conftest import ROOT


def test_a_plan_travels_and_says_nothing_of_what_is_right(subtests):
    for exercise in EXERCISES.values():
        with subtests.test(exercise.id):
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
                picture = getattr(requirement, "picture", "")
                assert not picture or json.dumps(picture) not in text


def test_cases_are_called_with_as_they_were_drawn(subtests):
    for exercise in EXERCISES.values():
        with subtests.test(exercise.id):
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


def test_a_kernel_is_given_its_plans_as_plain_data(monkeypatch):
    assert told() is None
    monkeypatch.setattr(plans, "_given", None)  # and so it is afterwards
    sent = msgspec.json.encode([find(i).plan(5) for i in ("1.1", "1.7", "3.1")])
    give_plans(msgspec.json.decode(sent, type=list[Plan]))
    known = told()
    assert known is not None
    assert list(known) == ["1.1", "1.7", "3.1"]
    assert known["3.1"] == find("3.1").plan(5)
    answers = {"turned": lambda x: jax.numpy.sin(x)}
    there, here = capture(known["3.1"], answers), capture(find("3.1").plan(5), answers)
    assert type(there.answers["turned"]) is type(here.answers["turned"])


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
