"""Linux counts what a control group kept from starting, and what was killed for memory."""

import pytest

from autograder.instructor.sandbox import read_shortages, shortages

VERSION_1 = """\
8:pids:/outer/inner
4:memory:/outer/inner
0::/
"""
FILES_OF_VERSION_1 = {
    "pids/outer/inner/pids.events": "max 3\n",
    "memory/outer/inner/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}
VERSION_2 = "0::/outer/inner\n"
FILES_OF_VERSION_2 = {
    "outer/pids.events": "max 3\n",  # newer Linux counts where the limit is
    "outer/inner/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n",
}
IN_A_CONTAINER = "8:pids:/docker/5f1e\n4:memory:/docker/5f1e\n"
FILES_IN_A_CONTAINER = {
    "pids/pids.events": "max 3\n",  # it sees its own group as the highest
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        (VERSION_1, FILES_OF_VERSION_1),
        (VERSION_2, FILES_OF_VERSION_2),
        (IN_A_CONTAINER, FILES_IN_A_CONTAINER),
    ],
)
def test_both_versions_of_control_groups_are_asked(tmp_path, monkeypatch, groups, files):
    (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(shortages, "GROUPS_FILE", tmp_path / "cgroup")
    monkeypatch.setattr(shortages, "MOUNTS", tmp_path)
    assert read_shortages() == {shortages.NO_PROCESS: 3, shortages.NO_MEMORY: 2}


def test_where_nothing_is_counted_nothing_is_short(tmp_path, monkeypatch):
    monkeypatch.setattr(shortages, "GROUPS_FILE", tmp_path / "cgroup")
    assert read_shortages() == {}
