"""Collectives are read exactly, from recorded programs and from programs compiled here."""

from functools import partial
from itertools import combinations, product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import AxisType

from shardlings.programs.compiled import (
    UnreadableProgramError,
    read_collectives,
    read_executable,
    read_module,
)
from shardlings.programs.compiled.module_proto import decode_module
from tests.conftest import fewer
from tests.helpers import mesh
from tests.shardlings.programs.hlo_text import parse, program_of_text, replica_groups

RECORDINGS = Path(__file__).parent / "recorded"
RECORDED = sorted(RECORDINGS.glob("*/*.hlo"))
GATHER, REDUCE, SCATTER = "all-gather", "all-reduce", "reduce-scatter"
X, Y, BOTH = ("x",), ("y",), ("x", "y")
CORPUS = {
    # kind, axes, bytes in, bytes out, times
    "add_transpose": [
        (GATHER, X, 128, 512, 1), (GATHER, Y, 128, 256, 1),
        (GATHER, Y, 512, 1024, 1), (GATHER, X, 256, 1024, 1),
    ],
    "sum": [(REDUCE, Y, 4, 4, 1), (REDUCE, X, 4, 4, 1)],
    "sum_rows": [(REDUCE, X, 32, 32, 1)],
    "three_sums": [(REDUCE, X, 96, 96, 1)],
    "replicate": [(GATHER, Y, 128, 256, 1), (GATHER, X, 256, 1024, 1)],
    "turn": [("all-to-all", (), 128, 128, 1), ("collective-permute", BOTH, 128, 128, 1)],
    "psum": [(REDUCE, X, 128, 128, 1)],
    "psum_both": [(REDUCE, BOTH, 128, 128, 1)],
    "all_gather": [(GATHER, Y, 128, 256, 1)],
    "psum_scatter": [(SCATTER, X, 128, 32, 1)],
    "all_to_all": [("all-to-all", X, 128, 128, 1)],
    "ppermute": [("collective-permute", X, 128, 128, 1)],
    "nested": [(REDUCE, Y, 512, 512, 5), (REDUCE, X, 512, 512, 15)],
    "branch": [(REDUCE, X, 512, 512, 1)],
    "until": [(REDUCE, X, 512, 512, None)],
    "decoys": [],
    "keep_scattered": [(SCATTER, X, 1024, 256, 1)],
    "one_device": [],
}  # fmt: skip


TPU = {
    # The TPU's compiler gathers over both axes at once where the CPU's takes one at a time, and
    # reduces over both at once.
    "add_transpose": [(GATHER, BOTH, 128, 1024, 1), (GATHER, BOTH, 128, 1024, 1)],
    "replicate": [(GATHER, BOTH, 128, 1024, 1)],
    "sum": [(REDUCE, BOTH, 4, 4, 1)],
}
WITHOUT_LINES = {("tpu-v5e-2x4", "psum_scatter"), ("0.12.0.1", "replicate")}
"""Programs that do not say which line a collective comes from."""

COMPILERS = {
    "0.8.2": CORPUS,
    "0.10.2": CORPUS,
    "0.12.0.1": CORPUS,
    "tpu-v5e-2x4": {**CORPUS, **TPU},
}


def essence(found):
    return [(c.kind, c.axes, c.bytes_in, c.bytes_out, c.times) for c in found]


def compiled(function, *arguments, grid=None):
    """Return a compiled function's collectives, and check that its text has the same."""
    program = jax.jit(function).lower(*arguments).compile()
    found = read_collectives(read_executable(program.runtime_executable()), grid)
    assert found == read_collectives(program_of_text(str(program.as_text())), grid)
    return found


def test_each_program_is_recorded_for_each_compiler():
    wanted = {(compiler, name) for compiler, corpus in COMPILERS.items() for name in corpus}
    assert {(path.parent.name, path.stem) for path in RECORDED} == wanted


def test_recorded_programs_are_read_exactly(subtests):
    for path in RECORDED:
        with subtests.test(f"{path.parent.name}-{path.stem}"):
            found = read_collectives(
                read_module(path.with_suffix(".pb").read_bytes()), mesh(x=4, y=2)
            )
            assert found == read_collectives(program_of_text(path.read_text()), mesh(x=4, y=2))
            assert essence(found) == COMPILERS[path.parent.name][path.stem]
            for collective in found:
                if (path.parent.name, path.stem) not in WITHOUT_LINES:
                    assert collective.where is not None
                    assert collective.where.file == "record.py"
                assert collective.is_conditional == (path.stem == "branch")


def test_a_collective_leads_to_the_line_that_caused_it():
    module = (RECORDINGS / "0.10.2" / "nested.pb").read_bytes()
    source = (RECORDINGS / "record.py").read_text().splitlines()
    lines = [
        source[c.where.line - 1]
        for c in read_collectives(read_module(module), mesh(x=4, y=2))
        if c.where
    ]
    assert "lax.pmax" in lines[0]
    assert "lax.psum" in lines[1]


def test_a_collective_of_an_argument_has_its_number():
    grid = mesh(x=4, y=2)

    def argument(*spec):
        sharding = jax.NamedSharding(grid, jax.P(*spec))
        return jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=sharding)

    def arguments(function, *specs):
        found = compiled(function, *(argument(*spec) for spec in specs), grid=grid)
        return [c.argument for c in found]

    assert arguments(lambda x: x + x.T, ("x", "y")) == [0, 0, 0, 0]
    assert sorted(filter(None, arguments(jnp.dot, ("x", "y"), ("x", "y")))) == [1]
    assert arguments(lambda x: x.sum(0), ("x", "y")) == [None]


BODIES = {
    "psum": (lambda a, n: lax.psum(a, n), REDUCE),
    "pmax": (lambda a, n: lax.pmax(a, n), REDUCE),
    "pmean": (lambda a, n: lax.pmean(a, n), REDUCE),
    "all_gather": (lambda a, n: lax.all_gather(a, n, tiled=True), GATHER),
    "psum_scatter": (lambda a, n: lax.psum_scatter(a, n, tiled=True), SCATTER),
    "all_to_all": (lambda a, n: lax.all_to_all(a, n, 0, 0, tiled=True), "all-to-all"),
    "ppermute": (
        lambda a, n: lax.ppermute(
            a, n, [(i, (i + 1) % lax.axis_size(n)) for i in range(lax.axis_size(n))]
        ),
        "collective-permute",
    ),
}
MESHES = [
    (("x", 4), ("y", 2)),
    (("x", 2), ("y", 2), ("z", 2)),
]
CHOICES = [
    (axes, names)
    for axes in MESHES
    for count in (1, 2, 3)
    for names in combinations([name for name, _ in axes], count)
]


@pytest.mark.parametrize("body", BODIES)
def test_the_axes_are_those_requested(body, subtests):
    for (axes, names), permuted in product(CHOICES, (False, True)):
        with subtests.test(axes=axes, names=names, permuted=permuted):
            function, kind = BODIES[body]
            sizes = tuple(size for _, size in axes)
            order = np.random.default_rng(1).permutation(8) if permuted else np.arange(8)
            grid = jax.sharding.Mesh(
                np.array(jax.devices())[order].reshape(sizes),
                tuple(name for name, _ in axes),
                axis_types=(AxisType.Auto,) * len(axes),
            )
            everyone = jax.P(grid.axis_names)
            argument = jax.device_put(jnp.ones((64, 8)), jax.NamedSharding(grid, everyone))
            program = jax.shard_map(
                partial(function, n=names), mesh=grid, in_specs=everyone, out_specs=everyone,
                check_vma=False,
            )  # fmt: skip
            (found,) = compiled(program, argument, grid=grid)
            assert found.kind == kind
            assert found.axes == names
            if kind != "collective-permute":
                # computed independently: devices that differ only in the named axes
                place = {d.id: index for index, d in np.ndenumerate(grid.devices)}
                kept = [i for i, name in enumerate(grid.axis_names) if name not in names]
                wanted = {
                    frozenset(e for e in place if all(place[e][i] == place[d][i] for i in kept))
                    for d in place
                }
                assert {frozenset(group) for group in found.groups} == wanted


@st.composite
def shardings(draw):
    """Draw a sharding of two dimensions on a mesh of eight devices, in any shape and order."""
    sizes = draw(st.sampled_from([(8,), (4, 2), (2, 4), (2, 2, 2)]))
    names = tuple("xyz"[: len(sizes)])
    devices = np.array(jax.devices())[list(draw(st.permutations(range(8))))].reshape(sizes)
    grid = jax.sharding.Mesh(devices, names, axis_types=(AxisType.Auto,) * len(sizes))
    entries: list[list[str]] = [[], []]
    for name in draw(st.permutations(names)):
        where = draw(st.integers(0, 2))
        if where < 2:
            entries[where].append(name)
    return jax.NamedSharding(grid, jax.P(*(tuple(entry) or None for entry in entries)))


@settings(max_examples=fewer(250))
@given(shardings(), st.integers(1, 3), st.integers(1, 3))
def test_gathering_everything_moves_the_bytes_that_the_sharding_implies(placed, rows, columns):
    """The bytes of all-gathers to a replicated array follow from the sharding alone."""
    sizes = dict(placed.mesh.shape)
    argument = jax.device_put(np.ones((8 * rows, 8 * columns), np.float32), placed)
    whole = jax.NamedSharding(placed.mesh, jax.P())
    found = compiled(lambda x: lax.with_sharding_constraint(x, whole), argument, grid=placed.mesh)
    named = [name for entry in placed.spec for name in (entry or ())]
    gathers = [c for c in found if c.kind == GATHER]
    assert sorted(name for c in gathers for name in c.axes) == sorted(named)
    assert {c.kind for c in found} <= {GATHER, "collective-permute"}
    block = argument.addressable_shards[0].data.nbytes
    for gather in gathers:
        assert gather.bytes_in == block
        block *= int(np.prod([sizes[name] for name in gather.axes]))
        assert gather.bytes_out == block
    assert block == argument.nbytes


@settings(max_examples=fewer(250))
@given(shardings(), st.sampled_from([(0,), (1,), (0, 1)]))
def test_a_sum_reduces_over_the_axes_that_shard_the_summed_dimensions(placed, dimensions):
    argument = jax.device_put(np.ones((16, 24), np.float32), placed)
    found = compiled(lambda x: x.sum(dimensions), argument, grid=placed.mesh)
    reduced = {name for d in dimensions for name in (placed.spec[d] or ())}
    assert {c.kind for c in found} <= {REDUCE}
    assert {name for c in found for name in c.axes} == reduced
    kept = [s for d, s in enumerate(argument.sharding.shard_shape((16, 24))) if d not in dimensions]
    assert all(c.bytes == 4 * int(np.prod(kept)) for c in found)


@pytest.mark.parametrize(("kept", "kind"), [("x", SCATTER), ("y", REDUCE)])
def test_an_all_reduce_that_is_sliced_along_another_axis_is_no_reduce_scatter(kept, kind):
    """Each device keeps half of the sum, but only along `x` do the halves of a group differ."""
    grid = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)

    def body(a):
        half = a.shape[0] // 2
        return lax.dynamic_slice_in_dim(lax.psum(a, "x"), lax.axis_index(kept) * half, half)

    argument = jax.device_put(np.ones((16, 8)), jax.NamedSharding(grid, jax.P("x")))
    program = jax.shard_map(
        body, mesh=grid, in_specs=jax.P("x"), out_specs=jax.P(kept), check_vma=False
    )
    (found,) = compiled(program, argument, grid=grid)
    assert found.kind == kind
    assert found.axes == ("x",)


def test_an_all_reduce_of_which_all_take_the_same_slice_is_no_reduce_scatter():
    grid = mesh(x=8)
    by_x = jax.NamedSharding(grid, jax.P("x"))
    argument = jax.device_put(np.ones((8, 64), np.float32), by_x)

    def body(a, i):
        return lax.dynamic_slice(lax.psum(a, "x"), (0, i[0] * 8), (1, 8))

    program = jax.shard_map(
        body, mesh=grid, in_specs=(jax.P("x"), jax.P()), out_specs=jax.P("x"), check_vma=False
    )
    (found,) = compiled(program, argument, np.array([3]), grid=grid)
    assert found.kind == REDUCE


def test_a_key_that_ends_a_computation_in_the_text_hides_nothing():
    """XLA does not escape the keys of frontend attributes when it prints them."""
    grid = mesh(x=8)
    argument = jax.device_put(np.ones((8, 8), np.float32), jax.NamedSharding(grid, jax.P("x")))

    def gathers(a):
        with set_xla_metadata(**{'a"\n}\nb': "c"}):
            b = jnp.sin(a)
        return lax.with_sharding_constraint(b, jax.NamedSharding(grid, jax.P())) + 1

    program = jax.jit(gathers).lower(argument).compile()
    (found,) = read_collectives(read_executable(program.runtime_executable()), grid)
    assert (found.kind, found.axes) == (GATHER, X)
    assert "\n}\nb" in str(program.as_text())


NEWER = b"\xf2\x05\x00"
"""Field 94, empty."""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda m: m.computations[-1].instructions.pop(0),
            "has an operand that does not stand before",
        ),
        (lambda m: m.computations.pop(0), "is called, and is missing"),
        (lambda m: setattr(m, "entry_computation_id", 99), "Computation 99 is called"),
        (lambda m: setattr(m.computations[-1], "root_id", 99), "no root"),
        (lambda m: setattr(m.computations[0], "id", m.computations[-1].id), "the same id"),
        (lambda m: collective_of(m).MergeFromString(NEWER), r"has unknown fields: \[94\]"),
        (
            lambda m: collective_of(m).collective_device_list.MergeFromString(NEWER),
            r"groups have unknown fields: \[94\]",
        ),
        (lambda m: setattr(collective_of(m).shape, "element_type", 99), "XLA's type 99"),
        (lambda m: setattr(m.device_assignment, "replica_count", 2), "several replicas"),
        (lambda m: setattr(collective_of(m), "opcode", b"all-new"), "A 'all-new' has groups"),
    ],
)
def test_what_is_not_understood_is_refused(change, why):
    path = RECORDINGS / "0.8.2" / "psum.pb"
    message = decode_module(path.read_bytes())
    change(message)
    with pytest.raises(UnreadableProgramError, match=why):
        read_module(message.SerializeToString())


def test_a_part_of_an_axis_without_steps_is_refused():
    """Found among 260,000 broken modules: seed 102274 of `random_programs`."""
    path = RECORDINGS / "0.12.0.1" / "psum.pb"
    message = decode_module(path.read_bytes())
    (axis,) = collective_of(message).mesh_axes_replica_groups.axes
    axis.sub_axis_info.size = 2
    with pytest.raises(UnreadableProgramError, match="A part of a mesh axis has a size below 1"):
        read_module(message.SerializeToString())


def collective_of(message, opcode=b"all-reduce"):
    (found,) = [i for c in message.computations for i in c.instructions if i.opcode == opcode]
    return found


@pytest.mark.parametrize("name", ["psum", "ppermute"])
def test_partitions_that_do_not_exist_are_refused(name):
    path = RECORDINGS / "0.8.2" / f"{name}.pb"
    message = decode_module(path.read_bytes())
    if name == "psum":
        collective_of(message).collective_device_list.replica_groups[0].replica_ids[0] = 99
    else:
        collective_of(message, b"collective-permute").source_target_pairs[0].target = 99
    with pytest.raises(UnreadableProgramError, match="names partitions that do not exist; the"):
        read_module(message.SerializeToString())


@pytest.mark.parametrize("parent", [0, 1], ids=["a chain", "a cycle"])
def test_a_long_chain_of_stack_frames_is_read(parent):
    path = RECORDINGS / "0.8.2" / "psum.pb"
    message = decode_module(path.read_bytes())
    frames = message.stack_frame_index.stack_frames
    del frames[1:]
    frames[0].parent_frame_id = parent
    location = frames[0].file_location_id
    for above in range(1, 8_000):
        frames.add(file_location_id=location, parent_frame_id=above)
    collective_of(message).metadata.stack_frame_id = len(frames)
    program = read_module(message.SerializeToString())
    stacks = [i.stack for c in program.computations.values() for i in c.values()]
    assert max(map(len, stacks)) == len(frames)


def test_bytes_that_are_not_a_module_are_refused():
    with pytest.raises(UnreadableProgramError, match="The module is not in order: Error parsing"):
        read_module(b"\xff\xff")


def test_a_collective_that_an_unknown_instruction_calls_is_refused():
    text = OTHER_FORMS.replace("async-start(%a)", "sort(%a)").replace("async-done(", "sort-done(")
    with pytest.raises(UnreadableProgramError, match="A 'sort' calls a collective"):
        read_collectives(program_of_text(text))


def test_an_offset_that_is_computed_from_booleans_is_evaluated():
    grid = mesh(x=8)

    def body(a):
        i = lax.axis_index("x")
        place = (i > 2).astype(int) - (i > 5).astype(int)
        return lax.dynamic_slice(lax.psum(a[0], "x"), (2 * place,), (2,))

    argument = jax.device_put(np.ones((8, 16), np.float32), jax.NamedSharding(grid, jax.P("x")))
    program = jax.shard_map(
        body, mesh=grid, in_specs=jax.P("x"), out_specs=jax.P("x"), check_vma=False
    )
    (found,) = compiled(program, argument, grid=grid)
    assert found.kind == REDUCE


GROUPS = {
    "{{0,1},{2,3}}": ((0, 1), (2, 3)),
    "{}": ((0, 1, 2, 3, 4, 5, 6, 7),),
    "[2,4]<=[8]": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "[2,4]<=[4,2]T(1,0)": ((0, 2, 4, 6), (1, 3, 5, 7)),
    "[4,2]<=[2,2,2]T(0,2,1)": ((0, 2), (1, 3), (4, 6), (5, 7)),
    "mesh['a'=4,'b'=2] {'a'}": ((0, 2, 4, 6), (1, 3, 5, 7)),
    "mesh['a'=4,'b'=2] {'b'}": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "mesh['a'=4,'b'=2] {'a','b'}": ((0, 1, 2, 3, 4, 5, 6, 7),),
    "mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}": ((0, 2, 4, 6), (1, 3, 5, 7)),
    "mesh['a'=2,'b'=4] {'b':(1)2}": ((0, 2), (1, 3), (4, 6), (5, 7)),
    "mesh['a'=2,'b'=4] {'b':(2)2}": ((0, 1), (2, 3), (4, 5), (6, 7)),
}


@pytest.mark.parametrize("text", GROUPS)
def test_every_form_of_groups(text):
    assert replica_groups(text, 8) == GROUPS[text]


# Forms that the CPU backend does not emit: pairs of start and done, asynchronous computations,
# tuples from XLA's combiner, TPU layouts, comments, unreachable computations.
OTHER_FORMS = """HloModule jit_f, is_scheduled=true, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%wrapped (p: f32[64]) -> f32[8] {
  %p = f32[64]{0:T(256)} parameter(0)
  ROOT %inner = f32[8]{0:T(256)} reduce-scatter(%p), replica_groups=[1,8]<=[8], dimensions={0}, to_apply=%add
}

%never (p: f32[64]) -> f32[64] {
  %p = f32[64]{0} parameter(0)
  ROOT %left.out = f32[64]{0} all-reduce(%p), replica_groups={}, to_apply=%add
}

ENTRY %main (a: f32[64], b: bf16[8,128]) -> f32[64] {
  %a = f32[64]{0:T(256)} parameter(0), metadata={op_name="all-gather(\\"%fake\\") = f32[8] all-reduce(%a)"}
  %b = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} parameter(1)
  %start = (f32[64]{0:T(256)}, f32[512]{0:T(256)}) all-gather-start(%a), channel_id=1, replica_groups=[1,8]<=[8], dimensions={0}
  %done = f32[512]{0:T(256)} all-gather-done(%start)
  %both = (f32[64]{0}, bf16[8,128]{1,0}) all-reduce(f32[64]{0} %a, /*index=1*/bf16[8,128]{1,0} %b), replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%add
  %shift = (bf16[8,128]{1,0}, bf16[8,128]{1,0}, u32[], u32[]) collective-permute-start(%b), source_target_pairs={{0,1},{1,0}}
  %shifted = bf16[8,128]{1,0} collective-permute-done(%shift)
  %idle = f32[64]{0} all-reduce(%a), replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}, to_apply=%add
  %stay = f32[64]{0} collective-permute(%a), source_target_pairs={{0,0},{1,1}}
  %async = ((f32[64]{0}), f32[8]{0}, u32[]) async-start(%a), calls=%wrapped
  %waited = f32[8]{0} async-done(%async), calls=%wrapped
  %spread = f32[64]{0} collective-broadcast(%a), replica_groups={{0,1},{2,3},{4,5},{6,7}}
  ROOT %out = f32[64]{0} get-tuple-element(%both), index=0
}
"""  # noqa: E501


def test_forms_that_other_backends_emit():
    found = read_collectives(program_of_text(OTHER_FORMS))
    assert sorted((c.kind, c.bytes_in, c.bytes_out, c.size) for c in found) == [
        ("all-gather", 256, 2048, 8),
        ("all-reduce", 256 + 2048, 256 + 2048, 4),
        ("collective-broadcast", 256, 256, 2),
        ("collective-permute", 2048, 2048, 2),
        ("reduce-scatter", 256, 32, 8),
    ]
    assert all(c.axes == () for c in found)


def test_a_mesh_of_part_of_the_devices():
    grid = mesh(x=2, y=2)
    argument = jax.device_put(np.ones((8, 8), np.float32), jax.NamedSharding(grid, jax.P("x", "y")))
    (found,) = compiled(lambda x: x.sum(0), argument, grid=grid)
    assert found.axes == ("x",)
    assert found.groups == ((0, 2), (1, 3))


def test_without_a_mesh_groups_are_partitions():
    module = (RECORDINGS / "0.10.2" / "psum.pb").read_bytes()
    (found,) = read_collectives(read_module(module))
    assert found.axes == ()
    assert found.groups == ((0, 2, 4, 6), (1, 3, 5, 7))


def test_constants_and_strings_do_not_confuse_the_text_reader():
    program = parse(OTHER_FORMS)
    entry = program.computations[program.entry]
    assert entry["both"].operands == ("a", "b")
    assert entry["a"].opcode == "parameter"
    assert entry["a"].attributes["metadata"].startswith('{op_name="all-gather(')


SLICED = """HloModule cut, num_partitions=8

ENTRY %main (a: f32[16]) -> (f32[2], f32[2]) {{
  %a = f32[16] parameter(0)
  %sum = f32[16] all-reduce(%a), replica_groups={{{{0,1,2,3,4,5,6,7}}}}, to_apply=%add
  %id = u32[] partition-id()
  %i = s32[] convert(%id)
  %two = s32[] constant({factor})
  %begin = s32[] multiply(%i, %two)
  %last = s32[] constant(14)
  %back = s32[] subtract(%last, %begin)
  %one = f32[2] dynamic-slice(%sum, %begin), dynamic_slice_sizes={{2}}
  %other = f32[2] dynamic-slice(%sum, {second}), dynamic_slice_sizes={{2}}
  ROOT %both = (f32[2], f32[2]) tuple(%one, %other)
}}
"""


@pytest.mark.parametrize(
    ("factor", "second", "kind"),
    [
        (2, "%begin", SCATTER),
        (1, "%begin", REDUCE),  # slices that overlap
        (16, "%begin", REDUCE),  # slices that would reach over the end, and are moved back
        (2, "%back", REDUCE),  # two slices on each device
    ],
)
def test_a_reduce_scatter_has_one_slice_on_each_device_and_none_overlap(factor, second, kind):
    (found,) = read_collectives(program_of_text(SLICED.format(factor=factor, second=second)))
    assert found.kind == kind


@pytest.mark.parametrize("added", ["%late{this}", "%zero"])
def test_an_offset_that_takes_too_many_steps_is_unknown(added):
    """If each addition uses the one before it twice, there are 2 to the power of 400 paths."""
    text = SLICED.format(factor=2, second="%late400").replace("(%sum, %begin)", "(%sum, %late400)")
    chain = ["  %zero = s32[] constant(0)", "  %late0 = s32[] add(%begin, %zero)"]
    chain += [f"  %late{i + 1} = s32[] add(%late{i}, {added.format(this=i)})" for i in range(400)]
    before, one, after = text.partition("  %one =")
    (found,) = read_collectives(
        program_of_text("\n".join([before.rstrip("\n"), *chain, one + after]))
    )
    assert found.kind == REDUCE


LOOP = """HloModule loop, num_partitions=8

%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {{
  %p = (s32[], f32[4]) parameter(0)
  %step = s32[] constant({step})
  %i = s32[] get-tuple-element({i}), index=0
  %held = s32[] copy(%i)
  %next = s32[] add(%held, %step)
  %again = s32[] copy(%{again})
  %v = f32[4] get-tuple-element(%p), index=1
  %sum = f32[4] all-reduce(%v), replica_groups={{{{0,1,2,3,4,5,6,7}}}}, to_apply=%add
  ROOT %t = (s32[], f32[4]) tuple(%again, %sum)
}}

%condition (q: (s32[], f32[4])) -> pred[] {{
  %q = (s32[], f32[4]) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %limit = s32[] constant({limit})
  ROOT %c = pred[] compare(%j, %limit), direction={direction}
}}

ENTRY %main (a: f32[4]) -> f32[4] {{
  %a = f32[4] parameter(0)
  %start = s32[] constant({start})
  %copied = s32[] copy(%start)
  %carried = (s32[], f32[4]) tuple(%copied, %a)
  %loop = (s32[], f32[4]) while(%carried), condition=%condition, body=%body{noted}
  ROOT %out = f32[4] get-tuple-element(%loop), index=1
}}
"""


@pytest.mark.parametrize(
    ("changes", "times"),
    [
        ({}, 7),
        ({"start": 2, "step": 3, "limit": 11}, 3),
        ({"start": 2, "step": 3, "limit": 12}, 4),
        ({"limit": -1}, 0),
        ({"noted": ', backend_config={"known_trip_count":{"n":"5"}}'}, 5),
        ({"direction": "NE"}, None),
        ({"step": 0}, None),
        ({"limit": 2**31 - 1, "step": 2}, None),
        ({"direction": "LT, type=UNSIGNED"}, 7),
        ({"direction": "LT, type=UNSIGNED", "start": -1}, None),
        ({"direction": "LT, type=UNSIGNED", "limit": -1}, None),
        ({"again": "next"}, 7),
        ({"again": "i"}, None),
        ({"i": "%step"}, None),
        ({"limit": "inf"}, None),
    ],
)
def test_a_trip_count_is_computed_where_the_compiler_has_noted_none(changes, times):
    usual = {"start": 0, "step": 1, "limit": 7, "direction": "LT", "noted": "", "i": "%p"}
    text = LOOP.format(**{**usual, "again": "next", **changes})
    (found,) = read_collectives(program_of_text(text))
    assert found.times == times
