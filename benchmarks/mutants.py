"""What do the tests find? Faults are planted, and the tests are run on each.

A fault is a small change to one expression or statement, drawn at random, such as `<` in place of
`<=`. The tests of its own package are run first and then, if none fails, all that `make test` runs.
What nobody notices is listed: a test is missing there, or the change makes no difference.

    python benchmarks/mutants.py --count 300              in a copy; a night on two cores
    python benchmarks/mutants.py --count 20 --near        a package's own tests alone

mutmut and cosmic-ray do this too. The first wants one process that has imported all tests, where
ours start many; the second mutates everything before anything can be drawn. Neither can begin with
a package's own tests.
"""

import argparse
import ast
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("judge", "layouts", "programs", "evidence", "processes", "instructor/pipeline")
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip
SECONDS = 1800
"""How long the tests may take on a fault; one that hangs them is found."""


@dataclass(frozen=True)
class Fault:
    """A change to a file: what stands between two places in its bytes, and what will."""

    file: str
    start: int
    end: int
    new: str
    line: int
    old: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old} -> {self.new}"


def changed(node: ast.AST) -> ast.AST | None:
    """A node with a fault in it; None where there is none to make."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare():
            new.ops[0] = SWAPPED[type(new.ops[0])]()  # type: ignore[assignment]
        case ast.BoolOp() | ast.BinOp() if type(new.op) in SWAPPED:
            new.op = SWAPPED[type(new.op)]()  # type: ignore[assignment]
        case ast.UnaryOp(op=ast.Not()):
            return new.operand
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int()):
            new.value += 1
        case ast.IfExp():
            new.body, new.orelse = new.orelse, new.body
        case ast.Return(value=value) if value is not None:
            new.value = ast.Constant(None)
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            return ast.Pass()
        case _:
            return None
    return new


def runs(node: ast.AST) -> Iterator[ast.AST]:
    """What of a module is run when it is used: no annotations, and nothing within an f-string."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params") or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child
                yield from runs(child)


def faults_in(file: Path) -> Iterator[Fault]:
    """All faults that can be planted in a file."""
    data = file.read_bytes()
    begin = [0, *(match.end() for match in re.finditer(b"\n", data))]
    for node in runs(ast.parse(data)):
        new = changed(node)
        if new is None or not isinstance(node, ast.expr | ast.stmt):
            continue
        start = begin[node.lineno - 1] + node.col_offset
        end = begin[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        text = ast.unparse(new)
        text = (
            f"({text})"
            if isinstance(node, ast.expr) and not isinstance(new, ast.Constant)
            else text
        )
        name = str(file.relative_to(ROOT))
        yield Fault(name, start, end, text, node.lineno, data[start:end].decode())


def found_by(root: Path, tests: list[str]) -> str:
    """The first test that fails; nothing where none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-n", "logical"]
    report = ["--dist", "loadscope", "--timeout", "300", "-p", "no:cacheprovider"]
    environment = {"SHARDLINGS_EVERY": "10", "SHARDLINGS_SEED": "1", **os.environ}
    try:
        done = subprocess.run(
            [*command, *report, *tests], cwd=root, capture_output=True, text=True, check=False,
            env={**environment, "PYTHONPATH": str(root)}, timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it hangs"
    if done.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else "nothing can be run"


def main() -> None:
    """Plant faults, and say which are found and by what."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--near", action="store_true", help="run a package's own tests alone")
    parser.add_argument("--into", type=Path, help="a file to which each fault's row is added")
    given = parser.parse_args()
    files = [f for p in PACKAGES for f in sorted((ROOT / "autograder" / p).rglob("*.py"))]
    every = [fault for file in files for fault in faults_in(file)]
    drawn = random.Random(given.seed).sample(every, given.count)
    print(f"{len(drawn)} of {len(every)} faults, by seed {given.seed}")
    found, planted = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "checkout"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(root)], check=True)
        for fault in drawn:
            path, began = root / fault.file, time.monotonic()
            package = next(p for p in PACKAGES if fault.file.startswith(f"autograder/{p}/"))
            data = path.read_bytes()
            path.write_bytes(data[: fault.start] + fault.new.encode() + data[fault.end :])
            by = found_by(root, [f"tests/{package}"]) or (
                "" if given.near else found_by(root, ["tests"])
            )
            path.write_bytes(data)
            planted[package] += 1
            found[package] += bool(by)
            seconds = round(time.monotonic() - began)
            print(f"{'found by ' + by if by else 'NOT FOUND'} ({seconds} s)  {fault}", flush=True)
            if given.into:
                row = {"fault": str(fault), "by": by, "seconds": seconds}
                with given.into.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    for package in PACKAGES:
        print(f"{package:20} {found[package]:4} of {planted[package]:4}")
    print(f"{'all':20} {found.total():4} of {planted.total():4}")


if __name__ == "__main__":
    main()
