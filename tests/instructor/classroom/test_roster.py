"""A roster is read as people and spreadsheets write it, or refused with a sentence."""

import re
from pathlib import PurePosixPath

import pytest
from nbgrader.api import Gradebook

from autograder.instructor.classroom import Person, RosterError, read_roster
from autograder.instructor.classroom.roster import enter_roster
from autograder.instructor.collecting.canvas import CanvasPlatform
from autograder.instructor.collecting.moodle import MoodlePlatform
from autograder.instructor.collecting.owners import Owners
from autograder.instructor.collecting.platforms import parse_owner
from autograder.instructor.course import ClassRules, Course
from autograder.instructor.course.platform_settings import CanvasSettings, PlatformSettings
from autograder.instructor.exporters import Moodle
from autograder.instructor.nbgrader_plugins import configuration

ADA = Person("ada", "Ada Lovelace", "ada@example.org", "A", {"canvas_id": "1815"})
BO = Person("bo", "Yun, Bo", "", "", {"canvas_id": ""})

PLAIN = """id,name,email,section,canvas_id
ada,Ada Lovelace,ada@example.org,A,1815

bo,"Yun, Bo",,
"""


@pytest.fixture
def course(tmp_path):
    """A course that has nothing but a folder for its grades."""
    (tmp_path / "grading").mkdir()
    return Course(tmp_path)


def write(course, data):
    path = course.grading / "roster.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def test_without_a_roster_nobody_is_known(course):
    assert read_roster(course) == []


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        PLAIN.replace("\n", "\r\n").encode("utf-8-sig"),
        "sep=;\nStudent ID;Name;Email;Section;Canvas ID;;\n"
        "ada;Ada Lovelace;ada@example.org;A;1815;;\n"
        'bo;"Yun, Bo";;;;;\n',
        PLAIN.replace('"Yun, Bo"', "Yun+ Bo").replace(",", "\t").replace("+", ","),
    ],
    ids=["plain", "with a mark before it", "semicolons", "tabs"],
)  # fmt: skip
def test_it_is_read_as_spreadsheets_write_it(course, data):
    write(course, data)
    assert read_roster(course) == [ADA, BO]


def test_two_columns_of_names_are_a_name(course):
    write(course, "id,first_name,last_name\nada,Ada,Lovelace\n")
    (ada,) = read_roster(course)
    assert ada.name == "Ada Lovelace"


REFUSED = {
    "": "does not begin with the names of its columns",
    "name,email\nAda,a@b\n": "has no column `id`. Its first line should name its columns, and has: "
    "`name`, `email`",
    "ada,Ada Lovelace\n": "has no column `id`",
    "id,name,name\nada,A,B\n": "has several columns called `name`",
    "id,name\nada,A\nbo,B\nada,C\n": "line 4: the id ada is also in line 2.",
    "id,name\nada,A\n,Bo\n": "line 3: there is no id",
    "id,name\nada,Lovelace, Ada\n": "line 2: there are 3 cells, and 2 columns",
    'id,name\nada,"Ada\nbo,B\n': "cannot be read from line",
    "id\n../bo\n": "line 2: the id ../bo cannot be the name of a folder",
    "id\na/b\n": "line 2: the id a/b cannot be the name of a folder",
    "id\nb[o]\n": "line 2: the id b[o] cannot be the name of a folder",
    "id\nb\x1b[2J\n": "line 2: the id b␛[2J cannot",
    "id\n1.23457E+11\n": "is a number that a spreadsheet has shortened",
    "id,name\nada,A\u202eB\n": "line 2: a cell has line breaks or other characters",
    f"id\n{'a' * 129}\n": "line 2: the id has more than 128 characters",
    "id,name\nada,Müller\n".encode("latin-1"): "is not in UTF-8 (line 2 is the first that is not)",
    "id,name\nada,Müller\n".encode("utf-16-le"): "is not in UTF-8",
    b"PK\x03\x04\0\0id,name\n": "Save it as a CSV, not as a workbook",
    b"id\n" + b"a\n" * 2**21: "too many for the table of a class",
}


@pytest.mark.parametrize("data", REFUSED)
def test_what_cannot_be_right_is_refused_in_a_sentence(course, data):
    write(course, data)
    with pytest.raises(RosterError, match=re.escape(REFUSED[data])) as error:
        read_roster(course)
    assert str(error.value).startswith("grading/roster.csv")
    assert str(error.value).isprintable()


def test_not_all_of_many_wrong_lines_are_said(course):
    write(course, "id\n" + "a/b\n" * 9)
    with pytest.raises(RosterError, match=r"line 6: .* 4 more lines are like these\."):
        read_roster(course)


def test_it_is_entered_into_nbgraders_table_and_nobody_is_removed(course):
    configuration.install_gradebook_version()
    write(course, PLAIN)
    with Gradebook(f"sqlite:///{course.grading / 'gradebook.db'}") as gradebook:
        gradebook.add_student("cy", first_name="Cy")
        gradebook.add_student("bo", email="old@example.org")
        for _ in range(2):
            enter_roster(gradebook, read_roster(course))
        students = {s.id: (s.first_name, s.last_name, s.email) for s in gradebook.students}
        assert students == {
            "ada": ("Ada", "Lovelace", "ada@example.org"),
            "bo": ("Bo", "Yun", None),
            "cy": ("Cy", None, None),
        }
        assert gradebook.find_student("ada").lms_user_id == "1815"


def test_cells_that_are_empty_clear_what_nbgrader_has_unless_all_are(course):
    configuration.install_gradebook_version()
    ann = Person("ann", "Ann Lee", "ann@x.edu", "", {"canvas_id": "4711"})
    with Gradebook(f"sqlite:///{course.grading / 'gradebook.db'}") as gradebook:
        for people in ([ann, BO], [Person("ann", "Lee"), ADA], [Person("ann", "Lee")]):
            enter_roster(gradebook, people)
            found = gradebook.find_student("ann")
            is_first = BO in people
            assert (found.first_name or "") == "Ann" * is_first
            assert found.last_name == "Lee"
            assert found.email == ("ann@x.edu" if is_first else None)
            assert found.lms_user_id == ("4711" if is_first else None)
        enter_roster(gradebook, [Person("ada", "Ada Lovelace")])
        assert gradebook.find_student("ada").email == ADA.email


def test_columns_are_found_whatever_their_case_and_blanks(course):
    (course.grading / "roster.csv").write_text(
        "id,name,Canvas ID,moodle_id,moodle_id_HW1\nann,Ann Lee,4711,5,17\nbo,Bo Yun,,17,5\n"
    )
    people = read_roster(course)
    rules = ClassRules(platforms=PlatformSettings(canvas=CanvasSettings(id="Canvas ID")))
    assert CanvasPlatform().find_numbers(people[0], rules, "HW1") == {"4711"}
    assert MoodlePlatform().find_certain_numbers(people[0], rules, "HW1") == {"17"}
    owned = parse_owner(PurePosixPath("Participant_17_assignsubmission_file/HW1.ipynb"))
    assert owned is not None
    assert Owners(people, rules).id_of(owned, "HW1") == "ann"
    exporter = Moodle.__new__(Moodle)  # without a gradebook, which this needs nothing of
    exporter.rules = rules
    assert exporter._participant_numbers(people, "HW1") == {"ann": "17", "bo": "5"}
