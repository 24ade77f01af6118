"""While something takes long, a notebook says what it is; the result replaces it."""

import pytest

pytest.importorskip("IPython", reason="notebooks run where IPython is installed")
import IPython.display

from shardlings.pictures import display, display_table, display_waiting, displaying


class Handle:
    """A display that can be updated."""

    def __init__(self, shown):
        self.shown = shown

    def update(self, data, raw):
        self.shown.append(("updated", data["text/plain"]))


@pytest.fixture
def shown(monkeypatch):
    """What a notebook displays, in order."""
    made = []

    def publish(data, raw, display_id=False):
        made.append(("new", data["text/plain"]))
        return Handle(made) if display_id else None

    monkeypatch.setattr(IPython.display, "display", publish)
    monkeypatch.setattr(displaying, "_in_notebook", lambda: True)
    return made


def wait():
    """Do what happens after two seconds."""
    waiting = displaying._waiting.get()
    assert waiting is not None
    waiting.show()


def run(steps, waits):
    """Take some steps, and wait after each of them if `waits`."""
    with display_waiting("capturing") as tell:
        for step in steps:
            if waits:
                wait()
            tell(step)
        display("<p>right</p>", "right", str)
        display("<p>more</p>", "more", str)


def test_the_result_replaces_what_was_waited_for(shown):
    run(["compiling"], waits=True)
    assert shown == [
        ("new", "Checking: capturing …"),
        ("updated", "Checking: compiling …"),
        ("updated", "right"),
        ("new", "more"),
    ]


def test_what_is_quick_shows_only_its_result(shown):
    run(["compiling", "running"], waits=False)
    assert shown == [("new", "right"), ("new", "more")]


def test_after_an_error_nothing_of_it_stays(shown):
    def fail():
        with display_waiting("capturing"):
            wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert shown[-1] == ("updated", "")


def test_it_is_shown_after_a_while(shown, monkeypatch):
    monkeypatch.setattr(displaying, "WAIT_SECONDS", 0.0)
    with display_waiting("capturing"):
        while not shown:
            pass
    assert shown[0] == ("new", "Checking: capturing …")


def test_a_table_has_numbers_on_the_right_and_commas_in_whole_ones(shown):
    display_table(("", "bytes", "share", "by"), [("a", 1024, "5%", 3), ("bcd", 7, "10%", "x")])
    assert shown == [("new", "     bytes  share  by\na    1,024     5%  3\nbcd      7    10%  x")]


def test_a_table_shows_a_boolean_as_a_word(shown):
    display_table(("", "equal"), [("a", True)])
    assert shown == [("new", "   equal\na  True")]
