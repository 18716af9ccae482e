"""Change the code of notebooks at random, and see whether their tests notice.

Each mutation changes one place in one cell of a copy, which pytest then runs as ``make
test`` does: strict nbval, against the stored outputs, up to the first difference. The
kinds of mutation:

- ``sign``: drop a unary minus, exchange ``+`` and ``-``;
- ``constant``: a number becomes a tenth larger or smaller, an integer by at least 1;
- ``swap``: exchange what ``-``, ``/``, ``//``, ``%``, ``**`` and ``@`` join, or the first
  two arguments of a call;
- ``sibling``: sin for cos, exp for log, maximum for minimum, reduce_sum for reduce_mean,
  ``*`` for ``/``, ``<`` for ``>``, ... (``SIBLINGS``);
- ``stop``: drop a ``stop_gradient``, called ``sg`` too, or an argument ``stop_gradients``;
- ``factor``: drop one factor of a product, or a divisor.

The kind is drawn first, then the place, so that rare kinds have their turn; each chapter
gets the same share. Left alone, since they do not count: cells tagged ``hide-input``
(they draw) or ``remove-cell``, drawing calls, what is in an f-string (it is output),
tolerances (their keywords, and a number that ``<`` or ``>`` compares with outside of
functions), seeds, and the layout of text (``LAYOUT``).

A mutation counts if the comparison notices it (another output, an error, a cell that
takes longer than a minute and the whole unchanged notebook), or if, after the cell that
it changed or a later one, a global variable that some cell reads has another value than
in the unchanged notebook, to the last bit. Compared are numbers, strings, arrays, eager
tensors and variables, SymPy's expressions, the containers of these, the variables of
Keras' objects, and the attributes of objects whose class is of the page, of ``utils`` or
of NetworkX. What differs from run to run (times) does not count. So a changed function
counts by what the page does with it, and a mutation that changes nothing is followed by
another in its stead. Those that count and are not noticed survive.

The same seed draws the same mutations of the same code. Run over the whole book, it
writes ``tests/mutations/notebooks.md``. It fails if less than 95 % are noticed, or if
``tests/mutations/notebooks.toml`` has no reason to let one survive.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import hashlib
import io
import itertools
import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
REASONS = ROOT / "tests" / "mutations" / "notebooks.toml"
RESULTS = ROOT / "tests" / "mutations" / "notebooks.md"
ENOUGH = 0.95

SIBLINGS = [
    ("sin", "cos"),
    ("exp", "log"),
    ("maximum", "minimum"),
    ("reduce_sum", "reduce_mean"),
    ("reduce_max", "reduce_min"),
    ("sum", "mean"),
    ("max", "min"),
    ("argmax", "argmin"),
    ("any", "all"),
    ("std", "var"),
    ("square", "sqrt"),
    ("tanh", "sigmoid"),
    ("floor", "ceil"),
    ("ones", "zeros"),
    ("ones_like", "zeros_like"),
    ("multiply", "divide"),
    ("assign_add", "assign_sub"),
    ("real", "imag"),
]
SIBLING = dict(SIBLINGS) | {b: a for a, b in SIBLINGS}
OPERATORS = {
    ast.Add: ("+", "-", "sign"),
    ast.Sub: ("-", "+", "sign"),
    ast.Mult: ("*", "/", "sibling"),
    ast.Div: ("/", "*", "sibling"),
    ast.Lt: ("<", ">", "sibling"),
    ast.Gt: (">", "<", "sibling"),
    ast.LtE: ("<=", ">=", "sibling"),
    ast.GtE: (">=", "<=", "sibling"),
}
ORDERED = {
    ast.Sub: "-",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
}
ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript)
STOPS = {"stop_gradient", "sg"}
# Calls whose arguments are left alone: they draw, seed, or lay out text.
DRAWING = {"plt", "fig", "ax", "textwrap"}
SEEDING = {
    "Generator",
    "SeedGenerator",
    "default_rng",
    "from_seed",
    "set_random_seed",
    "set_seed",
}
LAYOUT = {"draw", "ljust", "rjust", "round", "set_printoptions"}
KEYWORDS = {"atol", "rtol", "tol", "figsize", "seed"}
# Calls whose first two arguments have no order, or one that no one mistakes.
UNORDERED = {
    "add",
    "allclose",
    "array_equal",
    "equal",
    "getattr",
    "isclose",
    "isinstance",
    "maximum",
    "minimum",
    "multiply",
    "print",
    "super",
}


@dataclass(frozen=True)
class Edit:
    """One change of a cell's source: the bytes from start to stop become text."""

    kind: str
    start: int
    stop: int
    text: str

    def apply(self, source: str) -> str:
        raw = source.encode()
        new = raw[: self.start] + self.text.encode() + raw[self.stop :]
        return new.decode()

    def lines(self, source: str) -> tuple[str, str]:
        """Return the lines that change, before and after, on one line each."""
        raw = source.encode()
        head = raw[: self.start].rpartition(b"\n")[2]
        tail = raw[self.stop :].partition(b"\n")[0]
        old = raw[self.start : self.stop]
        both = (head + middle + tail for middle in (old, self.text.encode()))
        return tuple(" ".join(line.decode().split()) for line in both)


def nudged(value: complex) -> list[str]:
    """Return the numbers that take the place of a constant."""
    if isinstance(value, int):
        step = max(1, round(abs(value) / 10))
        return [str(value + step), str(value - step)]
    if isinstance(value, complex):
        return [f"{f * value.imag:.6g}j" for f in (1.1, 0.9)]
    texts = [f"{f * value:.6g}" for f in (1.1, 0.9)] if value else ["0.1"]
    return [t if set(t) & set(".e") else f"{t}.0" for t in texts]


class Finder(ast.NodeVisitor):
    """Collect the edits of one cell."""

    def __init__(self, source: str) -> None:
        self.raw = source.encode()
        lines = self.raw.splitlines(keepends=True)
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))
        self.edits: list[Edit] = []
        self.depth = 0  # of functions
        self.visit(ast.parse(source))

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        start, stop = self.span(node)
        return self.raw[start:stop].decode()

    def add(self, kind: str, start: int, stop: int, text: str) -> None:
        self.edits.append(Edit(kind, start, stop, text))

    def between(self, left: ast.AST, right: ast.AST, sign: str):
        """Return where the operator between two operands starts and ends."""
        start, stop = self.span(left)[1], self.span(right)[0]
        # What is no operator in between: parentheses, and comments.
        gap = re.sub(
            rb"#[^\n]*", lambda m: b" " * len(m[0]), self.raw[start:stop]
        )
        at = start + gap.index(sign.encode())
        return at, at + len(sign)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_Lambda = visit_FunctionDef

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass  # it is output; and Python 3.11 does not know the columns in it

    def seeded(self, target: ast.AST) -> bool:
        return isinstance(target, ast.Name) and "seed" in target.id

    def visit_For(self, node: ast.For) -> None:
        for child in ast.iter_child_nodes(node):
            if not (child is node.iter and self.seeded(node.target)):
                self.visit(child)

    visit_comprehension = visit_For

    def visit_Assign(self, node: ast.Assign) -> None:
        if not self.seeded(node.targets[0]):
            self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in KEYWORDS:
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        number = isinstance(node.value, (int, float, complex))
        if number and not isinstance(node.value, bool):
            for text in nudged(node.value):
                self.add("constant", *self.span(node), text)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            start, _ = self.span(node)
            self.add("sign", start, start + 1, "")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in OPERATORS:
            sign, other, kind = OPERATORS[type(node.op)]
            start, _ = self.between(node.target, node.value, f"{sign}=")
            self.add(kind, start, start + 1, other)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        op, right = node.ops[0], node.comparators[0]
        if len(node.ops) == 1 and type(op) in OPERATORS:
            sign, other, kind = OPERATORS[type(op)]
            at = self.between(node.left, right, sign)
            self.add(kind, *at, other)
            bound = isinstance(right, ast.Constant) and right.value
            if bound and not self.depth:
                self.visit(node.left)
                return
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        op = type(node.op)
        start, stop = self.span(node)
        if op in OPERATORS or op in ORDERED:
            sign = OPERATORS[op][0] if op in OPERATORS else ORDERED[op]
            at, end = self.between(node.left, node.right, sign)
            left = self.raw[start:at].decode().strip()
            right = self.raw[end:stop].decode().strip()
        if op in OPERATORS:
            _, other, kind = OPERATORS[op]
            self.add(kind, at, end, other)
        if op in ORDERED and left != right:
            a, b = (
                text if isinstance(part, ATOMS) else f"({text})"
                for part, text in ((node.left, left), (node.right, right))
            )
            self.add("swap", start, stop, f"{b} {sign} {a}")
        if op in (ast.Mult, ast.Div):
            self.add("factor", start, stop, left)
        if op is ast.Mult:
            self.add("factor", start, stop, right)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name, root = ends(node.func)
        if name in SEEDING | LAYOUT or root in DRAWING:
            self.visit(node.func)
            return
        if name in STOPS and len(node.args) == 1:
            self.add("stop", *self.span(node), f"({self.text(node.args[0])})")
        given = [*node.args, *node.keywords]
        for before, word in itertools.pairwise(given):
            if getattr(word, "arg", "") == "stop_gradients":
                at = self.span(before)[1], self.span(word)[1]
                self.add("stop", *at, "")
        if len(node.args) > 1 and name not in UNORDERED:
            self.swap_arguments(*node.args[:2])
        self.generic_visit(node)

    def swap_arguments(self, first: ast.expr, second: ast.expr) -> None:
        a, b = self.text(first), self.text(second)
        if a != b and not a.startswith("*") and not b.startswith("*"):
            (start, left), (right, stop) = self.span(first), self.span(second)
            comma = self.raw[left:right].decode()
            self.add("swap", start, stop, b + comma + a)

    def visit_Name(self, node: ast.Name) -> None:
        # Of the bare names only what a page imports or Python has, not variables.
        if node.id in {"max", "min", "any", "all"}:
            self.add("sibling", *self.span(node), SIBLING[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in SIBLING:
            stop = self.span(node)[1]
            start = stop - len(node.attr)
            self.add("sibling", start, stop, SIBLING[node.attr])
        self.generic_visit(node)


def ends(func: ast.expr) -> tuple[str, str]:
    """Return the last and the first name of what is called."""
    name = getattr(func, "attr", getattr(func, "id", ""))
    while isinstance(func, (ast.Attribute, ast.Call, ast.Subscript)):
        func = func.func if isinstance(func, ast.Call) else func.value
    return name, getattr(func, "id", "")


def edits(source: str) -> list[Edit]:
    """Return every edit of a cell's code."""
    return Finder(source).edits


# --- in the notebook's kernel: what are the variables worth?


def feed(put: Callable[[str], None], value, inside: tuple) -> None:
    """Spell a value for its fingerprint; what has no value to speak of is a ``?``."""
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    feed_next = functools.partial(feed, put, inside=(*inside, id(value)))
    put(f"({kind.__name__} ")
    if value is None or isinstance(
        value, (bool, int, float, complex, str, bytes)
    ):
        put(repr(value))
    elif id(value) in inside:
        put("again")
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            feed_next(key)
            feed_next(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            feed_next(item)
    elif isinstance(value, (set, frozenset)):
        put(" ".join(sorted(fingerprint(item) for item in value)))
    elif isinstance(value, (range, slice)):
        put(repr(value))
    elif module == "numpy" and hasattr(value, "dtype"):
        if value.dtype.hasobject:
            feed_next(value.tolist())
        else:
            put(f"{value.dtype} {value.shape} {value.tobytes().hex()}")
    elif module == "tensorflow" and hasattr(value, "numpy"):
        feed_next(value.numpy())
    elif kind.__name__ == "IndexedSlices":
        feed_next([value.values, value.indices])
    elif module == "sympy":
        put(str(value))
    elif isinstance(getattr(value, "variables", None), (list, tuple)):
        feed_next([v.numpy() for v in value.variables])
    elif module in {"__main__", "utils", "networkx"} and kind is not type:
        feed_next(getattr(value, "__dict__", None))
        for name in getattr(kind, "__slots__", ()):
            feed_next(getattr(value, name, None))
    else:
        put("?")
    put(")")


def fingerprint(value) -> str:
    """Return a short text that differs if the value does."""
    digest = hashlib.sha1()
    try:
        feed(lambda text: digest.update(text.encode()), value, ())
    except Exception as error:  # a symbolic tensor, a deep list
        return type(error).__name__
    return digest.hexdigest()[:16]


def fingerprints(namespace: dict, names: list[str]) -> str:
    """Return the variables' fingerprints, as JSON."""
    found = {n: fingerprint(namespace[n]) for n in names if n in namespace}
    return json.dumps(found)


# --- around pytest


class Recorder:
    """A plugin of pytest: the variables after each cell, and the first fault."""

    def __init__(self, names: list[str], first: int) -> None:
        call = f"__import__({Path(__file__).stem!r}).fingerprints"
        self.expression = f"{call}(globals(), {names!r})"
        self.first = first
        self.after: dict[int, dict[str, str]] = {}
        self.fault = ""

    def pytest_runtest_makereport(self, item, call) -> None:
        if call.when != "call":
            return
        if call.excinfo is not None:
            self.fault = str(call.excinfo.value)
        elif item.cell_num >= self.first:
            reply = item.parent.kernel.kc.execute_interactive(
                "",
                silent=True,
                user_expressions={"seen": self.expression},
                output_hook=lambda message: None,
            )
            seen = reply["content"]["user_expressions"]["seen"]
            text = ast.literal_eval(seen["data"]["text/plain"])
            self.after[item.cell_num] = json.loads(text)


def run(path: Path, recorder: Recorder, seconds: float) -> None:
    """Run a notebook as ``make test`` does, up to the first fault."""
    import pytest

    tree = path.parents[1]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(
            [
                *("-c", str(tree / "pyproject.toml"), "--rootdir", str(tree)),
                *("-x", "-q", "-p", "no:cacheprovider"),
                f"--nbval-cell-timeout={seconds}",
                str(path),
            ],
            plugins=[recorder],
        )
    if code != bool(recorder.fault):
        raise RuntimeError(f"pytest stopped with {code}:\n{output.getvalue()}")


@dataclass
class Verdict:
    """What became of one mutation."""

    chapter: str
    kind: str
    before: str
    after: str
    outcome: str  # "output", "error", "survived" or "equivalent"
    altered: list[str]


def loaded(sources: Iterable[str]) -> list[str]:
    """Return the names that some cell reads."""
    nodes = (node for text in sources for node in ast.walk(ast.parse(text)))
    names = (node for node in nodes if isinstance(node, ast.Name))
    return sorted({n.id for n in names if isinstance(n.ctx, ast.Load)})


def without(tags: set[str], code: list[dict]) -> dict[int, str]:
    """Return the sources of the cells that have none of the tags."""
    return {
        number: "".join(cell["source"])
        for number, cell in enumerate(code)
        if not tags & set(cell["metadata"].get("tags", []))
    }


def draws(sources: dict[int, str], rng: random.Random) -> Iterator:
    """Yield cell numbers with an edit each: first the kind, then the place."""
    left: dict[str, list[tuple[int, Edit]]] = {}
    for number, source in sources.items():
        for edit in edits(source):
            left.setdefault(edit.kind, []).append((number, edit))
    while left:
        kind = rng.choice(sorted(left))
        number, edit = rng.choice(left[kind])
        place = number, edit.start, edit.stop
        left[kind] = [
            (n, e) for n, e in left[kind] if (n, e.start, e.stop) != place
        ]
        if not left[kind]:
            del left[kind]
        yield number, edit


def differing(usual: dict, other: dict) -> set[str]:
    """Return the variables that are not the same after the other's cells."""
    return {
        name
        for number, seen in other.items()
        for name in usual[number].keys() | seen.keys()
        if usual[number].get(name) != seen.get(name)
    }


class Chapter:
    """A notebook, its copy, and what it does unchanged."""

    def __init__(self, path: Path, tree: Path) -> None:
        self.stem = path.stem
        self.text = path.read_text(encoding="utf-8")
        self.copy = tree / "book" / path.name
        cells = json.loads(self.text)["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        read = without({"remove-cell"}, code)
        self.names = loaded(read.values())
        self.sources = without({"hide-input", "remove-cell"}, code)
        start = time.monotonic()
        self.seconds = 3600.0
        self.usual = self.unchanged()
        self.seconds = 60 + time.monotonic() - start

    def unchanged(self) -> dict[int, dict[str, str]]:
        """Return the variables' fingerprints after each cell."""
        self.copy.write_text(self.text, encoding="utf-8")
        recorder = Recorder(self.names, 0)
        run(self.copy, recorder, self.seconds)
        if recorder.fault:
            raise RuntimeError(f"{self.stem} fails as it is: {recorder.fault}")
        return recorder.after

    @functools.cached_property
    def unstable(self) -> set[str]:
        """The variables that differ between two runs."""
        return differing(self.usual, self.unchanged())

    def judge(self, number: int, edit: Edit) -> Verdict:
        source = self.sources[number]
        notebook = json.loads(self.text)
        code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        code[number]["source"] = edit.apply(source)
        self.copy.write_text(json.dumps(notebook), encoding="utf-8")
        first = Recorder(self.names, number)
        run(self.copy, first, self.seconds)
        altered = set()
        if first.fault:
            differ = "Cell outputs differ" in first.fault
            outcome = "output" if differ else "error"
        else:
            altered = differing(self.usual, first.after)
            if altered:  # in a second run too, and to the same?
                again = Recorder(self.names, number)
                run(self.copy, again, self.seconds)
                altered -= differing(first.after, again.after) | self.unstable
            outcome = "survived" if altered else "equivalent"
        lines = edit.lines(source)
        return Verdict(self.stem, edit.kind, *lines, outcome, sorted(altered))


def mutate(path: Path, count: int, seed: str, tree: Path) -> list[Verdict]:
    """Judge mutations of a notebook until as many as asked for count."""
    chapter = Chapter(path, tree)
    verdicts: list[Verdict] = []
    rng = random.Random(f"{seed} {path.stem}")
    for number, edit in draws(chapter.sources, rng):
        if count == sum(v.outcome != "equivalent" for v in verdicts):
            break
        verdicts.append(chapter.judge(number, edit))
        print(*vars(verdicts[-1]).values(), sep=" | ", flush=True)
    return verdicts


def table(title: str, groups: dict[str, Counter]) -> list[str]:
    columns = {
        "noticed by an output": "output",
        "by an error": "error",
        "unnoticed": "survived",
        "changed nothing": "equivalent",
    }
    rows = [f"| {title} | {' | '.join(columns)} |", "| --- |" + " ---: |" * 4]
    groups = groups | {"all": sum(groups.values(), Counter())}
    for name, counts in groups.items():
        numbers = [str(counts[key]) for key in columns.values()]
        rows.append(f"| {name} | {' | '.join(numbers)} |")
    return [*rows, ""]


def report(
    verdicts: list[Verdict], reasons: list, command: str
) -> tuple[str, bool]:
    """Return the results as Markdown, and whether they are good enough."""

    def grouped(key: str) -> dict[str, Counter]:
        groups: dict[str, Counter] = {}
        for v in verdicts:
            groups.setdefault(getattr(v, key), Counter())[v.outcome] += 1
        return dict(sorted(groups.items()))

    counted = [v for v in verdicts if v.outcome != "equivalent"]
    alive = [v for v in counted if v.outcome == "survived"]
    noticed = len(counted) - len(alive)
    good = noticed >= ENOUGH * len(counted)
    lines = [
        "# Do the notebooks notice a changed cell?",
        "",
        f"`{command}` wrote this; `tools/mutate_notebooks.py` says what counts.",
        f"Of {len(counted)} mutations {noticed} were noticed. The mutations that",
        "changed no variable that the page uses do not count.",
        "",
        *table("chapter", grouped("chapter")),
        *table("kind", grouped("kind")),
        "## Unnoticed",
        "",
    ]
    because = {(r["before"], r["after"]): r["reason"] for r in reasons}
    for v in alive:
        reason = because.get((v.before, v.after))
        good = good and bool(reason)
        lines += [
            f"- {v.chapter}, {v.kind}: `{v.before}` became `{v.after}`",
            f"  and altered {', '.join(v.altered)}.",
            f"  {reason or 'NO REASON: print or assert it, or say why not.'}",
        ]
    return "\n".join(lines if alive else [*lines, "None."]) + "\n", good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="+", type=Path, help="of one folder")
    parser.add_argument("--count", type=int, default=100, help="of mutations")
    parser.add_argument("--seed", default="0", help="any text")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at once")
    options = parser.parse_args()
    paths = sorted(path.resolve() for path in options.notebooks)
    share, more = divmod(options.count, len(paths))
    shares = [share + (i < more) for i in range(len(paths))]
    # The kernels import this file, for the fingerprints.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(options.jobs, mp_context=spawn) as pool,
    ):
        tree = Path(folder)
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, tree)
        no_notebook = shutil.ignore_patterns("*.ipynb")
        shutil.copytree(paths[0].parent, tree / "book", ignore=no_notebook)
        work = functools.partial(mutate, seed=options.seed, tree=tree)
        verdicts = list(itertools.chain(*pool.map(work, paths, shares)))
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))["survivor"]
    command = f"make mutate SEED={options.seed} COUNT={options.count}"
    text, good = report(verdicts, reasons, command)
    if paths == sorted((ROOT / "book").glob("*.ipynb")):
        RESULTS.write_text(text, encoding="utf-8")
    print(text)
    sys.exit(not good)


if __name__ == "__main__":
    main()
