"""The tested versions of JAX are those in the lock files, and any other leads to a warning."""

import re

import jax
import pytest

from shardlings.errors import TESTED_JAX_VERSIONS, crash_warning, version_warning

LOCKS = ("oldest", "lock", "newest")
PINNED = list(zip(LOCKS, TESTED_JAX_VERSIONS, strict=True))


@pytest.mark.parametrize(("lock", "version"), PINNED, ids=LOCKS)
def test_the_lock_files_pin_the_tested_versions(lock, version, root):
    path = root / "requirements" / f"{lock}.txt"
    for package in ("jax", "jaxlib"):
        pinned = re.findall(rf"^{package}==(\S+)", path.read_text(), re.MULTILINE)
        assert pinned == [version]


@pytest.mark.parametrize(
    "version",
    [
        *TESTED_JAX_VERSIONS,
        "0.8.3",
        "0.9.1",
        "0.11",
        "0.12.0",
        "0.10.2.dev20260101",
        "0.12.0.1+local",
    ],
)
def test_versions_inside_the_range_have_no_warning(version):
    assert version_warning(version) == ""


@pytest.mark.parametrize(
    ("version", "which"),
    [
        ("0.8.1", "older"), ("0.8", "older"), ("0.4.35", "older"), ("", "older"),
        ("0.12.1", "newer"), ("0.12.0.2", "newer"), ("0.13.0.dev2026", "newer"), ("1.0", "newer"),
    ],
)  # fmt: skip
def test_versions_outside_the_range_have_a_warning(version, which, monkeypatch):
    monkeypatch.setattr(jax, "__version__", version)
    warning = version_warning()
    assert f"This is JAX {version}, which is {which} than any that Shardlings" in warning
    assert "results may be wrong" in warning


@pytest.mark.parametrize("version", ["0.11.2", "0.11.2.dev20260901"])
def test_a_version_that_crashes_has_a_warning(version):
    assert "This is JAX 0.11.2. Its compiler crashes" in crash_warning(version)


@pytest.mark.parametrize("version", [*TESTED_JAX_VERSIONS, "0.11.1", "0.12.0"])
def test_other_versions_do_not_crash(version):
    assert crash_warning(version) == ""
