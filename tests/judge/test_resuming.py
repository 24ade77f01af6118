"""Verdicts on training that was killed, from right, wrong and forged evidence."""

import numpy as np
import pytest

from autograder.evidence import Evidence, ProcessResult, Run, Runs, Value, from_json, to_json
from autograder.exercises import Exercise, Resumes, ResumesAfterTornWrites
from autograder.judge import judge, verdict_as_text
from autograder.processes import CaseArgument, Interruption, ProcessCase

RIGHT = np.array([9.0, 7, 5, 4, 2])
GIVEN = (CaseArgument("number", number=5),)
DIED = ProcessResult(why="died", sentence="It died.")
STOPPED = ProcessResult(why="stopped", sentence="It was stopped.")
CASES = tuple(
    ProcessCase(2, (("x", 8),), GIVEN, interruption=kill)
    for kill in (None, Interruption(3, 1), Interruption(3, 0, change=2))
)
ASKED = ("f", "the losses go on", lambda _: CASES, lambda _: RIGHT)
MISTAKES = {"anew": lambda case, first: RIGHT[: 5 - first]}
EXERCISE = Exercise(
    "11.8",
    "Resume",
    (Resumes(*ASKED, MISTAKES), ResumesAfterTornWrites(*ASKED, MISTAKES)),
    ("Think.",),
)


def returned(*losses):
    return (ProcessResult((Value([float(loss) for loss in losses]),)),) * 2


WHOLE = Run(returned(*RIGHT))
BETWEEN = Run(returned(*RIGHT[3:]), interrupted=(STOPPED, DIED))
TORN = Run(returned(*RIGHT[2:]), interrupted=(DIED, STOPPED))


def verdict(*runs):
    evidence = from_json(to_json(Evidence("11.8", {"f": Runs(runs)})))
    return judge(EXERCISE, evidence, 1)


def test_what_goes_on_is_right_with_at_most_one_step_made_again():
    assert verdict(WHOLE, BETWEEN, TORN).score == 1


def test_a_torn_checkpoint_leaves_half_of_the_points():
    run = Run(
        (ProcessResult(why="raised", sentence="EOFError."), STOPPED), interrupted=(DIED, STOPPED)
    )
    found = verdict(WHOLE, BETWEEN, run)
    assert (found.score, found.diagnoses) == (0.5, ("torn-checkpoint",))
    assert (
        "Process 0 of 2 was killed when it changed the folder for the 2nd time after it read batch "
        "2, or else when it read batch" in " ".join(verdict_as_text(found).split())
    )


RAISED = ProcessResult(why="raised", sentence="It raised an error.")


@pytest.mark.parametrize(
    ("results", "saved", "diagnosis", "words"),
    [
        ((RAISED, STOPPED), 9, "raised", "It raised an error."),
        ((RAISED, STOPPED), 0, "nothing-saved", "No file in the folder had any content"),
        ((STOPPED, STOPPED, RAISED, RAISED), 9, "new-processes", "4 processes read what 2 wrote"),
        (returned(4, 2), 101, "checkpoint-too-large", "101 bytes then; expected at most 100"),
    ],
)
def test_what_was_saved_explains_why_training_does_not_go_on(results, saved, diagnosis, words):
    kill = Interruption(3, 1, resumed_by=len(results))
    cases = (CASES[0], ProcessCase(2, (("x", 8),), GIVEN, interruption=kill))
    asked = ("f", "the losses go on", lambda _: cases, lambda _: RIGHT)
    exercise = Exercise("11.8", "Resume", (Resumes(*asked, max_saved_bytes=100),), ("Think.",))
    run = Run(results, interrupted=(STOPPED, DIED), saved_bytes=saved)
    found = judge(exercise, Evidence("11.8", {"f": Runs((WHOLE, run))}), 1)
    assert (found.score, found.diagnoses) == (0, (diagnosis,))
    assert words in " ".join(verdict_as_text(found).split())


@pytest.mark.parametrize(
    ("losses", "diagnosis"),
    [
        ((9, 7), "anew"),
        ((4, 3), "values"),
        (RIGHT, "other-number-of-losses"),
        (RIGHT[4:], "other-number-of-losses"),
        ((), "other-number-of-losses"),
    ],
)
def test_other_losses_after_a_kill_are_wrong(losses, diagnosis):
    found = verdict(WHOLE, Run(returned(*losses), interrupted=(STOPPED, DIED)), TORN)
    assert (found.score, found.diagnoses) == (0, (diagnosis, "not-counted-yet"))


def test_losses_after_a_rounded_checkpoint_are_wrong_and_the_step_that_differs_most_is_shown():
    rounded = Run(returned(4.0002, 2), interrupted=(STOPPED, DIED))
    found = verdict(WHOLE, rounded, TORN)
    assert found.diagnoses[0] == "values"
    text = " ".join(verdict_as_text(found).split())
    assert "The loss of step 3 is 4.0002; without the kill, it is 4." in text


def test_a_process_that_was_not_killed_proves_nothing():
    survived = Run(returned(*RIGHT[3:]), interrupted=returned(*RIGHT[:3]))
    assert verdict(WHOLE, survived, TORN).diagnoses[0] == "stops-early"
    returns = Run((), interrupted=returned(*RIGHT[:2]))
    assert verdict(WHOLE, returns).diagnoses[0] == "stops-early"


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (WHOLE,),
        (WHOLE, Run(returned(*RIGHT[3:]))),
        (WHOLE, Run(returned(*RIGHT[3:])[:1], interrupted=(STOPPED, DIED))),
        (WHOLE, Run((), interrupted=(DIED,))),
    ],
)
def test_evidence_that_capture_never_makes_is_refused(runs):
    found = verdict(*runs)
    assert found.fault is None
    assert (found.score, found.diagnoses[0]) == (0, "malformed")


def test_processes_that_disagree_are_told_so():
    two = (returned(4, 2)[0], returned(4, 3)[1])
    found = verdict(WHOLE, Run(two, interrupted=(STOPPED, DIED)))
    assert found.diagnoses[0] == "differs-between-processes"


def test_losses_that_are_not_finite_are_said_and_not_compared():
    results = returned(4, float("nan"))
    found = verdict(WHOLE, Run(results, interrupted=(STOPPED, DIED)), TORN)
    assert found.diagnoses[0] == "not-finite"
    assert "In process 0, loss 2 of 2 is nan." in " ".join(verdict_as_text(found).split())


def test_what_is_no_list_of_numbers_is_described():
    for part, words in ((Value(None), "returned None"), (Value(["a"]), "expected a list")):
        run = Run((ProcessResult((part,)),) * 2)
        assert words in " ".join(verdict_as_text(verdict(run)).split())


@pytest.mark.parametrize(
    ("losses", "diagnoses"),
    [
        (RIGHT[3:], ()),
        (RIGHT[2:], ("last-step-again",)),
        (RIGHT, ("other-number-of-losses",)),
    ],
)
def test_a_call_that_is_asked_for_more_steps_makes_none_again(losses, diagnoses):
    ends = ProcessCase(2, (("x", 8),), GIVEN, interruption=Interruption(3, process=None))
    asked = ("f", "the losses go on", lambda _: (CASES[0], ends), lambda _: RIGHT)
    exercise = Exercise("11.8", "Resume", (Resumes(*asked),), ("Think.",))
    run = Run(returned(*losses), interrupted=returned(*RIGHT[:3]))
    found = judge(exercise, Evidence("11.8", {"f": Runs((WHOLE, run))}), 1)
    assert found.diagnoses == diagnoses
    text = " ".join(verdict_as_text(found).split())
    assert ("The first call made 3 steps, and the second was asked for more." in text) == bool(
        diagnoses
    )


def test_a_first_call_that_fails_is_told_as_that():
    ends = ProcessCase(2, (("x", 8),), GIVEN, interruption=Interruption(3, process=None))
    asked = ("f", "the losses go on", lambda _: (CASES[0], ends), lambda _: RIGHT)
    exercise = Exercise("11.8", "Resume", (Resumes(*asked),), ("Think.",))
    run = Run((), interrupted=(STOPPED, RAISED))
    found = judge(exercise, Evidence("11.8", {"f": Runs((WHOLE, run))}), 1)
    assert found.diagnoses == ("raised",)
    assert "In process 1: It raised an error." in " ".join(verdict_as_text(found).split())
