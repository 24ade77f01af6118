"""Plant faults in the package, and list those that no test finds.

A fault is a small change to one expression or statement, drawn at random, such as `<=` in place of
`<`. The tests run once under coverage, which says for each line which tests run it. Then each fault
is planted in a copy of the checkout and tried on those tests alone until one fails: all of its own
package's, then some of the others. A line that only runs while modules are imported is tried on its
package's tests.

    python benchmarks/mutants.py --count 300 --into rows.jsonl      two hours on two cores
    python benchmarks/mutants.py --count 20 --packages layouts      twenty faults in one package

Coverage sees the processes that pytest runs in, not those that tests start. `--classes` tries the
faults that are left on the grading of classes, eight at once, and each alone where a test fails. A
run that broke off goes on where its file ends, on the same commit.

mutmut and cosmic-ray do this too. mutmut wants one process that has imported all tests, and ours
start many; cosmic-ray runs all tests on each fault, which would take days.
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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "autograder/artifacts", "autograder/evidence", "autograder/instructor/pipeline",
    "autograder/judge", "autograder/processes", "shardlings/layouts", "shardlings/programs",
)  # fmt: skip
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip
FAULT_SECONDS, CLASSES_SECONDS = 900, 1800
"""How long the tests of each round may take; pytest itself ends a test that hangs."""
OUT_OF_TIME = "out of time"
"""In place of a test where they took longer, which is neither found nor not found."""
COPIES = 2
"""How many faults are tried side by side."""
OWN, CLASSES = "the tests that run its line", "the grading of classes"
"""The two rounds."""
MAX_OTHER_TESTS = 20
"""How many tests of other packages a fault is tried on: hundreds run some lines."""
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
            new.ops[0] = SWAPPED[type(new.ops[0])]()  # type: ignore[call-overload]
        case ast.BoolOp() | ast.BinOp() if type(new.op) in SWAPPED:
            new.op = SWAPPED[type(new.op)]()  # type: ignore[assignment]
        case ast.UnaryOp(op=ast.Not()):
            return new.operand
        case ast.Constant(value=bool()):
            new.value = not new.value
        case ast.Constant(value=int(number)):
            new.value = number + 1
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
    """The package that a fault is in."""
    return next(p for p in PACKAGES if fault.file.startswith(f"{p}/"))


def folder_of_tests(fault: Fault) -> str:
    """The folder of that package's tests."""
    return f"tests/{package_of(fault).removeprefix('autograder/')}"


@dataclass
class Copy:
    """A checkout of its own, with its environment, in which faults are planted."""

    root: Path

    @classmethod
    def make(cls, root: Path) -> "Copy":
        """Clone what is committed here, and install it there."""
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(root)], check=True)
        subprocess.run(["make", "--silent", ".venv/installed"], cwd=root, check=True)
        uv = [".venv/bin/uv", "pip", "install", "--quiet", "--python", ".venv", "pytest-cov>=7"]
        subprocess.run(uv, cwd=root, check=True)
        return cls(root)

    def cover(self, data: Path) -> None:
        """Run the tests once, and write which lines each of them runs.

        Raises:
            RuntimeError: a test fails without a fault, and would be said to find every fault.
        """
        wanted = ["--cov=shardlings", "--cov=autograder", "--cov-context=test", "--cov-report="]
        environment = {"COVERAGE_FILE": str(data)}
        done = self._pytest(["-n", "4", *QUICK, *wanted, "tests"], None, environment)
        if done.returncode:
            raise RuntimeError(f"These tests fail without a fault:\n{done.stdout[-4000:]}")

    def failing(self, faults: Sequence[Fault], arguments: Sequence[str], seconds: int) -> list[str]:
        """The tests that fail on some faults, which do not overlap."""
        before = {fault.file: (self.root / fault.file).read_bytes() for fault in faults}
        for fault in sorted(faults, key=lambda fault: -fault.start):
            path = self.root / fault.file
            data = path.read_bytes()
            path.write_bytes(data[: fault.start] + fault.new.encode() + data[fault.end :])
        try:
            done = self._pytest([*arguments, *QUICK], seconds)
        except subprocess.TimeoutExpired:
            return [OUT_OF_TIME]
        finally:
            for file, data in before.items():
                (self.root / file).write_bytes(data)
        if done.returncode in (0, NOTHING_COLLECTED):
            return []
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return failed or ["nothing can be run"]

    def _pytest(
        self, arguments: Sequence[str], seconds: int | None, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
            cwd=self.root, capture_output=True, text=True, check=False, timeout=seconds,
            stdin=subprocess.DEVNULL, env={**SAMPLE, **os.environ, **(more or {})},
        )  # fmt: skip


QUICK = ("-m", "not slow", "--timeout", "150")
SAMPLE = {"SHARDLINGS_EVERY": "15", "SHARDLINGS_SEED": "1"}
"""What `make test` leaves out, and the share that it tries of what there is very much of."""


def tests_of(fault: Fault, lines: Mapping[int, list[str]]) -> list[str]:
    """The tests that run a fault's line, those of its own package first.

    Args:
        fault: the fault.
        lines: the contexts of each line of its file, such as `tests/a/test_b.py::test_c[1]|run`.
    """
    own, others = set[str](), set[str]()
    for context in sorted(lines.get(fault.line, [])):
        test, _, phase = context.partition("|")
        if not test.startswith(folder_of_tests(fault)):
            others.add(test)
        elif phase == "run":
            own.add(test.partition("[")[0])
        else:  # a fixture that many tests share counts as the first one's
            own.add(test.partition("::")[0])
    others.discard("")  # what runs while modules are imported
    some = random.Random(str(fault)).sample(sorted(others), min(len(others), MAX_OTHER_TESTS))
    return [*sorted(own), *some] or [folder_of_tests(fault)]


def contexts_of(copy: Copy, data: Path) -> dict[str, dict[int, list[str]]]:
    """The tests that run each line of each file, read in the copy, which has coverage installed."""
    code = (
        "import coverage, json, sys; data = coverage.CoverageData(sys.argv[1]); data.read();"
        "print(json.dumps({f: data.contexts_by_lineno(f) for f in data.measured_files()}))"
    )
    command = [".venv/bin/python", "-c", code, str(data.resolve())]
    read = subprocess.run(command, cwd=copy.root, capture_output=True, text=True, check=True)
    return {
        str(Path(file).relative_to(copy.root)): {int(n): c for n, c in lines.items()}
        for file, lines in json.loads(read.stdout).items()
    }


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


def found_in_group(copy: Copy, faults: list[Fault]) -> dict[Fault, str]:
    """Which of some faults are found where classes are graded, and by what.

    The tests that fail on all of them together are tried on each.
    """
    found: dict[Fault, str] = {}
    while faults:
        failing = copy.failing(faults, ["-n", "3", "tests/instructor"], CLASSES_SECONDS)
        first = {test.partition("::")[0]: test for test in reversed(failing)}
        tests = [test for test in first.values() if test.startswith("tests")]
        new = {}
        for fault in faults if tests else []:
            if by := copy.failing([fault], ["-x", *tests], FAULT_SECONDS):
                new[fault] = by[0]
        if not new:
            break
        found |= new
        faults = [fault for fault in faults if fault not in new]
    return found


def main() -> None:
    """Plant faults, and say which are found and by what."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--packages", nargs="+", default=PACKAGES, choices=PACKAGES)
    parser.add_argument("--classes", action="store_true", help="try the rest on graded classes")
    parser.add_argument("--into", type=Path, help="a file with a row for each fault in each round")
    parser.add_argument("--coverage", type=Path, help="where the coverage is, or will be")
    given = parser.parse_args()
    files = [f for p in given.packages for f in sorted((ROOT / p).rglob("*.py"))]
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

    # not below /tmp, which the sandbox hides from what runs in it
    within = tempfile.TemporaryDirectory(dir=Path.home(), prefix="faults-")
    with within as folder, ThreadPoolExecutor(COPIES) as pool:
        copies = SimpleQueue[Copy]()
        for number in range(COPIES):
            copies.put(Copy.make(Path(folder) / str(number)))
        covered = given.coverage or Path(folder) / "coverage"
        copy = copies.get()
        if not covered.exists():
            copy.cover(covered.resolve())
        contexts = contexts_of(copy, covered)
        copies.put(copy)

        def try_own(fault: Fault) -> None:
            copy = copies.get()
            tests = tests_of(fault, contexts.get(fault.file, {}))
            note(fault, (copy.failing([fault], ["-x", *tests], FAULT_SECONDS) or [""])[0], OWN)
            copies.put(copy)

        list(pool.map(try_own, left(OWN)))
        for group in together(left(CLASSES), 8) if given.classes else []:
            found = found_in_group(copy, group)
            for fault in group:
                note(fault, found.get(fault, ""), CLASSES)
    for package in given.packages:
        of = [fault for fault in drawn if package_of(fault) == package]
        print(f"{package:20} {sum(bool(by.get(str(f))) for f in of):4} of {len(of):4}")
    print(f"{'all':20} {len(drawn) - len(left()):4} of {len(drawn):4}")
    folders = Counter(str(Path(test.partition("::")[0]).parent) for test in by.values() if test)
    for where, count in folders.most_common():
        print(f"{count:4} by {where}")


if __name__ == "__main__":
    main()
