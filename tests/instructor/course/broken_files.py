"""Ways to break a submission, each with the sentence that says what to do."""

import json
import os

from tests.instructor.room import ASSIGNMENT

FILE = f"{ASSIGNMENT}.ipynb"


def missing(path):
    path.unlink()


def renamed(path):
    path.rename(path.with_name("my homework (2).ipynb"))


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_link(path):
    path.unlink()
    path.symlink_to("/etc/hostname")


def a_link_beside(path):
    path.with_name("data.csv").symlink_to("/etc/hostname")


def enormous(path):
    path.write_text(path.read_text() + " " * 50 * 2**20)


def cut_off(path):
    text = path.read_text()
    path.write_text(text[: len(text) // 2])


def empty(path):
    path.write_bytes(b"")


def utf_16(path):
    path.write_text(path.read_text(), encoding="utf-16")


def a_list(path):
    path.write_text("[1, 2]")


def no_cells(path):
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}}))


def a_long_number(path):
    digits = "1" * 5000
    path.write_text(f'{{"nbformat": 4, "nbformat_minor": 5, "metadata": {digits}, "cells": []}}')


def no_text(path):
    path.write_text('{"nbformat": "\\ud800", "cells": []}')


def brackets(path):
    path.write_text("[" * 200_000)


def another_alphabet(path):
    path.rename(path.with_name(os.fsdecode(b"devoir_\xe9.ipynb")))


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_hole_beside(path):
    with path.with_name("data.bin").open("wb") as file:
        file.truncate(2**43)


def deep_folders(path):
    here = os.getcwd()
    os.chdir(path.parent)
    for _ in range(900):
        os.mkdir("d" * 50)
        os.chdir("d" * 50)
    os.chdir(here)


def many_files(path):
    for number in range(1001):
        path.with_name(f"{number}").touch()


def a_novel(path):
    notebook = json.loads(path.read_text())
    notebook["cells"].append({**notebook["cells"][0], "id": "novel", "source": "word " * 2**18})
    path.write_text(json.dumps(notebook))


REFUSED = {
    a_long_number: f"{FILE} cannot be read as a notebook: it is not a notebook's JSON.",
    no_text: f"{FILE} cannot be read as a notebook:",
    brackets: f"{FILE} cannot be read as a notebook: it is not a notebook's JSON.",
    another_alphabet: rf"but devoir_\udce9.ipynb. If that is it, rename it to {FILE}.",
    a_pipe: f"{FILE} is neither a file nor a folder. Remove it.",
    a_hole_beside: "what was handed in has more than 100 MB. Hand in the notebook alone.",
    deep_folders: "the folders that were handed in are too deep. Hand in the notebook alone.",
    many_files: "more than 1,000 files were handed in. Hand in the notebook alone.",
    a_novel: "characters, and 262,144 are taken.",
    missing: f"there is no {FILE} in the folder that was handed in.",
    renamed: f"but my homework (2).ipynb. If that is it, rename it to {FILE}.",
    a_folder: f"{FILE} is a folder. Hand in the notebook's own file.",
    a_link: f"{FILE} is a link. Hand in the file itself, and remove the link.",
    a_link_beside: "data.csv is a link. Hand in the file itself, and remove the link.",
    enormous: f"{FILE} has 50 MB, and 20 are taken. Clear its outputs, and hand it in again.",
    cut_off: "It was probably cut off on the way, and has to be handed in again.",
    empty: f"{FILE} cannot be read as a notebook: its JSON breaks off at line 1.",
    utf_16: "cannot be read as a notebook: it is not UTF-8 text from byte 0 on.",
    a_list: f"{FILE} cannot be read as a notebook:",
    no_cells: f"{FILE} cannot be read as a notebook:",
}
