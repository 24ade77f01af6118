"""`at_most` asserts what a program communicates; its messages say what is too much, and where."""

import jax
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.errors import UsageError
from shardlings.programs import TargetReports
from tests.helpers import mesh, sharding

GRID = {"data": 4, "model": 2}


def exchange(x):
    both = lax.psum(x.sum(), ("data", "model"))
    return x + both + lax.psum(x, "data") + lax.ppermute(x, "model", [(0, 1), (1, 0)])


def report_on(function):
    mapped = jax.shard_map(
        function, mesh=mesh(**GRID), in_specs=jax.P("data", "model"),
        out_specs=jax.P("data", "model"), check_vma=False,
    )  # fmt: skip
    x = jax.device_put(np.ones((16, 16), np.float32), sharding("data", "model", **GRID))
    return communication(mapped, x)


REPORT = report_on(exchange)
PERMUTE = 4 * 8 * 4  # a block's bytes


def test_limits_are_for_the_bytes_of_all_collectives_of_a_kind():
    moved = sum(c.total_bytes for c in REPORT.collectives if c.kind == "all-reduce")
    limits = {"all-reduce": moved, "collective-permute": f"{PERMUTE} bytes"}
    assert REPORT.at_most(limits)
    with pytest.raises(AssertionError, match=f"at most {moved - 1} bytes are allowed"):
        REPORT.at_most(limits | {"all-reduce": moved - 1})


def test_amounts_that_would_be_written_alike_are_in_bytes():
    summed = jax.shard_map(
        lambda x: lax.psum(x, "data"), mesh=mesh(**GRID), in_specs=jax.P(), out_specs=jax.P(),
        check_vma=False,
    )  # fmt: skip
    x = jax.device_put(np.ones(2**20 + 1, np.float32), sharding(**GRID))
    said = "4,194,308 bytes on each device by all-reduce over data; at most 4,194,304 bytes are"
    with pytest.raises(AssertionError, match=said):
        communication(summed, x).at_most({"all-reduce": "4 MiB"})


def test_only_collectives_over_the_named_axis_count():
    assert REPORT.at_most({"all-reduce": "1 KiB"}, over="data")
    assert REPORT.at_most({"collective-permute": PERMUTE, "all-reduce": 4}, over="model")


def test_a_kind_without_a_limit_is_not_allowed():
    with pytest.raises(AssertionError) as raised:
        REPORT.at_most({"all-reduce": "1 KiB"}, over="model")
    message = str(raised.value)
    assert message.startswith(
        "The program communicates 128 bytes on each device by collective-permute over model, which "
        "no limit allows.\nIt comes from this line:\n    test_communication_limits.py:"
    )
    assert (
        'lax.ppermute(x, "model", [(0, 1), (1, 0)])\n    collective-permute of x (4, 8)' in message
    )
    assert "\n\nline and collective" in message
    assert "all together" in message


def test_no_limits_allow_no_communication():
    assert communication(lambda x: x, 1.0).at_most({})
    with pytest.raises(AssertionError, match="which no limit allows"):
        REPORT.at_most({})


def test_a_loop_of_unknown_length_cannot_be_limited():
    def until(x):
        return lax.while_loop(lambda c: c.sum() < 100, lambda c: lax.psum(c, "data"), x)

    with pytest.raises(AssertionError, match="in a loop whose length is known only when it runs"):
        report_on(until).at_most({"all-reduce": "1 GiB"})
    assert "is unknown, because the length of a loop is." in str(report_on(until))


def test_a_collective_between_other_groups_than_those_of_axes_counts():
    def within_pairs(x):
        return lax.psum(x, "data", axis_index_groups=[[0, 2], [1, 3]])

    with pytest.raises(AssertionError, match="by all-reduce over 4 groups of 2"):
        report_on(within_pairs).at_most({}, over="model")


def test_for_a_target_the_tpu_program_counts():
    quiet = communication(lambda x: x, 1.0)
    assert TargetReports(REPORT, quiet, "v5e:2x4").at_most({})
    with pytest.raises(AssertionError):
        TargetReports(quiet, REPORT, "v5e:2x4").at_most({})


@pytest.mark.parametrize(
    ("size", "bytes"),
    [
        (7, 7),
        (np.int64(7), 7),
        ("7 bytes", 7),
        ("1 byte", 1),
        ("1.5 KiB", 1536),
        ("2 kB", 2000),
        (" 1,024MiB ", 1 << 30),
        ("1_048_576 bytes", 1 << 20),
    ],
)
def test_sizes_have_units(size, bytes):
    from shardlings.programs.communication_limits import read_limits

    limit = read_limits({"all-reduce": size})["all-reduce"]
    assert limit.bytes == bytes
    assert type(limit.bytes) is int


@pytest.mark.parametrize(
    ("limits", "over", "says"),
    [
        ({"all-reduce": "4 Mib"}, None, 'such as "4 MiB", "512 KiB" or "2 GB"; the one for '
                                        "all-reduce is '4 Mib'."),
        ({"all-reduce": "4"}, None, "is '4'."),
        ({"all-reduce": "1,5 MiB"}, None, "is '1,5 MiB'. A comma separates thousands."),
        ({"all-reduce": "1,0240 KiB"}, None, "is '1,0240 KiB'."),
        ({"all-reduce": -1}, None, "is -1."),
        ({"all-reduce": True}, None, "is True."),
        ({"allreduce": 4}, None, "Did you mean 'all-reduce'?"),
        ({3: 4}, None, "There is no collective 3; there are all-reduce,"),
        ("4 MiB", None, "at_most expects a dictionary of the most bytes for each kind"),
        ({}, "dat", "over='dat' is not an axis of the program's mesh: its axes are 'data' and "
                    "'model'."),
    ],
)  # fmt: skip
def test_misuse_is_explained(limits, over, says):
    with pytest.raises(UsageError) as raised:
        REPORT.at_most(limits, over=over)
    assert says in str(raised.value)


def test_the_traceback_ends_in_the_test():
    frames = [REPORT.at_most.__func__.__code__, TargetReports.at_most.__code__]
    assert all("__tracebackhide__" in code.co_varnames for code in frames)
