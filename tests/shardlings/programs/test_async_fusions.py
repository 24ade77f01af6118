"""A collective that a TPU's compiler starts, continues and ends in several fusions is one."""

import pytest

from shardlings.programs.compiled import read_collectives
from tests.shardlings.programs.hlo_text import program_of_text

GROUPS = "replica_groups={{{{0,1,2,3,4,5,6,7}}}}, dimensions={{0}}"
BACKGROUND = f"""HloModule background, num_partitions=8

%begin (own: f32[4]) -> (f32[4], f32[32], u32[]) {{{{
  %own = f32[4] parameter(0)
  %gathered = f32[32] all-gather(%own), {GROUPS}
  ROOT %begun = (f32[4], f32[32], u32[]) custom-call(%gathered), custom_call_target="{{start}}"
}}}}

%go_on (mine: f32[4], whole: f32[32], other: f32[4]) -> (f32[4], f32[4], f32[32]) {{{{
  %other = f32[4] parameter(2)
  %worked = f32[4] sine(%other)
  %mine = f32[4] parameter(0)
  %whole = f32[32] parameter(1)
  %again = f32[32] all-gather(%{{taken}}), {GROUPS}
  ROOT %both = (f32[4], f32[4], f32[32]) tuple(%worked, %mine, %again)
}}}}

%end (kept: f32[4], room: f32[32]) -> f32[32] {{{{
  %kept = f32[4] parameter(0)
  %room = f32[32] parameter(1)
  %once_more = f32[32] all-gather(%kept), {GROUPS}
  ROOT %done = f32[32] custom-call(%kept, %once_more), custom_call_target="AsyncCollectiveDone"
}}}}

ENTRY %main (a: f32[4], b: f32[4]) -> f32[32] {{{{
  %a = f32[4] parameter(0)
  %b = f32[4] parameter(1)
  %first = (f32[4], f32[32], u32[]) fusion(%a), kind=kCustom, calls=%begin
  %x = f32[4] get-tuple-element(%first), index=0
  %y = f32[32] get-tuple-element(%first), index=1
  %second = (f32[4], f32[4], f32[32]) fusion(%x, %y, %b), kind=kCustom, calls=%go_on
  %z = f32[4] get-tuple-element(%second), index={{handed}}
  %w = f32[32] get-tuple-element(%second), index=2
  ROOT %last = f32[32] fusion(%z, %w), kind=kCustom, calls=%end
}}}}
"""
USUAL = {"start": "AsyncCollectiveStart", "taken": "mine", "handed": 1}


def found(**changes):
    return read_collectives(program_of_text(BACKGROUND.format(**{**USUAL, **changes})))


def test_it_counts_once_where_it_starts():
    (one,) = found()
    assert (one.kind, one.bytes_in, one.bytes_out, one.times) == ("all-gather", 16, 128, 1)
    assert one.is_asynchronous


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"start": "Something"}, 3),  # nothing starts
        (
            {"taken": "other"},
            3,
        ),  # of another operand; the last one then differs, too
        ({"taken": "worked"}, 3),  # of a value that the fusion computes
        ({"handed": 0}, 2),  # the last one is of a value that a fusion computed
    ],
)
def test_a_collective_of_another_operand_is_another_one(changes, count):
    assert len(found(**changes)) == count
