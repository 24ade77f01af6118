"""A check says what it is doing, step by step."""

from autograder.evidence import announce_steps, watch_steps


def test_each_step_is_announced_when_it_begins():
    heard: list[str] = []
    seen: list[tuple[str, int]] = []
    with watch_steps(heard.append):
        for thing in announce_steps("ab", lambda thing: f"compiling {thing}"):
            seen.append((thing, len(heard)))
    assert heard == ["compiling a (1 of 2)", "compiling b (2 of 2)"]
    assert seen == [("a", 1), ("b", 2)]


def test_without_a_listener_nothing_is_announced():
    assert list(announce_steps("ab", lambda _: str(1 / 0))) == ["a", "b"]
