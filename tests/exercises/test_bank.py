"""Every known answer comes back with its score and diagnosis, in the kernel and from the judge."""

import ast
import builtins
import importlib.util
import json
import re
from dataclasses import replace

import msgspec
import nbformat
import pytest

from autograder.exercises import EXERCISES, NOTEBOOKS, Computes
from autograder.instructor.authoring import NotebookSession, bank
from autograder.instructor.authoring.exercise_stubs import find_cell
from autograder.instructor.sandbox import Case, Sandbox, judge_in_sandbox
from autograder.instructor.sandbox.judge_process import JUDGE_CPU_SECONDS
from autograder.judge import Mistake, Verdict, headline, list_sentences, verdict_as_text
from autograder.judge.diagnoses import list_generalisations
from shardlings.programs import compile_and_report
from shardlings.programs.compiled import count_flops as work
from shardlings.programs.compiled import read_collectives, read_executable
from tests.conftest import ROOT, SHARE, some_of
from tests.exercises.solutions import BANKS, session_at, solution_of, try_known_answer
from tests.shardlings.programs.hlo_text import program_of_text

SEED = 20260101

# a notebook's whole bank is judged twice before the first test of it, and some banks are long
pytestmark = pytest.mark.timeout(2400)


GRADES = importlib.util.find_spec("nbgrader") is not None
"""nbgrader is installed, so classes can be graded here."""

EVERY = 1 if GRADES and SHARE == 1 else 4
"""One of so many known answers that are tried is judged by the clean judge too."""


DISAGREEMENTS: list[str] = []
"""Compiled programs whose serialised module and text differ."""


def read_in_both_ways(executable):
    """Replace `read_executable`, and read the program's text, too."""
    program = read_executable(executable)
    (module,) = executable.hlo_modules()
    written = program_of_text(module.to_string())
    # the reader of text knows no convolutions
    counted = not any(i.convolution for c in program.computations.values() for i in c.values())
    one, other = read_collectives(program), read_collectives(written)
    if not counted:
        one, other = ([replace(c, work_before=0) for c in each] for each in (one, other))
    if one != other or (counted and work(program) != work(written)):
        DISAGREEMENTS.append(module.to_string())
    return program


@pytest.fixture(scope="module", params=NOTEBOOKS)
def verdicts(request):
    """One notebook's known answers, each with the kernel's verdict and the clean judge's."""
    session = session_at(request.param)
    known = some_of(list(enumerate(BANKS[request.param])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_and_report, "read_executable", read_in_both_ways)
        answered = [try_known_answer(session, entry, SEED + place) for place, entry in known]
    cases = {
        # through JSON, as evidence travels
        i: Case(entry.exercise, json.loads(json.dumps(handed_in)), SEED + place)
        for i, ((place, entry), (_, handed_in)) in enumerate(zip(known, answered, strict=True))
        if i % EVERY == 0
    }
    # each is an answer of a submission of its own, and has as much time
    room = Sandbox(required=False)  # they are ours
    judged = judge_in_sandbox([*cases.values()], JUDGE_CPU_SECONDS * len(known), room)
    apart = dict(zip(cases, judged, strict=True))
    return [
        (entry, here, apart.get(i))
        for i, ((_, entry), (here, _)) in enumerate(zip(known, answered, strict=True))
    ]


def test_scores_and_diagnoses_are_as_the_bank_says(verdicts):
    wrong = [
        f"{entry.exercise} {entry.title}: {here.score:.3g} {here.diagnoses}, "
        f"and the bank says {entry.score:.3g} {entry.diagnoses}"
        for entry, here, _ in verdicts
        if not entry.agrees_with(here)
    ]
    assert not wrong, "\n".join(wrong)


def test_both_ways_of_reading_compiled_programs_agree(verdicts):
    assert verdicts
    assert not DISAGREEMENTS, DISAGREEMENTS[0]


NUMBER = re.compile(r"\d+\.\d+(?:e[+-]\d+)?")


def _read(verdict):
    """Return a verdict's words and its numbers, which vary because XLA adds in no fixed order."""
    sent = msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict)  # 1 becomes 1.0
    said = json.dumps(msgspec.to_builtins(sent))
    return NUMBER.sub("#", said), [float(each) for each in NUMBER.findall(said)]


def test_the_kernel_and_the_clean_judge_agree(verdicts):
    assert any(there is not None for _, _, there in verdicts)
    for entry, here, there in verdicts:
        if there is None:
            continue
        (said, numbers), (said_apart, numbers_apart) = _read(here), _read(there)
        assert said == said_apart, entry.title
        assert numbers == pytest.approx(numbers_apart, rel=1e-2), entry.title


def test_every_verdict_speaks_in_whole_sentences(verdicts):
    for entry, here, _ in verdicts:
        said = verdict_as_text(here)
        assert here.exercise in said
        assert here.title in said
        for finding in here.findings:
            # of a wrong prediction there need be no more to say than that it is wrong
            if not finding.met and (finding.difference or not finding.cell):
                assert finding.difference.removesuffix(")").endswith((".", "!", "?", "…")), (
                    entry.title
                )


LONGEST = 30
"""The most lines of a verdict in text. Pictures come after them, and are as large as they are."""


def test_every_verdict_names_one_cause_first_and_says_nothing_twice(verdicts):
    for entry, here, _ in verdicts:
        lines = [headline(here), *list_sentences(here)]
        # two functions may have the same marks, and the same mistake with other results
        said = [line for line in lines if line.endswith((".", "?")) and not line.startswith("  ")]
        twice = {line for line in said if said.count(line) > 1}
        assert not twice, (entry.title, twice)
        assert len(lines) <= LONGEST, entry.title
        causes = [
            f for f in here.findings if f.diagnosis not in ("", "unanswered", "not-counted-yet")
        ]
        if causes:
            named = [f for f in causes if f.difference in lines[1]]
            assert named, (entry.title, lines[1])
            assert len({f.answer for f in here.findings}) == 1 or named[0].answer in lines[1]
            assert sum(line.startswith("Expected: ") for line in lines) <= 1, entry.title


def test_who_has_it_right_is_told_something_worth_knowing(verdicts):
    told = {
        here.exercise: list_sentences(here)[-1] for _, here, _ in verdicts if here.state == "right"
    }
    assert all(line.startswith("Worth knowing: ") for line in told.values())
    assert len(set(told.values())) == len(told)


INTERNAL = re.compile(r"filled_in|autograder[./]|site-packages|NotCaptured|/work/|/tmp/|/home/")


def test_no_verdict_speaks_of_what_is_inside_of_the_autograder(verdicts):
    for entry, here, _ in verdicts:
        said = "\n".join(list_sentences(here))
        assert not INTERNAL.search(said), (entry.title, INTERNAL.search(said))


def names_set_in(code):
    """Return the names that code assigns, defines, imports or takes as arguments."""
    names = set()
    for node in ast.walk(ast.parse(re.sub(r"(?m)^( *)(?:%|\w+ = !).*", r"\1pass", code))):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_known_answers_use_only_names_that_the_notebook_has(name):
    notebook = nbformat.read(ROOT / "course" / name / f"{name}.ipynb", 4)
    known = {*dir(builtins), "display"}
    known |= {n for c in notebook.cells if c.cell_type == "code" for n in names_set_in(c.source)}
    unknown = {}
    for entry in BANKS[name]:
        used = {n.id for n in ast.walk(ast.parse(entry.code)) if isinstance(n, ast.Name)}
        if missing := used - names_set_in(entry.code) - known:
            unknown[entry.exercise, entry.title] = missing
    assert not unknown


@pytest.mark.skipif(GRADES, reason="make test-grading validates the notebooks")
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_solutions_are_right_on_each_version_of_jax(name):
    """They call functions that a notebook gives, which an entry of the bank need not do."""
    session, verdicts, answer = session_at(name), {}, ""
    for exercise in NOTEBOOKS[name]:
        given = find_cell(session.notebook, exercise.id).source
        # an exercise may use what one before it made
        answer += f"{given}\n{solution_of(exercise.id)}\n"
        verdicts[exercise.id] = session.answer(exercise.id, answer, SEED).verdict
    assert {i: v.diagnoses for i, v in verdicts.items() if v.score != 1} == {}


def test_each_exercise_has_wrong_answers_and_a_right_one_unlike_the_solution(subtests):
    known = [entry for entries in BANKS.values() for entry in entries]
    for exercise in EXERCISES:
        with subtests.test(exercise):
            mine = [entry for entry in known if entry.exercise == exercise]
            wrong = [entry for entry in mine if entry.score < 1]
            assert len(wrong) >= 3
            assert len({entry.diagnoses for entry in wrong}) >= 3
            assert any(entry.score == 1 for entry in mine)


def test_every_lesson_of_an_exercise_is_taught_to_some_known_answer():
    told = {
        (entry.exercise, name)
        for entries in BANKS.values()
        for entry in entries
        for diagnosis in entry.diagnoses
        for name in list_generalisations(diagnosis)  # such as a lesson about any axes
    }
    untold = [
        (exercise.id, diagnosis)
        for exercise in EXERCISES.values()
        for diagnosis in exercise.lessons
        if (exercise.id, diagnosis.rpartition(": ")[2]) not in told  # one answer's, or any
    ]
    assert not untold


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.id)
def test_no_diagnosis_has_two_lessons(exercise):
    told = set(exercise.diagnoses.items())
    for requirement in exercise.requirements:
        mistakes = requirement.explained.items()
        told |= {(n, made.says) for n, made in mistakes if isinstance(made, Mistake) and made.says}
    assert told == set(exercise.lessons.items())


def judged_by_more_than_values(exercise):
    """Check whether an exercise judges how a program computes its result."""
    by_answer = [[r for r in exercise.requirements if r.answer == a] for a in exercise.answers]
    return any(isinstance(r, Computes) for mine in by_answer if len(mine) > 1 for r in mine)


def test_right_values_alone_earn_a_third_at_most(subtests):
    naive = [entry for known in BANKS.values() for entry in known if entry.naive]
    for exercise in filter(judged_by_more_than_values, EXERCISES.values()):
        with subtests.test(exercise.id):
            scores = [entry.score for entry in naive if entry.exercise == exercise.id]
            assert scores
            assert max(scores) <= 1 / 3


NOTHING_IS_SAID_BY = ("unanswered", "not-counted-yet")
"""The diagnoses that have no sentence of their own."""


def test_for_each_diagnosis_there_is_a_near_miss():
    near, earned = set(), set()
    for entry in (entry for known in BANKS.values() for entry in known):
        assert not set(entry.near) & set(entry.diagnoses), entry.title
        near |= {(entry.exercise, name) for name in entry.near}
        earned |= set(entry.diagnoses)
    lessons = {(each.id, name) for each in EXERCISES.values() for name in each.lessons}
    # what the judge says of any exercise has its near miss in one, of whichever answer and axes
    somewhere = {name.rpartition(": ")[2].partition(" over ")[0] for _, name in near}
    in_general = {name.partition(" over ")[0] for name in earned} - set(NOTHING_IS_SAID_BY)
    assert not lessons - near
    assert not in_general - somewhere


def test_a_bank_that_lacks_something_says_so(tmp_path):
    path = tmp_path / "bank.py"
    path.write_text('# %% rows exercise="1.1"\ncolumns = x\n')
    with pytest.raises(bank.BankError, match="'rows' lacks score"):
        bank.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_released_notebook_runs_to_its_end_without_answers(name):
    """Known answers are tried on its definitions alone."""
    NotebookSession.at(ROOT / "course" / name / f"{name}.ipynb")
