"""Zip files of learning platforms: taken in, sorted, and refused where a stranger set a trap."""

import errno
import io
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from autograder.instructor.__main__ import main
from autograder.instructor.collecting import archives
from tests.instructor.collecting.empty_class import FIRST, NOTEBOOK, SECOND, Class, packed


@pytest.fixture
def room(tmp_path, capsys, monkeypatch):
    """A class that nobody has handed in to."""
    monkeypatch.setenv("COLUMNS", "300")
    return Class(tmp_path, capsys)


def test_canvas_without_a_roster(room):
    file = room.zipped({
        f"doejane_12345_67890_{FIRST}.ipynb": "old",
        f"doejane_12345_67999_{FIRST}-1.ipynb": NOTEBOOK,
        f"roejohn_LATE_22_33_{FIRST}.ipynb": NOTEBOOK,
        f"roejohn_LATE_22_34_{SECOND}-2.ipynb": NOTEBOOK,
        "roejohn_LATE_22_35_data-1.csv": "1,2",
        f"zed_9_10_{FIRST}.ipynb": NOTEBOOK,
        "zed_9_11_measured-1.csv": "1,2",
    })  # fmt: skip
    status, said = room.collect(file)
    assert status == 0
    assert room.there() == {
        f"doejane_12345/{FIRST}/{FIRST}.ipynb": NOTEBOOK,
        f"roejohn_22/{FIRST}/{FIRST}.ipynb": NOTEBOOK,
        f"roejohn_22/{SECOND}/{SECOND}.ipynb": NOTEBOOK,
        f"zed_9/{FIRST}/{FIRST}.ipynb": NOTEBOOK,
        f"zed_9/{FIRST}/measured-1.csv": "1,2",
    }
    assert f"{FIRST}: 3 submissions. new (3): doejane_12345, roejohn_22, zed_9" in said
    assert "late, as the platform says (1): roejohn_22" in said
    assert f"67890_{FIRST}.ipynb: the same student has handed in a later one." in said
    assert "data-1.csv: it does not say which notebook it belongs to." in said


def test_moodle_with_a_roster_and_again(room):
    room.roster("id,name,moodle_id", "jane,Jane Doe,", "zoe,Zoë Núñez,", "a,Ann Lee,", "b,Ann Lee,")
    folder = "{}_4711_assignsubmission_file_/{}"
    files: dict[str, str | bytes] = {
        folder.format("Jane Doe", f"{FIRST} (1).ipynb"): NOTEBOOK,
        folder.format("Jane Doe", "essay.docx"): "x",
        f"Núñez Zoë_12_assignsubmission_file_{FIRST}.ipynb": NOTEBOOK,
        folder.format("Ann Lee", f"{FIRST}.ipynb"): NOTEBOOK,
        folder.format("Bob Who", f"{FIRST}.ipynb"): NOTEBOOK,
        "Jane Doe_4711_assignsubmission_onlinetext_/onlinetext.html": "<p>",
    }
    status, said = room.collect(room.zipped(files))
    assert status == 0
    assert set(room.there()) == {f"{who}/{FIRST}/{FIRST}.ipynb" for who in ("jane", "zoe")}
    assert "the roster has more than one Ann Lee" in said
    assert "is called Bob Who (Moodle's number 4711), or has this number." in said
    assert "essay.docx: it is neither a notebook nor a file that a notebook may need." in said
    files[folder.format("Jane Doe", f"{FIRST} (1).ipynb")] = NOTEBOOK + "\n"
    _, said = room.collect(room.zipped(files))
    assert "in place of an earlier one (1): jane" in said
    assert "there already (1): zoe" in said
    assert room.there()[f"jane/{FIRST}/{FIRST}.ipynb"] == NOTEBOOK + "\n"


def test_a_folder_for_each_student_and_archives_within(room):
    file = room.zipped({
        "submissions/ada/my answers.ipynb": NOTEBOOK,
        "submissions/bob/work.zip": packed({f"{FIRST}.ipynb": NOTEBOOK, "again.zip": packed({})}),
        f"submissions/__MACOSX/ada/._{FIRST}.ipynb": "x",
        "submissions/eve/timestamp.txt": "1999-01-01",
        f"submissions/eve/{SECOND}.ipynb": NOTEBOOK,
    })  # fmt: skip
    status, said = room.collect(file, "--assignment", FIRST)
    assert status == 0
    assert set(room.there()) == {f"{who}/{FIRST}/{FIRST}.ipynb" for who in ("ada", "bob")}
    assert "again.zip: it is an archive in an archive" in said
    assert "timestamp.txt: only the grader writes files of this name." in said
    assert f"it is of {SECOND}, which is not asked for." in said


def test_traps_cost_nobody_else_anything(room, monkeypatch):
    monkeypatch.setattr(archives, "MAX_NOTEBOOK_BYTES", 2**20)
    path = room.root / "traps.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"bomb/{FIRST}.ipynb", b"0" * (2**21))
        archive.writestr(f"../../out/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"/tmp/absolute/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"..\\..\\turned/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f".hidden/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"st*r/{FIRST}.ipynb", NOTEBOOK)
        link = zipfile.ZipInfo(f"link/{FIRST}.ipynb")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("torn/work.zip", b"PK no archive")
        archive.writestr(f"good/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"Twin/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"twin/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"twice/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"twice/other/{FIRST}.ipynb", NOTEBOOK)
        archive.writestr(f"locked/{FIRST}.ipynb", NOTEBOOK)
    data = bytearray(path.read_bytes())
    for start, offset in (
        (b"PK\x01\x02", 8),
        (b"PK\x03\x04", 6),
    ):  # a password is said to be needed
        last = data.rfind(start)
        data[last + offset] |= 1
    path.write_bytes(data)
    before = set(os.listdir(room.root.parent))
    status, said = room.collect(path)
    assert status == 0
    assert set(room.there()) == {f"good/{FIRST}/{FIRST}.ipynb"}
    assert set(os.listdir(room.root.parent)) == before
    for why in (
        f"bomb/{FIRST}.ipynb: it has more than 1 MB.",
        f"../../out/{FIRST}.ipynb: its name leads out of the archive.",
        f"/tmp/absolute/{FIRST}.ipynb: its name leads out of the archive.",
        "turned/",
        "no folder can be called",
        f"link/{FIRST}.ipynb: it is a link, or not a file.",
        "torn/work.zip: it cannot be read as a zip file.",
        "Twin, twin differ in capital letters alone.",
        "there are 2 of the same student and assignment",
        f"locked/{FIRST}.ipynb: a password is needed to read it.",
    ):
        assert why in said
    assert not list((room.root / "grading").glob(".collect-*"))


def test_nobody_hands_in_as_somebody_else(room):
    room.roster("id,name,canvas_id", "eve,Eve Black,1", "jane,Jane Doe,2")
    mine = f"doejane_2_99_{FIRST}.ipynb"
    moodle = "Jane Doe_2_assignsubmission_file_"
    for files in (
        {f"eve/{mine}": NOTEBOOK},
        {f"eve/jane/{FIRST}.ipynb": NOTEBOOK},
        {f"eve/{moodle}/{FIRST}.ipynb": NOTEBOOK, "eve/x/1.csv": "1"},
        {"blackeve_1_5_all.zip": packed({mine: NOTEBOOK, f"jane/{FIRST}.ipynb": NOTEBOOK})},
        {f"Eve Black_7_assignsubmission_file_{moodle}{FIRST}.ipynb": NOTEBOOK},
        {f"Eve Black_7_assignsubmission_file_/jane/{FIRST}.ipynb": NOTEBOOK},
        {f"blackeve_1_5_{moodle}{FIRST}.ipynb": NOTEBOOK},
    ):
        room.collect(room.zipped(dict(files)))
        assert not [place for place in room.there() if not place.startswith("eve/")], files


def test_what_is_no_archive_is_said(room):
    (room.root / "notes.zip").write_text("no archive")
    status, said = room.collect(room.root / "notes.zip")
    assert (status, "notes.zip cannot be read as a zip file" in said) == (1, True)
    status, said = room.collect(room.root / "none.zip")
    assert (status, "There is no file" in said) == (1, True)
    status, said = room.collect(Path("/dev/null"))
    assert (status, "/dev/null is not a regular file. FROM= names" in said) == (1, True)
    status, said = room.collect(Path("/dev/"))
    assert (status, "/dev is a folder. FROM= names" in said) == (1, True)
    status, said = room.collect(Path())
    assert (status, "Say which file to take in" in said, "no file" in said) == (1, True, False)
    file = room.zipped({f"ada/{FIRST}.ipynb": NOTEBOOK})
    status, said = room.collect(file, "--assignment", "05")
    assert (status, "There is no assignment 05." in said) == (1, True)


def test_one_upload_costs_nobody_else_anything(room, monkeypatch):
    monkeypatch.setattr(archives, "MAX_SUBMISSION_BYTES", 2**20)
    monkeypatch.setattr(archives, "MAX_STUDENT_BYTES", 2**22)
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 2**23)
    unusual = io.BytesIO()
    with zipfile.ZipFile(unusual, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(f"{FIRST}.ipynb", NOTEBOOK * 10)
    damaged = bytearray(unusual.getvalue())
    damaged[70] ^= 255
    zeros = b"0" * (2**20 - 1)
    file = room.zipped({
        "lzma/work.zip": bytes(damaged),
        "many/work.zip": packed({f"{number}.csv": "" for number in range(1001)}),
        "long/work.zip": packed({f"{'a' * 300}.csv": "1", f"{FIRST}.ipynb": NOTEBOOK}),
        **{f"zeros/{n}.zip": packed({f"{n}.csv": zeros for n in range(4)}) for n in range(4)},
        "essays/work.zip": packed({f"{number}.docx": "" for number in range(999)}),
        **{f"flood_1_{n}_zeros.csv": zeros for n in range(6)},
        f"zoe/{FIRST}.ipynb": NOTEBOOK,
        "zoe/essay.docx": "",
    })  # fmt: skip
    status, said = room.collect(file)
    assert status == 0
    assert set(room.there()) == {f"{who}/{FIRST}/{FIRST}.ipynb" for who in ("long", "zoe")}
    for why in (
        f"lzma/work/{FIRST}.ipynb: it is packed in an unusual way.",
        "many/work.zip: there are more than 1,000 files in it.",
        ".csv: its name is too long for a file or folder.",
        "zeros/0.zip: its contents have more than 1 MB.",
        "flood_1_5_zeros.csv: there are more than 4 MB of the same student before it.",
        "zoe/essay.docx: it is neither a notebook",
    ):
        assert why in said
    assert said.count("essays/work") == 4


def test_it_is_said_whose_files_make_an_archive_too_large(room, monkeypatch):
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 2**18)
    zeros = packed({f"{n}.csv": b"0" * 2**17 for n in range(3)})
    file = room.zipped({"ann/work.zip": zeros, f"zoe/{FIRST}.ipynb": NOTEBOOK})
    status, said = room.collect(file)
    assert status == 1
    why = 'has contents of more than 0 GB, most of them of "ann". Split it.'
    assert f"Nothing was taken. {file.name} {why}" in said


@pytest.mark.parametrize("around", ["", "class/"])
def test_folders_within_a_students_own_cost_nobody_else_anything(room, monkeypatch, around):
    monkeypatch.setattr(archives, "MAX_SUBMISSION_BYTES", 2**20)
    monkeypatch.setattr(archives, "MAX_STUDENT_BYTES", 2**22)
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 2**23)
    zeros = packed({f"{n}.csv": b"0" * 2**17 for n in range(7)})
    file = room.zipped({
        **{f"{around}ann/part-{n}/work.zip": zeros for n in range(20)},
        f"{around}zoe/{FIRST}.ipynb": NOTEBOOK,
    })  # fmt: skip
    status, said = room.collect(file)
    assert status == 0
    assert set(room.there()) == {f"zoe/{FIRST}/{FIRST}.ipynb"}
    assert "ann/part-8/work.zip: there are more than 4 MB of the same student before it." in said


def test_a_list_of_very_many_files_is_not_read(room):
    inside = packed({f"{number:0200}.csv": "" for number in range(6000)})
    file = room.zipped({"many/work.zip": inside, f"zoe/{FIRST}.ipynb": NOTEBOOK})
    _, said = room.collect(file)
    assert "many/work.zip: the list of its files is too long." in said
    assert set(room.there()) == {f"zoe/{FIRST}/{FIRST}.ipynb"}


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_disk_that_fails_does_not_make_an_archive_damaged(room, monkeypatch, is_nested):
    files: dict[str, str | bytes] = {f"{FIRST}.ipynb": NOTEBOOK}
    file = room.zipped({"ann/work.zip": packed(files)} if is_nested else files)
    read = zipfile.ZipExtFile.read

    def fail(self: zipfile.ZipExtFile, size: int) -> bytes:
        if self.name.endswith(".ipynb"):
            raise OSError(errno.EIO, "Input/output error")
        return read(self, size)

    monkeypatch.setattr(zipfile.ZipExtFile, "read", fail)
    status, said = room.collect(file)
    assert status == 1
    assert "Nothing was taken. [Errno 5] Input/output error" in said


def test_what_cannot_be_put_where_it_belongs_costs_its_student_alone(room, monkeypatch):
    names = ("ann", "bob", "zoe")
    room.collect(room.zipped({f"{who}/{FIRST}.ipynb": NOTEBOOK for who in names}))
    rename, bob = Path.rename, room.root / "grading" / "submitted" / "bob"
    shutil.rmtree(bob)
    bob.write_text("a file where a folder should be")

    def full(self: Path, target: Path) -> Path:
        if self.name == "new" and "ann" in target.parts:
            raise OSError(36, "File name too long")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    status, said = room.collect(room.zipped({f"{who}/{FIRST}.ipynb": "new" for who in names}))
    assert status == 0
    assert room.there() == {
        "bob": "a file where a folder should be",
        f"ann/{FIRST}/{FIRST}.ipynb": NOTEBOOK,
        f"zoe/{FIRST}/{FIRST}.ipynb": "new",
    }
    assert f"{FIRST}: 1 submission. in place of an earlier one (1): zoe" in said
    failed = f"ann/{FIRST}: it could not be put into grading/submitted/ (File name too long)."
    assert f"{failed} The earlier submission was kept." in said
    assert f"bob/{FIRST}: it could not be put into grading/submitted/ (File exists)." in said


def test_a_platforms_number_tells_apart_who_has_one_name(room):
    room.roster("id,name,canvas_id", "jane,Jane Doe,777", "bob,Bob Who,")
    _, said = room.collect(
        room.zipped({
            f"doejane_999_2_{FIRST}.ipynb": "another Jane's",
            f"bobwho_5_2_{FIRST}.ipynb": "one Bob's",
            f"bobwho_6_3_{FIRST}.ipynb": "another Bob's",
        })
    )  # fmt: skip
    assert room.there() == {}
    assert "(Canvas's number 999) is that of jane, whose number in the roster is 777" in said
    assert "Canvas has 2 people of this name, with the numbers 5 and 6." in said
    assert f"bobwho_6_3_{FIRST}.ipynb: Canvas has 2 people" in said
    moodle = "Jane Doe_{}_assignsubmission_file_/{}.ipynb"
    file = room.zipped({moodle.format(11, FIRST): "11", moodle.format(12, f"{FIRST}-9"): "12"})
    for roster in (["id,name", "jane,Jane Doe"], ["id"]):
        room.roster(*roster)
        _, said = room.collect(file)
        assert room.there() == {}
        assert said.count("Moodle has 2 people of this name, with the numbers 11 and 12.") == 2
    room.roster("id,name,moodle_id", "jane,Jane Doe,11")
    room.collect(file)
    assert room.there() == {f"jane/{FIRST}/{FIRST}.ipynb": "11"}
    room.roster("id,name,moodle_id", "jane,Jane Doe,11", "doe,Jane Doe,12", "bob,Bob Who,13")
    room.collect(file)
    assert set(room.there()) == {f"{who}/{FIRST}/{FIRST}.ipynb" for who in ("jane", "doe")}


def test_advice_on_namesakes_names_a_column_that_counts(room):
    room.roster("id,name", "ann,Ann Lee", "lee,Ann Lee")
    rules = room.root / "grading" / "class.toml"
    rules.write_text('[canvas]\nid = "nr"\n[moodle]\nid = "participant"\n')
    canvas = room.zipped({f"leeann_5_2_{FIRST}.ipynb": NOTEBOOK})
    moodle = room.zipped({f"Ann Lee_7_assignsubmission_file/{FIRST}.ipynb": NOTEBOOK}, "m.zip")
    folders = room.zipped({f"Ann Lee/{FIRST}.ipynb": NOTEBOOK}, "f.zip")
    put = "put each into a folder that is named by their id."
    for file, advice in (
        (canvas, f"number 5). A column nr in the roster would tell them apart, or {put}"),
        (moodle, f"number 7). A column participant in the roster would tell them apart, or {put}"),
        (folders, f"more than one Ann Lee. {put.capitalize()}"),
    ):
        assert advice in room.collect(file)[1]
    room.roster("id,name", "ann,Ann Lee")
    file = room.zipped({f"leeann_{n}_{n}_{FIRST}.ipynb": NOTEBOOK for n in (5, 6)})
    assert "with the numbers 5 and 6. A column nr in the roster" in room.collect(file)[1]
    room.roster("id,name,nr", "ann,Ann Lee,6")
    room.collect(file)
    assert set(room.there()) == {f"ann/{FIRST}/{FIRST}.ipynb"}


def test_marks_that_are_vowels_and_exact_ids_tell_names_apart(room):
    room.roster("id,name", "ram,राम", "zoe,Zoë Núñez", "anne,", "ann-e,")
    moodle = "{}_3_assignsubmission_file/{}.ipynb"  # as since 2022
    file = room.zipped({
        moodle.format("रोमी", FIRST): NOTEBOOK,
        moodle.format("Zoe Nunez", FIRST): NOTEBOOK,
        f"anne/{FIRST}.ipynb": "anne",
        f"ann-e/{FIRST}.ipynb": "ann-e",
    })  # fmt: skip
    _, said = room.collect(file)
    assert {name.partition("/")[0]: text for name, text in room.there().items()} == {
        "zoe": NOTEBOOK,
        "anne": "anne",
        "ann-e": "ann-e",
    }
    assert "nobody in the roster is called रोमी (Moodle's number 3), or has this number." in said
    room.collect(room.zipped({moodle.format("राम", FIRST): NOTEBOOK}))
    assert f"ram/{FIRST}/{FIRST}.ipynb" in room.there()


def test_the_name_of_an_archive_in_no_folder_is_nobodys(room):
    inside = packed({f"{FIRST}.ipynb": NOTEBOOK})
    of_moodle = packed({f"Jane Doe_2_assignsubmission_file_/{FIRST}.ipynb": NOTEBOOK})
    room.roster("id,name,canvas_id", "eve,Eve Black,1", "jane,Jane Doe,2")
    for files in (
        {"jane.zip": inside, f"blackeve_1_5_{FIRST}.ipynb": NOTEBOOK},
        {"jane.zip": inside},
        {"submissions/jane.zip": inside, f"submissions/eve/{FIRST}.ipynb": NOTEBOOK},
        {"any.zip": of_moodle},
        {"any.zip": packed({f"jane/{FIRST}.ipynb": NOTEBOOK})},
    ):
        room.collect(room.zipped(dict(files)))
        assert not [place for place in room.there() if not place.startswith("eve/")], files
    (room.root / "grading" / "roster.csv").unlink()
    room.collect(room.zipped({"zoe/jane.zip": inside}))
    room.collect(room.zipped({"submissions/doe_1_2_jane.zip": inside}))
    assert {place.partition("/")[0] for place in room.there()} == {"eve", "zoe", "doe_1"}


def test_what_only_whoever_grades_writes_is_not_taken_under_a_platforms_name(room):
    moodle = "Zoe_7_assignsubmission_file_"
    bad = (
        "timestamp.txt",
        "Timestamp.txt",
        "submission_secret.txt",
        ".x.csv",
    )
    canvas = {f"doejane_777_{n}_{name}": "x" for n, name in enumerate(bad)}
    room.collect(
        room.zipped({
            f"doejane_777_9_{FIRST}.ipynb": NOTEBOOK,
            **canvas,
            f"{moodle}{FIRST}.ipynb": NOTEBOOK,
            f"{moodle}timestamp.txt": "x",
            f"{moodle}.hidden.csv": "x",
            f"{moodle}data.csv": "1",
        })
    )  # fmt: skip
    assert set(room.there()) == {
        f"doejane_777/{FIRST}/{FIRST}.ipynb",
        f"Zoe/{FIRST}/{FIRST}.ipynb",
        f"Zoe/{FIRST}/data.csv",
    }


def test_a_file_with_two_names_is_refused():
    about = zipfile.ZipInfo("zoe/data.csv")
    assert not archives._explain_unsafe(about)
    for other in ("../../data.csv", "jane/data.csv"):  # what newer versions take of a field
        about.filename = other
        assert archives._explain_unsafe(about) == "it has two names, which differ."
    about = zipfile.ZipInfo("zoe/größe.csv".encode().decode("cp437"))
    about.filename = "zoe/größe.csv"
    assert not archives._explain_unsafe(about)


def test_collecting_nothing_says_what_to_write(room, capsys):
    assert main(["--root", str(room.root), "collect", ""]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Say which file to take in: make collect FROM=submissions.zip.")


def test_other_notebooks_of_an_assignment_are_collected_with_its_own(room):
    (room.root / "solutions" / FIRST / "part_b.ipynb").write_text(NOTEBOOK)
    for folder in (FIRST, SECOND):  # of which of the two, its name does not say
        (room.root / "solutions" / folder / "both.ipynb").write_text(NOTEBOOK)
    status, said = room.collect(
        room.zipped({
            f"Ann Lee_101_assignsubmission_file_/{FIRST}.ipynb": "1",
            "Ann Lee_101_assignsubmission_file_/part_b.ipynb": "2",
            "Ann Lee_101_assignsubmission_file_/both.ipynb": "3",
            "Bob Ray_102_assignsubmission_file_/part_b-1.ipynb": "4",
            "Bob Ray_102_assignsubmission_file_/part_b.ipynb": "old",
        })
    )  # fmt: skip
    assert room.there() == {
        f"Ann Lee/{FIRST}/{FIRST}.ipynb": "1",
        f"Ann Lee/{FIRST}/part_b.ipynb": "2",
        f"Bob Ray/{FIRST}/part_b.ipynb": "4",
    }
    assert "both.ipynb: its name is no assignment's." in said
    assert status == 0
