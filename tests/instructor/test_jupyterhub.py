"""A class on a real JupyterHub, through nbgrader's exchange: `make test-hub`."""

import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import nbformat
import pytest

pytest.importorskip("jupyterhub", reason="there is no JupyterHub here: `make test-hub` installs it")
from autograder.instructor.authoring import fill_in_answers
from tests.conftest import ROOT
from tests.instructor import hub as hubs
from tests.instructor.hub import BIN, HAS_ACCOUNTS, Account, Hub, running_hub
from tests.instructor.room import ASSIGNMENT, RIGHT

pytestmark = pytest.mark.slow

ANSWERS = {"ann": ("1.1", "1.2"), "bo": ("1.1",)}
NOTEBOOK = f"{ASSIGNMENT}/{ASSIGNMENT}.ipynb"
MAKE = f"cd ~/shardlings && make -f {ROOT}/Makefile -o .venv/installed BIN={BIN}"

with_accounts = pytest.mark.skipif(
    not HAS_ACCOUNTS, reason="only root can give each student an account: run this as root, too"
)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """A hub on which two students submitted, and put into the exchange what they should not."""
    if problem := hubs.find_problem():
        pytest.skip(f"JupyterHub's accounts need a namespace of their own: {problem}")
    with running_hub() as hub:
        hub["teacher"].grade("POST", f"assignment/{ASSIGNMENT}/release")
        for student in ANSWERS:
            answer_and_submit(hub, student)
        yield hub


def answer_and_submit(hub: Hub, student: str) -> None:
    account = hub[student]
    account.click("fetch")
    notebook = nbformat.from_dict(account.own("GET", f"api/contents/{NOTEBOOK}")["content"])
    notebook = fill_in_answers(notebook, {id: RIGHT[id] for id in ANSWERS[student]})
    file = {"type": "notebook", "content": notebook}
    account.own("PUT", f"api/contents/{NOTEBOOK}", json=file)
    account.click("submit")


@pytest.fixture(scope="module")
def attacked(hub: Hub) -> str:
    """The output of collecting after a student attacked the exchange."""
    solution = f"{hub.room.root}/solutions/{ASSIGNMENT}"
    anns = next(hub.inbound.glob("ann+*"))
    for command in (
        f"ln -s {solution} '{hub.inbound}/bo+{ASSIGNMENT}+2099-01-01 00:00:00 UTC+link'",
        f"ln -s '{anns}' '{hub.inbound}/bo+{ASSIGNMENT}+2099-01-02 00:00:00 UTC+anns'",
        f"cp -r ~/{ASSIGNMENT} '{hub.inbound}/bo+{ASSIGNMENT}+yesterday+name'",
        f"cp -r ~/{ASSIGNMENT} '{hub.inbound}/ann+{ASSIGNMENT}+2099-01-01 00:00:00 UTC+forged'",
    ):
        if HAS_ACCOUNTS or "forged" not in command:
            assert hub["bo"].type(command)[0] == 0
    log: str = hub["helper"].grade("POST", f"assignment/{ASSIGNMENT}/collect")["log"]
    return log


class Graded(NamedTuple):
    """A graded class: each student's score, and the page that the teacher has for them."""

    hub: Hub
    scores: dict[str, float]
    pages: dict[str, str]


@pytest.fixture(scope="module")
def graded(hub: Hub, attacked: str) -> Graded:
    """The class, graded in a terminal, whose feedback everybody fetched."""
    for command in ("grade", "feedback RELEASE=1"):
        make(hub, command)
    for student in ANSWERS:
        hub[student].click("fetch_feedback")
    return Graded(hub, read_scores(hub), {name: read_page(hub, name) for name in ANSWERS})


def make(hub: Hub, command: str) -> None:
    """Run a command of make in the teacher's terminal."""
    status, printed = hub["teacher"].type(f"{MAKE} {command}")
    assert status == 0, printed


def read_scores(hub: Hub) -> dict[str, float]:
    with (hub.room.root / "grading" / "grades.csv").open(encoding="utf-8-sig") as lines:
        return {row["student"]: float(row["score"]) for row in csv.DictReader(lines)}


def read_page(hub: Hub, student: str) -> str:
    folder = hub.room.root / "grading" / "feedback" / student / ASSIGNMENT
    return (folder / f"{ASSIGNMENT}.html").read_text()


def test_students_validate_on_the_hub(hub):
    assert not hub["ann"].click("validate", path=NOTEBOOK)
    (failed,) = hub["bo"].click("validate", path=NOTEBOOK)["failed"]
    assert "1.2" in failed["source"]


def test_links_are_refused_and_the_earlier_submission_is_collected(hub, attacked):
    for name in ("link", "anns"):
        refused = next(line for line in attacked.splitlines() if f"+{name} was not" in line)
        assert "is a link. Hand in the file itself" in refused
    assert "+name was not collected: `nbgrader submit` names folders differently" in attacked
    collected = hub.room.root / "grading" / "submitted" / "bo" / ASSIGNMENT
    text = (collected / f"{ASSIGNMENT}.ipynb").read_text()
    own = next(p for p in hub.inbound.glob("bo+*UTC+*") if not p.is_symlink())
    assert text == (own / f"{ASSIGNMENT}.ipynb").read_text()


@with_accounts
def test_nobody_submits_for_somebody_else(hub, attacked):
    assert "+forged was not collected: its owner is not ann." in attacked
    assert next(hub.inbound.glob("ann+*+forged")).exists()


def test_times_are_those_of_the_exchanges_file_system(hub, attacked):
    path = hub.room.root / "grading" / "collected_times.json"
    for assignments in json.loads(path.read_bytes()).values():
        time = datetime.fromisoformat(assignments[ASSIGNMENT]["time"])
        assert timedelta() <= datetime.now(UTC) - time < timedelta(minutes=30)


def test_make_grade_grades_what_was_collected(graded):
    assert graded.scores == {"ann": 2, "bo": 1}


def test_each_student_reads_exactly_their_own_feedback(graded):
    assert graded.pages["ann"] != graded.pages["bo"]
    for student, page in graded.pages.items():
        assert read_feedback(graded.hub, student) == [page]


def read_feedback(hub: Hub, student: str) -> list[str]:
    """All the feedback in a student's home."""
    account, folder = hub[student], f"api/contents/{ASSIGNMENT}/feedback"
    times = [entry["path"] for entry in account.own("GET", folder)["content"]]
    files = [f for path in times for f in account.own("GET", f"api/contents/{path}")["content"]]
    return [account.own("GET", f"api/contents/{file['path']}")["content"] for file in files]


@with_accounts
def test_students_see_neither_each_others_work_nor_the_teachers(graded):
    hub = graded.hub
    released = hub.base / "exchange" / "shardlings" / "feedback"
    for folder in (released, hub.inbound, hub.base / "home" / "ann", hub.room.root):
        status, printed = hub["bo"].type(f"ls '{folder}'")
        assert status != 0
        assert "Permission denied" in printed


def test_only_graders_get_into_formgrader_and_only_owners_into_a_server(hub):
    formgrader = "services/formgrader/formgrader"
    assert "<title>nbgrader formgrade" in hub["helper"].ask("GET", formgrader).text
    for path in (formgrader, "user/ann/api/contents"):
        assert hub["bo"].ask("GET", path).status_code == 403


def test_names_that_differ_only_in_case_are_one_account(hub):
    assert hub["Ann"].name == "ann"


def test_two_graders_and_make_grade_work_at_once(graded):
    hub = graded.hub
    books = hub["teacher"].grade("GET", f"submitted_notebooks/{ASSIGNMENT}/{ASSIGNMENT}")
    ids = {book["student"]: book["id"] for book in books}
    with ThreadPoolExecutor() as pool:
        tasks = [pool.submit(make, hub, "grade AGAIN=1")]
        for score in (0.1, 0.2, 0.3, 0.4, 0.5):
            tasks += [
                pool.submit(correct, hub[grader], ids[student], score)
                for grader, student in (("teacher", "ann"), ("helper", "bo"))
            ]
            wait(tasks[1:])
    for task in tasks:
        task.result()
    make(hub, "grade")
    assert read_scores(hub) == {"ann": 1, "bo": 1}
    assert "Seen by teacher" in read_page(hub, "ann")
    assert "Seen by helper" in read_page(hub, "bo")


def correct(grader: Account, notebook: str, score: float) -> None:
    """Enter a score for each graded cell in Formgrader, and comment on each answer."""
    which = {"submission_id": notebook}
    for grade in grader.grade("GET", "grades", params=which):
        entered = {"manual_score": score, "extra_credit": 0}
        grader.grade("PUT", f"grade/{grade['id']}", json=entered)
    for comment in grader.grade("GET", "comments", params=which):
        said = {"manual_comment": f"Seen by {grader.name}"}
        grader.grade("PUT", f"comment/{comment['id']}", json=said)
