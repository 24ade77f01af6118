"""`docs/what_moved.md`: old code does today what the page says, and what to write now works."""

import ast
import importlib.util
import os
import re
import traceback
import warnings
from dataclasses import dataclass, field
from unittest import mock

import jax
import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "what_moved.md"
TEXT = PAGE.read_text()
PART = re.compile(
    r"^###? (?P<title>[^\n]+)$"
    r"|^```python (?P<kind>\w+)(?: since (?P<since>[\d.]+))?\n(?P<code>.*?)^```$"
    r"|^Today(?: \((?P<when>since|without) (?P<what>[\w.]+)\))?: `(?P<today>[^`\n]+)`$"
    r"|^From JAX (?P<newer>[\d.]+) on: `(?P<then>[^`\n]+)`$",
    re.MULTILINE | re.DOTALL,
)
ROW = re.compile(
    r"^\| `(?P<then>[^`|]+)` \| `(?P<today>[^`|]+)`(?P<when>(?:, (?:since|without|before) [\w.]+)*)"
    r" \| (?P<now>[^|]+) \|$",
    re.MULTILINE,
)
"""An entry in one line of a table. If what to write now begins with code, that code is run."""

NAME = re.compile(r"(?P<module>jax\.[\w.]+|jax)\.(?P<name>\w+)")
ASTRAY = "runs, but does something else"


@dataclass
class Entry:
    """The section under one heading of the page, or a row of one of its tables."""

    title: str
    code: dict[str, str] = field(default_factory=dict, repr=False)
    since: dict[str, str] = field(default_factory=dict)
    without: str = ""
    today: str = ""
    newer: tuple[str, str] = ("", "")
    is_row: bool = False

    @property
    def said(self) -> str:
        """The outcome of the old code on the installed JAX, according to the page."""
        version, said = self.newer
        return said if version and jax.__version_info__ >= _numbers(version) else self.today


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def entries():
    """Everything on the page, the setup first. Code keeps the line numbers that it has there."""
    found = [Entry("setup")]
    for part in PART.finditer(TEXT):
        if part["title"]:
            found.append(Entry(part["title"]))
        elif part["kind"]:
            assert part["kind"] not in found[-1].code, f"{found[-1].title}: two {part['kind']}"
            above = TEXT.count("\n", 0, part.start("code"))
            found[-1].code[part["kind"]] = "\n" * above + part["code"]
            found[-1].since[part["kind"]] = part["since"] or "0"
        elif part["newer"]:
            found[-1].newer = part["newer"], part["then"]
        else:
            found[-1].today = part["today"]
            if part["when"] == "without":
                found[-1].without = part["what"]
            elif part["when"]:
                found[-1].since["then"] = part["what"]
    return [entry for entry in found if entry.code] + [read_row(row) for row in ROW.finditer(TEXT)]


def read_row(row: re.Match[str]) -> Entry:
    """Return the entry of a table's row; of a name alone, the old code is its import."""
    entry = Entry(f"`{row['then']}`", today=row["today"], is_row=True)
    name = NAME.fullmatch(row["then"])
    entry.code["then"] = name.expand(r"from \g<module> import \g<name>") if name else row["then"]
    if now := re.match(r"`([^`]+)`", row["now"]):
        entry.code["now"] = now[1]
    when = dict(pair.split() for pair in row["when"].split(", ")[1:])
    entry.since = {"then": when.get("since", "0"), "now": "0"}
    entry.without = when.get("without", "")
    if "before" in when:
        entry.newer = when["before"], "runs"
    return entry


SETUP, *ENTRIES = entries()


def run(entry, kind):
    """Runs a block after the setup, and leaves nothing behind."""
    if jax.__version_info__ < _numbers(entry.since[kind]):
        pytest.skip(f"holds since JAX {entry.since[kind]}")
    names = {"__name__": "what_moved"}
    exec(compile(SETUP.code["setup"], PAGE, "exec"), names)
    with mock.patch.dict(os.environ):
        exec(compile(entry.code[kind], PAGE, "exec"), names)


def outcome(entry):
    """Return the outcome of the old code today, in the page's words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run(entry, "then")
        except Exception as error:
            promise = ast.parse(entry.code["then"]).body[-1]
            frame = traceback.extract_tb(error.__traceback__)[-1]
            here = (frame.filename, frame.lineno) == (str(PAGE), promise.lineno)
            if here and isinstance(promise, ast.Assert) and isinstance(error, AssertionError):
                return ASTRAY
            return f"{type(error).__name__}: {error}"
    return f"runs, with a {caught[0].category.__name__}" if caught else "runs"


def having(kind):
    """The entries that have a block of some kind."""
    return [entry for entry in ENTRIES if kind in entry.code]


def test_old_code_does_today_what_the_page_says(subtests):
    jax.clear_caches()  # what an earlier test compiled may run where this would be refused
    for entry in having("then"):
        with subtests.test(entry.title):
            if entry.without and importlib.util.find_spec(entry.without):
                pytest.skip(f"{entry.without} is installed")
            did, said = outcome(entry), entry.said
            (name, _, words), (asked_name, _, asked_words) = (
                did.partition(": "),
                said.partition(": "),
            )
            assert (name, asked_words in words) == (asked_name, True), (
                f"{entry.title}: the page says that the old code gives {said!r}, and with JAX "
                f"{jax.__version__} it gave {did!r}. Update docs/what_moved.md."
            )


def test_what_to_write_now_works(subtests):
    for entry in having("now"):
        with subtests.test(entry.title):
            shows = entry.is_row or "assert " in entry.code["now"]
            assert shows, "it has to show that it works"
            try:
                with warnings.catch_warnings():
                    if entry.is_row:  # of a line, it is enough that JAX is content with it
                        warnings.simplefilter("error", DeprecationWarning)
                    run(entry, "now")
            except Exception as error:
                error.add_note(
                    f"{entry.title}: what to write now has moved. Update docs/what_moved.md."
                )
                raise


def test_every_heading_and_every_block_is_understood():
    assert not [entry.title for entry in ENTRIES if not (entry.today and "then" in entry.code)]
    sections = [entry for entry in ENTRIES if not entry.is_row]
    assert TEXT.count("\n### ") == TEXT.count("\nToday") == len(sections)
    assert TEXT.count("\nFrom JAX ") == sum(bool(entry.newer[0]) for entry in sections)
    assert TEXT.count("\n```python ") == sum(len(entry.code) for entry in [SETUP, *sections])
    lines = re.findall(r"(?m)^\| (?!Then \|).*$", TEXT)
    assert len(lines) == len(ENTRIES) - len(sections) > 30


# What the five source documents use, and is gone, renamed, deprecated or means something else.
NAMES = """
    PositionalSharding|.replicate(axis, keepdims|array of device sets|is_congruent|mesh_sharding
    jax.experimental.maps|jax.experimental.PartitionSpec|jax.experimental.pjit.pjit|jax_array
    jax.experimental.pjit.with_sharding_constraint|jax.experimental.shard_map|check_rep|termcolor
    jax.tree_map|jax.lax.pvary|jax.lax.all_gather_invariant|jax.get_mesh|jax.sharding.use_mesh
    jax.tools.colab_tpu|XLA_FLAGS|jax.experimental.roofline|absl-py|create_device_mesh(8)
    create_device_mesh((2, 4)), P(|jax.make_mesh|with mesh:|Two Auto meshes|Two Explicit meshes
    jnp.ones_like|outside of jit|with_sharding_constraint(x, P())|jax.reshard(x, P())|jnp.empty
    PmapSharding|ShardedDeviceArray|device_put_replicated|device_put_sharded|jax_pmap_shmap_merge
    jax_pmap_no_rank_reduction|`pmap` of `pmap`|in_axes=1|params[0]|`pmean` of a gradient|auto_axes
    jax_threefry_partitionable|sharding ==|is_equivalent_to|compiled.as_text()|%timeit|fftn
    visualize_array_sharding|process_allgather|allclose|jnp.linalg.solve|out_sharding=
    device_put(x, jax.devices()[0])|devices_indices_map|jax_num_cpu_devices|check_vma
"""


def test_no_name_of_the_source_documents_is_lost():
    names = [name.strip() for name in NAMES.strip().replace("\n", "|").split("|")]
    assert not [name for name in names if name not in TEXT]
