"""What do the tests find? Faults are planted, and the tests are run on each.

A fault is a small change to one expression or statement, drawn at random, such as `<` in place of
`<=`. It is tried in three rounds, until a test fails: the tests of its own package, on one fault
at a time; what `make test` runs, without the grading of classes and then with it, on several faults
at once, and where a test fails, that test on each of them alone. With `--all` follow the tests that
`make test` leaves out. What nobody notices is listed: a test is missing there, or the change makes
no difference.

    python benchmarks/mutants.py --count 300 --into rows.jsonl      two hours on two cores
    python benchmarks/mutants.py --count 20 --near                  a package's own tests alone

A run that broke off goes on where its file ends, on the same commit. mutmut and cosmic-ray do this
too. The first wants one process that has imported all tests, where ours start many; the second
mutates everything before anything can be drawn. Neither can begin with a package's own tests, or
try faults together.
"""

import argparse
import ast
import copy
import json
import os
import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parent.parent
PACKAGES = ("judge", "layouts", "programs", "evidence", "processes", "instructor/pipeline")
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip
NEAR_SECONDS, SECONDS = 900, 1800
"""How long a package's tests, and all of them, may take on faults; what hangs them is found."""
COPIES = 2
"""How many faults are tried side by side."""
NEAR = "its package's tests"
"""The first round."""
NOTHING_COLLECTED = 5
"""pytest's exit code where no test was asked for."""


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


def package_of(fault: Fault) -> str:
    """The package that a fault is in, which is the folder of its tests too."""
    return next(p for p in PACKAGES if fault.file.startswith(f"autograder/{p}/"))


@dataclass
class Copy:
    """A checkout of its own, with its environment, in which faults are planted."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> "Copy":
        """Clone what is committed here, and install it there."""
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(root)], check=True)
        subprocess.run(["make", "--silent", ".venv/installed"], cwd=root, check=True)
        return cls(root)

    def failing(
        self, faults: Sequence[Fault], tests: Sequence[str], *options: str, seconds: int = SECONDS
    ) -> list[str]:
        """The tests that fail on some faults, which do not overlap."""
        before = {fault.file: (self.root / fault.file).read_bytes() for fault in faults}
        for fault in sorted(faults, key=lambda fault: -fault.start):
            path = self.root / fault.file
            data = path.read_bytes()
            path.write_bytes(data[: fault.start] + fault.new.encode() + data[fault.end :])
        try:
            return self._run(tests, *options, seconds=seconds)
        finally:
            for file, data in before.items():
                (self.root / file).write_bytes(data)

    def _run(self, tests: Sequence[str], *options: str, seconds: int) -> list[str]:
        command = [".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        try:
            done = subprocess.run(
                [*command, *tests], cwd=self.root, capture_output=True, text=True, check=False,
                stdin=subprocess.DEVNULL, timeout=seconds,
                env={"SHARDLINGS_EVERY": "15", "SHARDLINGS_SEED": "1", **os.environ},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return ["it hangs"]
        if done.returncode in (0, NOTHING_COLLECTED):
            return []
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return failed or ["nothing can be run"]


def together(faults: Sequence[Fault], size: int) -> list[list[Fault]]:
    """Groups of faults, each in a file of its own, so that they do not overlap."""
    groups: list[list[Fault]] = []
    for fault in faults:
        for group in groups:
            if len(group) < size and all(fault.file != other.file for other in group):
                group.append(fault)
                break
        else:
            groups.append([fault])
    return groups


def found_in_group(
    copy: Copy, faults: list[Fault], tests: Sequence[str], *options: str
) -> dict[Fault, str]:
    """Which of some faults are found, and by what: the tests that fail on all are tried on each."""
    found: dict[Fault, str] = {}
    while faults:
        failing = copy.failing(faults, tests, "-n", "3", *options)
        if not failing:
            break
        first = {test.partition("::")[0]: test for test in reversed(failing)}
        again = [test for test in first.values() if "::" in test or test.endswith(".py")]
        new = {}
        for fault in faults:
            if by := copy.failing([fault], again or tests, "-x", *options):
                new[fault] = by[0]
        found |= new
        faults = [fault for fault in faults if fault not in new]
        if not new:
            print("found together, and none of them alone:", *map(str, faults), sep="\n  ")
            break
    return found


def main() -> None:
    """Plant faults, and say which are found and by what."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--near", action="store_true", help="run a package's own tests alone")
    parser.add_argument(
        "--all", action="store_true", help="and the tests that make test leaves out"
    )
    parser.add_argument("--into", type=Path, help="a file with a row for each fault in each round")
    given = parser.parse_args()
    files = [f for p in PACKAGES for f in sorted((ROOT / "autograder" / p).rglob("*.py"))]
    every = [fault for file in files for fault in faults_in(file)]
    sampled = random.Random(given.seed).sample(every, given.count)
    drawn = [fault for fault in sampled if fault.new != fault.old]
    print(f"{len(drawn)} of {len(every)} faults, by seed {given.seed}", flush=True)
    by, tried = dict[str, str](), set[tuple[str, str]]()
    if given.into and given.into.exists():
        for row in map(json.loads, given.into.read_text().splitlines()):
            by[row["fault"]] = row["by"]
            tried.add((row["fault"], row["round"]))

    def note(fault: Fault, test: str, name: str) -> None:
        by[str(fault)] = test
        print(f"{'found by ' + test if test else 'not found by ' + name}  {fault}", flush=True)
        if given.into:
            with given.into.open("a") as file:
                file.write(json.dumps({"fault": str(fault), "by": test, "round": name}) + "\n")

    def left(name: str = "") -> list[Fault]:
        """The faults that were not found yet, and not tried in a round."""
        unfound = [fault for fault in drawn if not by.get(str(fault))]
        return [fault for fault in unfound if (str(fault), name) not in tried]

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(COPIES) as pool:
        copies = SimpleQueue[Copy]()
        for number in range(COPIES):
            copies.put(Copy.make(Path(folder) / str(number)))

        def near(fault: Fault) -> None:
            copy = copies.get()
            tests = [f"tests/{package_of(fault)}"]
            quick = ("-x", "-m", "not slow", "--timeout", "120")
            failing = copy.failing([fault], tests, *quick, seconds=NEAR_SECONDS)
            note(fault, (failing or [""])[0], NEAR)
            copies.put(copy)

        list(pool.map(near, left(NEAR)))

        def round_of(name: str, size: int, tests: list[str], *options: str) -> None:
            for group in together(left(name), size):
                copy = copies.get()
                found = found_in_group(copy, group, tests, *options)
                for fault in group:
                    note(fault, found.get(fault, ""), name)
                copies.put(copy)

        if not given.near:
            quick = ("-m", "not slow")
            round_of("make test-oldest", 8, ["tests", "--ignore=tests/instructor"], *quick)
            round_of("make test", 8, ["tests/instructor"], *quick)
        if given.all:
            os.environ["SHARDLINGS_EVERY"] = "1"
            round_of("make test-all", 100, ["tests"])
    for package in PACKAGES:
        of = [fault for fault in drawn if package_of(fault) == package]
        print(f"{package:20} {sum(bool(by.get(str(f))) for f in of):4} of {len(of):4}")
    print(f"{'all':20} {len(drawn) - len(left()):4} of {len(drawn):4}")
    folders = Counter(str(Path(test.partition("::")[0]).parent) for test in by.values() if test)
    for where, count in folders.most_common():
        print(f"{count:4} by {where}")


if __name__ == "__main__":
    main()
