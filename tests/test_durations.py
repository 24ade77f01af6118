"""The table of how long tests took."""

from types import SimpleNamespace

from tests.durations import Durations, compare


def test_each_folder_stands_beside_the_recorded_run():
    assert compare({"a": 30.0, "new": 1.0}, {"a": 20, "gone": 5}) == [
        "seconds of                         now  recorded",
        "a                                   30        20    +50%",
        "new                                  1         –",
        "gone                                 0         5   -100%",
    ]


def test_all_phases_of_a_folders_tests_count():
    durations = Durations()
    for path, when in (
        ("tests/instructor/sandbox/test_a.py", "setup"),
        ("tests/instructor/sandbox/test_a.py", "call"),
        ("tests/test_b.py", "call"),
    ):
        durations.pytest_runtest_logreport(
            SimpleNamespace(nodeid=f"{path}::test", when=when, duration=2.0)
        )
    assert durations.seconds == {"instructor/sandbox": 4.0, "tests/*.py": 2.0}
    assert durations.tests == 2
