"""Names are read by the platform's own grammar, and files keep theirs."""

import time
from pathlib import PurePosixPath

import pytest

from autograder.instructor.classroom import Person
from autograder.instructor.collecting.archives import (
    NOTEBOOK_NAME,
    Assigned,
    find_assignment,
)
from autograder.instructor.collecting.canvas import CanvasPlatform
from autograder.instructor.collecting.moodle import MoodlePlatform
from autograder.instructor.collecting.owners import OwnedFile, Owners
from autograder.instructor.collecting.platforms import NamePattern, parse_owner
from autograder.instructor.course import ClassRules
from tests.instructor.collecting.empty_class import FIRST, NOTEBOOK, SECOND, Class, packed

MOODLE = "{}_{}_assignsubmission_file/{}"


@pytest.fixture
def room(tmp_path, capsys, monkeypatch):
    """A class that nobody has handed in to."""
    monkeypatch.setenv("COLUMNS", "600")
    return Class(tmp_path, capsys)


def students(room):
    """Return the students who have handed in the first assignment, with what they have."""
    return {
        path.partition("/")[0]: text
        for path, text in room.there().items()
        if path.endswith(f"/{FIRST}/{FIRST}.ipynb")
    }


@pytest.mark.parametrize(
    "name", ["Participant", "Team Blue-Ann Lee", "Teilnehmer-in", "Nobody Here", "Bo Yun"]
)
def test_moodles_number_decides(room, name):
    room.roster(f"id,name,moodle_id_{FIRST}", "ann,Ann Lee,102", "bo,Bo Yun,103")
    room.collect(room.zipped({MOODLE.format(name, 102, f"{FIRST}.ipynb"): NOTEBOOK}))
    assert students(room) == {"ann": NOTEBOOK}


@pytest.mark.parametrize("name", ["…", "!!!", "-", "🦄", "\u0301", "( )"])
@pytest.mark.parametrize("in_roster", ["ann,-,", "ann,Ann Lee,-", "ann,? !,@", "ann,🦄,"])
def test_a_name_without_letters_or_digits_is_nobodys(room, name, in_roster):
    """Students choose the name that Moodle shows, and `-` in a roster says that none is known."""
    room.roster("id,name,email", in_roster, "bo,Bo Yun,bo@uni.edu")
    _, said = room.collect(
        room.zipped(
            {
                MOODLE.format(name, 4711, f"{FIRST}.ipynb"): NOTEBOOK,
                MOODLE.format("Bo Yun", 4712, f"{FIRST}.ipynb"): NOTEBOOK,
            }
        )
    )
    assert students(room) == {"bo": NOTEBOOK}
    assert "nobody in the roster is called" in said


def test_no_name_is_that_of_nobody():
    owners = Owners([Person("ann", name="-"), Person("bo", email="@")], ClassRules())
    assert owners.find_ids_named("") == set()
    assert owners.find_ids_named("-") == set()


def test_a_folder_may_be_an_id_without_letters_or_digits(room):
    room.roster("id,name", "!!!,Ann Lee", "bo,Bo Yun")
    room.collect(room.zipped({f"!!!/{FIRST}.ipynb": NOTEBOOK}))
    room.collect(room.zipped({f"class/!!!/{FIRST}.ipynb": NOTEBOOK}))
    assert students(room) == {"!!!": NOTEBOOK}


def test_a_number_of_another_assignment_does_not_decide_against_the_name(room):
    room.roster("id,name,nr", "ann,Ann Lee,102", "bo,Bo Yun,103")
    (room.root / "grading" / "class.toml").write_text('[moodle]\nid = "nr"\n')
    file = room.zipped({
        MOODLE.format("Participant", 102, f"{FIRST}.ipynb"): "ann",
        MOODLE.format("Ann Lee", 103, f"{FIRST}.ipynb"): "not bo",
    })  # fmt: skip
    _, said = room.collect(file)
    assert students(room) == {"ann": "ann"}
    assert (
        f"Ann Lee (Moodle's number 103) has the number of bo in grading/roster.csv, and the name "
        f"of ann. A column moodle_id_{FIRST} with this assignment's numbers would decide."
    ) in said


def test_the_numbers_of_two_assignments_are_told_apart(room):
    room.roster(f"id,name,moodle_id_{FIRST},moodle_id_{SECOND}", "ann,Ann Lee,1,2", "bo,Bo Yun,2,1")
    for assignment in (FIRST, SECOND):
        name = MOODLE.format("Participant", 1, f"{assignment}.ipynb")
        data = MOODLE.format("Participant", 1, "data.csv")
        room.collect(room.zipped({name: NOTEBOOK, data: "1"}))
    assert set(room.there()) == {
        f"ann/{FIRST}/{FIRST}.ipynb", f"ann/{FIRST}/data.csv",
        f"bo/{SECOND}/{SECOND}.ipynb", f"bo/{SECOND}/data.csv",
    }  # fmt: skip


def test_somebody_elses_number_is_said(room):
    room.roster(f"id,name,moodle_id_{FIRST}", "ann,Ann Lee,102")
    file = room.zipped({
        MOODLE.format("Ann Lee", 103, f"{FIRST}.ipynb"): "not ann",
        MOODLE.format("Participant", 104, f"{FIRST}.ipynb"): "nobody",
    })  # fmt: skip
    _, said = room.collect(file)
    assert room.there() == {}
    assert (
        "The name of Ann Lee (Moodle's number 103) is that of ann, whose number in the roster is "
        "102" in said
    )
    assert "nobody in the roster is called Participant (Moodle's number 104), or has this" in said


def test_the_columns_that_class_toml_names_have_the_numbers(room):
    room.roster("id,name,ours,theirs", "ann,Ann Lee,102,7")
    rules = '[moodle]\nid = "ours"\n[canvas]\nid = "theirs"\n'
    (room.root / "grading" / "class.toml").write_text(rules)
    room.collect(room.zipped({MOODLE.format("Participant", 102, f"{FIRST}.ipynb"): "1"}))
    assert students(room) == {"ann": "1"}
    room.collect(room.zipped({f"somebody_7_5_{FIRST}.ipynb": "2"}))
    assert students(room) == {"ann": "2"}


FILE = PurePosixPath("data.csv")


@pytest.mark.parametrize(
    "owned",
    [
        OwnedFile(MoodlePlatform(), "Participant", "", FILE, participant="7"),
        OwnedFile(CanvasPlatform(), "somebody", "7", FILE),
    ],
)
def test_a_column_may_have_the_numbers_of_any_platform(owned):
    people = [Person("ann", "Ann Lee", others={"lms_user_id": "7"}), Person("bo", "Bo Yun")]
    assert Owners(people, ClassRules()).id_of(owned, FIRST) == "ann"


def test_where_the_assignment_is_not_known_its_numbers_and_the_name_decide():
    rows = {"ann": ("Ann Lee", "1", "2"), "ana": ("Ann Lee", "3", "4"), "bo": ("Bo Yun", "2", "1")}
    columns = (f"moodle_id_{FIRST}", f"moodle_id_{SECOND}")
    people = [
        Person(id, name, others=dict(zip(columns, numbers, strict=True)))
        for id, (name, *numbers) in rows.items()
    ]
    owners = Owners(people, ClassRules())
    for name, number, student in (("Participant", "3", "ana"), ("Ann Lee", "1", "ann")):
        owned = OwnedFile(MoodlePlatform(), name, "", FILE, participant=number)
        assert owners.id_of(owned) == student


@pytest.mark.parametrize("has_roster", [False, True])
def test_canvas_gives_anonymous_names(room, has_roster):
    if has_roster:
        room.roster("id,name,canvas_id", "ann,Ann Lee,12345")
    _, said = room.collect(
        room.zipped({
            f"anon_Ab3Xz_500_{FIRST}.ipynb": "1",
            "anon_Ab3Xz_501_data.csv": "2",
            f"LATE_anon_9zzzz_502_{FIRST}-1.ipynb": "3",
            f"anon_12345_503_1_{FIRST}.ipynb": "4",
        })
    )  # fmt: skip
    assert room.there() == {
        f"anon_Ab3Xz/{FIRST}/{FIRST}.ipynb": "1",
        f"anon_Ab3Xz/{FIRST}/data.csv": "2",
        f"anon_9zzzz/{FIRST}/{FIRST}.ipynb": "3",
        f"anon_12345/{FIRST}/{FIRST}.ipynb": "4",
    }
    assert "late, as the platform says (1): anon_9zzzz" in said


NAMES = ("hw", "hw-2", "Lab", "lab", "01_sums")
KNOWN = {**dict(zip(NAMES, NAMES, strict=True)), "part_b": "hw"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("hw.ipynb", Assigned("hw", "hw")),
        ("hw-1.ipynb", Assigned("hw", "hw", 1)),
        ("hw (3).ipynb", Assigned("hw", "hw", 3)),
        ("hw-2.ipynb", Assigned("hw-2", "hw-2")),
        ("hw-2-1.ipynb", Assigned("hw-2", "hw-2", 1)),
        ("Hw.ipynb", Assigned("hw", "hw")),
        ("HW-1.IPYNB", Assigned("hw", "hw", 1)),
        ("Lab.ipynb", Assigned("Lab", "Lab")),
        ("LAB.ipynb", None),
        ("hw-Copy1.ipynb", Assigned("hw", "hw", is_backup=True)),
        ("hw - Copy (2).ipynb", Assigned("hw", "hw", is_backup=True)),
        ("hw copy 2.ipynb", Assigned("hw", "hw", is_backup=True)),
        ("hw.ipynb.txt", Assigned("hw", "hw")),
        ("hw.ipynb.json", Assigned("hw", "hw")),
        ("hw.ipynb \n", Assigned("hw", "hw")),
        ("hw .ipynb", Assigned("hw", "hw")),
        ("1_01_sums.ipynb", Assigned("01_sums", "01_sums")),
        ("1_hw.ipynb", Assigned("hw", "hw")),
        ("hw/answers.ipynb", Assigned("hw", "hw")),
        ("HW/answers.ipynb", Assigned("hw", "hw")),
        ("part_b.ipynb", Assigned("hw", "part_b")),
        ("part_b-1.ipynb", Assigned("hw", "part_b", 1)),
        ("hw/part_b.ipynb", Assigned("hw", "part_b")),
        ("part_b/answers.ipynb", None),
        ("answers.ipynb", None),
        ("hw3.ipynb", None),
    ],
)
def test_the_assignment_is_in_the_name(name, found):
    assert NOTEBOOK_NAME.fullmatch(name)
    assert find_assignment(PurePosixPath(name), KNOWN) == found


FILES = {
    "both names": ({"data.csv": "1", "data-1.csv": "2"}, ["data.csv", "data-1.csv"]),
    "folders": ({"a/data.csv": "1", "b/data.csv": "2"}, ["a/data.csv", "b/data.csv"]),
    "copies": ({"data (1).csv": "1", "data copy.csv": "2"}, ["data (1).csv", "data copy.csv"]),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "prefix", ["Ann_1_assignsubmission_file_/", "ann/", f"ann/{FIRST}/", "ann/x.y/"]
)
def test_other_files_keep_their_names_and_their_folders_beside_the_notebook(room, name, prefix):
    files, there = FILES[name]
    named = {f"{prefix}{file}": text for file, text in files.items()}
    room.collect(room.zipped({f"{prefix}{FIRST}.ipynb": NOTEBOOK, **named}))
    found = {path.partition(f"/{FIRST}/")[2]: text for path, text in room.there().items()}
    assert found == {f"{FIRST}.ipynb": NOTEBOOK, **dict(zip(there, files.values(), strict=True))}


def test_files_that_would_have_one_name_are_refused_and_none_is_overwritten(room):
    work = packed({"data.csv": "2", f"{FIRST}.ipynb": NOTEBOOK})
    _, said = room.collect(
        room.zipped({
            f"a_1_5_{FIRST}.ipynb": NOTEBOOK,
            "a_1_6_data.csv": "1",
            "a_1_7_Data.csv": "2",
            "b_2_8_work.zip": work,
            "b_2_9_x.y.zip": packed({"z/1.csv": "1"}),
        })
    )  # fmt: skip
    assert set(room.there()) == {
        f"a_1/{FIRST}/{FIRST}.ipynb", f"b_2/{FIRST}/{FIRST}.ipynb", f"b_2/{FIRST}/data.csv",
        f"b_2/{FIRST}/z/1.csv",
    }  # fmt: skip
    assert (
        "a_1_6_data.csv: 2 files of the same student would be called data.csv, so none of them is "
        "taken. Rename them."
    ) in said


def test_a_folder_that_grading_would_not_take_is_refused_at_once(room):
    _, said = room.collect(room.zipped({f"ann/{FIRST}.ipynb": NOTEBOOK, "ann/v1.0/data.csv": "1"}))
    assert set(room.there()) == {f"ann/{FIRST}/{FIRST}.ipynb"}
    assert "ann/v1.0/data.csv: the name of its folder has a dot in it." in said


def test_a_copy_beside_the_notebook_is_asked_about(room):
    _, said = room.collect(
        room.zipped({
            f"ann/{FIRST}.ipynb": "1",
            f"ann/{FIRST}-Copy1.ipynb": "2",
            f"bo/{FIRST}-Copy1.ipynb": "3",
            f"cy_1_5_{FIRST}.ipynb": "4",
        })
    )  # fmt: skip
    assert students(room) == {"bo": "3", "cy_1": "4"}
    assert (
        f"ann/{FIRST}.ipynb: there is also {FIRST}-Copy1.ipynb of the same student, and a copy may "
        f"be newer or older. Ask which one counts, and leave only that."
    ) in said


PATTERNS = {
    "Blackboard": (
        "{any}_{student}_attempt_{time:%Y-%m-%d-%H-%M-%S}_{file}",
        [
            f"Homework 1_ann_attempt_2026-10-01-12-00-00_{FIRST}.ipynb",
            f"Homework 1_ann_attempt_2026-10-02-09-00-00_{FIRST}.ipynb",
            "Homework 1_ann_attempt_2026-10-02-09-00-00_data.csv",
            # a student writes the end of a name
            f"HW_bo_attempt_2026-10-02-09-00-00_x_ann_attempt_2027-01-01-00-00-00_{FIRST}.ipynb",
        ],
        1,
    ),
    "Brightspace": (
        "{any} - {student}- {any} - {file}",
        [
            f"12345-678 - Ann Lee - Oct 1, 2026 105 PM - {FIRST}.ipynb",
            "12345-678 - Ann Lee- Oct 1, 2026 105 PM - data.csv",
        ],
        0,
    ),
    "Sakai": (
        "{any}/{any}({student})/Submission attachment(s)/{file}",
        [
            f"Homework 1/Lee, Ann(ann)/Submission attachment(s)/{FIRST}.ipynb",
            "Homework 1/Lee, Ann(ann)/Submission attachment(s)/data.csv",
            "Homework 1/Lee, Ann(ann)/comments.txt",
        ],
        0,
    ),
}


@pytest.mark.parametrize("platform", PATTERNS)
def test_class_toml_says_how_other_platforms_name_files(room, platform):
    pattern, names, last = PATTERNS[platform]
    room.roster("id,name", "ann,Ann Lee", "bo,Bo Yun")
    (room.root / "grading" / "class.toml").write_text(f"[collect]\nnames = '{pattern}'\n")
    _, said = room.collect(room.zipped({name: str(n) for n, name in enumerate(names)}))
    assert students(room) == {"ann": str(last)}
    assert f"ann/{FIRST}/data.csv" in room.there()
    if platform == "Sakai":
        assert "comments.txt: it does not say whose it is: it is not named as [collect] in" in said


@pytest.fixture
def in_berlin(monkeypatch):
    """A machine in a zone that skips the hour from 02:00 on 2026-03-29."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_times_in_names_are_sorted_as_written_when_summer_begins():
    pattern = NamePattern("{student}_{time:%Y-%m-%d-%H-%M}_{file}")
    names = [f"ann_2026-03-29-{written}_{FIRST}.ipynb" for written in ("02-30", "03-10")]
    first, second = (parse_owner(PurePosixPath(name), pattern) for name in names)
    assert first is not None
    assert second is not None
    assert second.order - first.order == 40 * 60


@pytest.mark.parametrize(
    "pattern",
    ["{file}", "{student}", "{student}_{file}_{who}", "{time:%Y}{time:%m}{student}_{file}"],
)
def test_what_is_no_pattern_is_said(room, pattern):
    (room.root / "grading").mkdir()
    (room.root / "grading" / "class.toml").write_text(f"[collect]\nnames = '{pattern}'\n")
    status, said = room.collect(room.zipped({f"ann/{FIRST}.ipynb": NOTEBOOK}))
    assert status == 1
    assert "Nothing was taken. In grading/class.toml, [collect] has names = " in said
    assert "it should have {student} and {file} once" in said
