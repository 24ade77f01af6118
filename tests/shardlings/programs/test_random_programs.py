"""Both readers of compiled programs agree on random programs, and refuse broken ones."""

from pathlib import Path

import jax
import pytest

from tests.conftest import some_of
from tests.shardlings.programs.random_programs import breaks, broken, compiled, disagreement

RECORDED = sorted(Path(__file__).parent.joinpath("recorded").glob("*/*.pb"))


@pytest.mark.parametrize("number", some_of(range(40)))
def test_both_readers_agree(number):
    try:
        program = compiled(number)
    except jax.errors.JaxRuntimeError as error:  # a bug of XLA's in some versions
        pytest.skip(f"XLA refuses it: {str(error)[:100]}")
    assert not disagreement(*program)


def test_a_module_with_changed_bytes_is_read_or_refused(subtests):
    for path in RECORDED:
        with subtests.test(f"{path.parent.name}-{path.stem}"):
            module = path.read_bytes()
            assert not breaks(module)
            assert 0 < sum(breaks(broken(module, number)) for number in range(100)) < 100
