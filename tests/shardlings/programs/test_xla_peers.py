"""Programs as XLA's own tests have them, written anew and read from serialised modules.

Their cases are those of `collective_ops_utils_test` (who is in a group), `while_loop_analysis_test`
(how often a loop runs) and `replica_group_test`, read on 2026-11-28. JAX itself makes few of these.
"""

import importlib
from typing import Any

import pytest

from shardlings.programs.closed_over import count_constant_bytes
from shardlings.programs.compiled import UnreadableProgramError, read_collectives, read_module

try:
    hlo: Any = importlib.import_module("jaxlib._hlo")
except ImportError:  # JAX 0.8
    hlo = importlib.import_module("jaxlib._jax")

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
CHANNEL = "channel_id=1, "
GLOBAL = f"{CHANNEL}use_global_device_ids=true, "


def varint(number):
    """Encode a number as protocol buffers do."""
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])


def module(text, partitions=8, replicas=1):
    """Read a module for so many partitions and replicas, as an executable would have it."""
    serialised = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    assignment = b"\x08" + varint(replicas) + b"\x10" + varint(partitions)
    return read_module(serialised + b"\x7a" + varint(len(assignment)) + assignment)


def collectives(body, argument="x = f32[64] parameter(0)", partitions=8, replicas=1, others=""):
    text = (
        f"HloModule m, num_partitions={partitions}, replica_count={replicas}\n{ADD}{others}"
        f"ENTRY e {{ {argument}\n {body} }}"
    )
    return read_collectives(module(text, partitions, replicas))


def groups(written, partitions, attributes, replicas=1):
    body = f"ROOT r = f32[64] all-reduce(x), {attributes}replica_groups={written}, to_apply=add"
    found = collectives(body, partitions=partitions, replicas=replicas)
    return sorted(found[0].groups) if found else []


@pytest.mark.parametrize(
    ("written", "partitions", "attributes", "replicas", "expected"),
    [
        # without a channel: between replicas, of which there is one for many partitions
        ("{}", 8, "", 1, []),
        ("{{0}}", 8, "", 1, []),
        ("{}", 1, "", 3, [(0, 1, 2)]),
        ("{{0},{1,2}}", 1, "", 3, [(0,), (1, 2)]),
        # with one: replicas are listed, and all partitions of them take part
        ("{{0}}", 8, CHANNEL, 1, [tuple(range(8))]),
        ("{}", 8, CHANNEL, 1, [tuple(range(8))]),
        # with global ids: devices are listed
        ("{{0,1},{2,3},{4,5},{6,7}}", 8, GLOBAL, 1, [(0, 1), (2, 3), (4, 5), (6, 7)]),
        ("{{0,1,2,3,4,5,6,7}}", 1, GLOBAL, 8, [tuple(range(8))]),
        ("[2,4]<=[4,2]T(1,0)", 8, GLOBAL, 1, [(0, 2, 4, 6), (1, 3, 5, 7)]),
    ],
)
def test_a_channel_and_global_ids_decide_what_groups_mean(
    written, partitions, attributes, replicas, expected
):
    assert groups(written, partitions, attributes, replicas) == expected


def test_replicas_of_several_partitions_are_refused():
    with pytest.raises(UnreadableProgramError, match="several replicas of each"):
        groups("{}", 2, "", 3)


def test_a_permutation_without_a_channel_is_between_replicas():
    pairs = "source_target_pairs={{0,1},{1,0}}"
    assert collectives(f"ROOT p = f32[64] collective-permute(x), {pairs}", partitions=2) == []
    (found,) = collectives(
        f"ROOT p = f32[64] collective-permute(x), {CHANNEL}{pairs}", partitions=2
    )
    assert sorted(found.groups) == [(0, 1), (1, 0)]


PAIRS = "frontend_attributes={_xla_send_recv_source_target_pairs={{3,0},{1,2}}}"
TRANSFER = """tok = token[] after-all()
 r = (f32[64], u32[], token[]) recv(tok), channel_id=2, {pairs}
 s = (f32[64], u32[], token[]) send(x, tok), channel_id=2, {pairs}
 rd = (f32[64], token[]) recv-done(r), channel_id=2, {pairs}
 sd = token[] send-done(s), channel_id=2, {pairs}
 ROOT g = f32[64] get-tuple-element(rd), index=0"""


def test_a_send_is_a_transfer():
    (found,) = collectives(TRANSFER.format(pairs=PAIRS))
    assert found.kind == "collective-permute"
    assert sorted(found.groups) == [(1, 2), (3, 0)]
    assert (found.bytes_in, found.bytes_out) == (256, 256)


def test_a_send_that_does_not_say_where_to_is_refused():
    with pytest.raises(UnreadableProgramError, match="does not say from which device"):
        collectives(TRANSFER.replace(", {pairs}", ""))


def test_a_send_to_the_host_is_none():
    assert collectives(TRANSFER.replace("{pairs}", "is_host_transfer=true")) == []


TAKES_TWICE = """
keeps { one = f32[64] parameter(0)
  other = f32[64] parameter(1)
  at = s32[] parameter(2)
  own = f32[8] dynamic-slice(one, at), dynamic_slice_sizes={8}
  RESULT }
"""


@pytest.mark.parametrize(
    ("result", "size", "kind"),
    [
        ("same = f32[8] dynamic-slice(other, at), dynamic_slice_sizes={8}", "8", "reduce-scatter"),
        ("same = f32[64] negate(other)", "64", "all-reduce"),
    ],
)
def test_a_fusion_may_take_a_sum_twice_and_slice_it_once(result, size, kind):
    """If only its first parameter were followed, nobody would see that the whole sum is used."""
    result += f"\n  ROOT both = (f32[8], f32[{size}]) tuple(own, same)"
    (found,) = collectives(
        f"sum = f32[64] all-reduce(x), {GLOBAL}to_apply=add, "
        f"replica_groups={{{{0,1,2,3,4,5,6,7}}}}\n"
        f" p = u32[] partition-id()\n i = s32[] convert(p)\n eight = s32[] constant(8)\n"
        f" at = s32[] multiply(i, eight)\n"
        f" ROOT r = (f32[8], f32[{size}]) fusion(sum, sum, at), kind=kLoop, calls=keeps",
        others=TAKES_TWICE.replace("RESULT", result),
    )
    assert found.kind == kind


def test_the_buffer_of_a_ragged_all_to_all_is_what_is_sent():
    argument = "x = f32[64] parameter(0)\n o = f32[64] parameter(1)\n i = s32[2] parameter(2)"
    body = (
        "ROOT r = f32[64] ragged-all-to-all(x, o, i, i, i, i), channel_id=1, replica_groups={{0,1}}"
    )
    (found,) = collectives(body, argument, partitions=2)
    assert (found.kind, found.bytes_in, found.bytes_out) == ("ragged-all-to-all", 256, 256)


TWO_LINES = """
 first = f32[64] get-tuple-element(r), index=0, metadata={source_file="a.py" source_line=1}
 second = f32[64] get-tuple-element(r), index=1, metadata={source_file="a.py" source_line=2}
 ROOT both = f32[64] add(first, second)"""
"""Uses both results of a collective, on two lines."""


def test_the_operands_of_an_all_to_all_are_the_pieces_of_one_and_those_of_others_are_not():
    groups = "replica_groups={{0,1},{2,3}}"
    body = f"r = (f32[64], f32[64]) all-to-all(x, x), {CHANNEL}{groups}{TWO_LINES}"
    (found,) = collectives(body, partitions=4)
    assert (found.kind, found.bytes_in, found.bytes_out, found.size) == ("all-to-all", 512, 512, 2)
    body = f"r = (f32[64], f32[64]) all-reduce(x, x), {GLOBAL}{groups}, to_apply=add{TWO_LINES}"
    parts = [(c.kind, c.bytes, c.stack[0].line) for c in collectives(body, partitions=4)]
    assert parts == [("all-reduce", 256, 1), ("all-reduce", 256, 2)]


LOOP = """body {{ p = (f32[2], {type}[]) parameter(0)
  v = f32[2] get-tuple-element(p), index=0
  i = {type}[] get-tuple-element(p), index=1
  by = {type}[] constant({step})
  next = {type}[] {update}
  sum = f32[2] all-reduce(v), {all}, replica_groups={{{{0,1}}}}, to_apply=add
  ROOT t = (f32[2], {type}[]) tuple(sum, next) }}
condition {{ q = (f32[2], {type}[]) parameter(0)
  j = {type}[] get-tuple-element(q), index=1
  limit = {type}[] constant({limit})
  ROOT r = pred[] {test} }}
"""
FUSED = """fadd {{ a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT s = {type}[] add(a, b) }}
fless {{ a = {type}[] parameter(0)
  b = {type}[] parameter(1)
  ROOT s = pred[] compare(a, b), direction=LT }}
"""


def turns(start=0, limit=7, step=1, direction="LT", **changes):
    """Read how often the collective in a loop runs."""
    usual = {"type": "s32", "update": "add(i, by)", "all": GLOBAL.rstrip(", ")}
    names = {**usual, "test": f"compare(j, limit), direction={direction}", **changes}
    others = (FUSED + LOOP).format(start=start, limit=limit, step=step, **names)
    kind = names["type"]
    body = f"""start = {kind}[] constant({start})
  w = (f32[2], {kind}[]) tuple(x, start)
  ROOT loop = (f32[2], {kind}[]) while(w), condition=condition, body=body"""
    (found,) = collectives(body, "x = f32[2] parameter(0)", partitions=2, others=others)
    return found.times


@pytest.mark.parametrize(
    ("start", "limit", "step", "direction"),
    [
        (0, 42, 1, "LT"), (0, 42, 5, "LT"), (-10, -3, 2, "LT"), (5, 2, 4, "LT"),
        (0, 42, 1, "LE"), (0, 42, 5, "LE"), (-5, 0, 2, "LE"), (1, 0, 2, "LE"), (0, 40, 5, "LE"),
        (42, 0, -1, "GT"), (42, 0, -5, "GT"), (0, 5, -1, "GT"),
        (42, 0, -1, "GE"), (40, 0, -5, "GE"), (0, 1, -2, "GE"),
    ],
)  # fmt: skip
def test_a_loop_runs_as_often_as_its_counter_says(start, limit, step, direction):
    goes_on = {
        "LT": lambda i: i < limit, "LE": lambda i: i <= limit,
        "GT": lambda i: i > limit, "GE": lambda i: i >= limit,
    }[direction]  # fmt: skip
    times, i = 0, start
    while goes_on(i):
        times, i = times + 1, i + step
    assert turns(start, limit, step, direction) == times


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({"update": "fusion(i, by), kind=kLoop, calls=fadd"}, 7),
        ({"test": "fusion(j, limit), kind=kLoop, calls=fless"}, 7),
        ({"test": "compare(limit, j), direction=GT"}, 7),
        ({"start": 7, "limit": 0, "direction": "GT", "update": "subtract(i, by)"}, 7),
        ({"update": "subtract(by, i)"}, None),
        ({"update": "multiply(i, by)"}, None),
        ({"step": -1}, None),
        ({"step": 0}, None),
        ({"direction": "GT"}, None),
        ({"direction": "NE"}, None),
        ({"type": "u32"}, 7),
        ({"type": "s8", "limit": 100}, 100),
        ({"type": "s8", "start": 120, "limit": 127, "step": 9}, None),
        ({"type": "u8", "start": 250, "limit": 255, "step": 9}, None),
        ({"type": "s64", "limit": 2**33, "step": 2**30}, 8),
        ({"limit": 2**31 - 1, "direction": "LE"}, None),
    ],
)
def test_what_counts_and_what_does_not(changes, times):
    assert turns(**changes) == times


def test_the_same_constant_in_two_computations_is_one():
    numbers = ", ".join(map(str, range(64)))
    constant = f"c = s32[64] constant({{{numbers}}})"
    text = (
        f"HloModule m\nf {{ p = s32[64] parameter(0)\n {constant}\n ROOT r = s32[64] add(p, c) }}\n"
        f"ENTRY e {{ x = s32[64] parameter(0)\n {constant}\n y = s32[64] add(x, c)\n "
        f"ROOT z = s32[64] fusion(y), kind=kLoop, calls=f }}"
    )
    assert count_constant_bytes(module(text, 1)) == 256
