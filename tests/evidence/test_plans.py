"""Plans are plain data, and do not say which answers are right."""

import json
import os
import subprocess
import sys

import jax
import msgspec
import numpy as np
import pytest

from autograder.evidence import (
    Plan,
    ResultsPlan,
    capture,
    give_plans,
    known_plans,
    observe,
    plans,
)
from autograder.exercises import (
    EXERCISES,
    CommunicatesAtMost,
    Exercise,
    Predicts,
    Returns,
    find,
)
from shardlings.devices import environment
from tests.conftest import ROOT


def test_a_plan_survives_json_and_does_not_say_what_is_right(subtests):
    for exercise in EXERCISES.values():
        with subtests.test(exercise.id):
            plan = exercise.plan(7)
            encoded = msgspec.json.encode(plan)
            assert msgspec.json.decode(encoded, type=Plan) == plan
            assert len(encoded) < 20_000
            assert tuple(plan.answers) == exercise.answers
            text = encoded.decode()
            lessons = (exercise.title, *exercise.hints, *exercise.diagnoses.values())
            assert not [words for words in lessons if words in text]
            for requirement in exercise.requirements:
                if isinstance(requirement, Predicts):
                    assert json.loads(text)["answers"][requirement.answer] == {"type": "table"}
                picture = getattr(requirement, "picture", "")
                assert not picture or json.dumps(picture) not in text


def test_functions_are_called_with_the_sampled_cases(subtests):
    for exercise in EXERCISES.values():
        with subtests.test(exercise.id):
            for requirement in exercise.requirements:
                if isinstance(requirement, Returns):
                    plan = exercise.plan(7).answers[requirement.answer]
                    assert isinstance(plan, ResultsPlan)
                    sampled = list(requirement.cases(exercise.generator(7)))
                    assert repr(plan.cases) == repr(sampled)  # tuples are still tuples


def test_a_case_that_is_not_plain_data_is_refused():
    for cases in ([(np.float32(1),)], [(np.arange(3),)], [(object(),)], [(float("nan"),)]):
        with pytest.raises(TypeError, match="A case is made of numbers, strings, None"):
            ResultsPlan.of(cases)


def test_a_requirement_on_a_program_needs_one_that_exports_it():
    alone = Exercise("1.1", "t", (CommunicatesAtMost("answer", ((),)),), ("h",))
    with pytest.raises(TypeError, match="CommunicatesAtMost of answer needs a Computes of the"):
        alone.plan(1)


def test_a_kernel_is_given_its_plans_as_plain_data(monkeypatch):
    assert known_plans() is None
    monkeypatch.setattr(plans, "_given", None)  # it is None again after this test
    sent = msgspec.json.encode([find(i).plan(5) for i in ("1.1", "1.7", "3.1")])
    give_plans(msgspec.json.decode(sent, type=list[Plan]))
    known = known_plans()
    assert known is not None
    assert list(known) == ["1.1", "1.7", "3.1"]
    assert known["3.1"] == find("3.1").plan(5)
    answers = {"turned": lambda x: jax.numpy.sin(x)}
    in_kernel, here = capture(known["3.1"], answers), capture(find("3.1").plan(5), answers)
    assert type(in_kernel.answers["turned"]) is type(here.answers["turned"])


def test_the_grading_process_makes_plans_without_devices():
    """It does not start a JAX backend, so it does not matter that it has one device."""
    code = (
        "import jax\n"
        "from autograder.exercises import EXERCISES\n"
        "from autograder.judge import verdict_without_evidence\n"
        "for exercise in EXERCISES.values():\n"
        "    exercise.plan(3)\n"
        "    verdict_without_evidence(exercise, 'no-evidence', 'It was not run.')\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"  # refused once a backend runs
        "print(len(jax.devices()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={name: os.environ[name] for name in os.environ if name not in environment()},
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout == "3\n", done.stderr


def test_evidence_without_functions_for_several_processes_is_returned_unchanged():
    plan = find("1.1").plan(1)
    captured = capture(plan, {"columns": jax.numpy.ones((16, 16))})
    assert observe(plan, captured) == captured
