"""Run every line of the cheat sheet, each framework in an environment of its own.

    python tools/check_cheatsheet.py [PAGE]

PAGE is ``book/cheatsheet.md`` unless given; it is the only source. Its section *Start*
says how to install each framework: so are the environments made, in ``_build/cheatsheet``
(several GB, kept for the next time). A line of a snippet that ends in a comment is an
expression, and the comment is its value, to four decimals, or the exception that it
raises. Exit status: 0 when all lines give what the page says, 1 otherwise.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "book" / "cheatsheet.md"
ENVIRONMENTS = ROOT / "_build" / "cheatsheet"
RUNNER = Path(__file__).with_name("run_snippets.py")
FRAMEWORKS = ["TF 1", "TF 2", "Keras 3", "JAX", "PyTorch"]
QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}


class PageError(Exception):
    """The page is not built as the check needs it."""


@dataclass
class Statement:
    """A statement of a snippet, and the value that its comment gives it."""

    line: int
    source: str
    expected: str | None = None


@dataclass
class Snippet:
    """The code of one framework under one heading."""

    thing: str
    framework: str
    statements: list[Statement] = field(default_factory=list)


def parse(code: str, first: int) -> list[Statement]:
    """Split code into statements with the values in the comments behind them.

    Examples
    --------
    >>> parse("a = 1\\na + 1  # 2\\n", 10)[1]
    Statement(line=11, source='a + 1', expected='2')
    """
    try:
        nodes = ast.parse(code).body
    except SyntaxError as error:
        raise PageError(f"line {first + error.lineno - 1}: {error}") from None
    lines = code.splitlines()
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
        and not token.line.lstrip().startswith("#")
    }
    statements = []
    for node in nodes:
        decorators = getattr(node, "decorator_list", [])
        start = min([node.lineno, *(d.lineno for d in decorators)])
        source = "\n".join(lines[start - 1 : node.end_lineno])
        expected = None
        if isinstance(node, ast.Expr):
            expected = comments.pop(node.end_lineno, None)
            source = ast.get_source_segment(code, node)
        statements.append(Statement(first + start - 1, source, expected))
    for line in comments:
        raise PageError(
            f"line {first + line - 1}: a comment behind a line is its value;"
            " this line has none"
        )
    return statements


def read(text: str) -> tuple[dict[str, str], list[Snippet]]:
    """Return each framework's install line and all snippets, in order."""
    installs, snippets = {}, []
    thing = framework = fence = None
    block, seen = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        if fence is not None and line == "```":
            code = "\n".join(block)
            if fence == "sh":
                installs[framework] = code
            else:
                start = number - len(block)
                statements = parse(code, start)
                snippets.append(Snippet(thing, framework, statements))
            fence = None
        elif fence is not None:
            block.append(line)
        elif line.startswith("```"):
            fence, block = line[3:], []
            known = ["python", "sh"] if thing == "Start" else ["python"]
            if framework is None or fence not in known:
                raise PageError(f"line {number}: no check reads this code")
        elif line.startswith("#"):
            thing = line.lstrip("# ")
        elif line.startswith(":::{tab-item}"):
            framework = line.partition("} ")[2]
            seen.append(framework)
        elif line == ":::":
            framework = None
        elif line == "::::":
            if seen != FRAMEWORKS:
                raise PageError(f"line {number}: tabs {seen} under {thing!r}")
            seen = []
    if list(installs) != FRAMEWORKS:
        raise PageError(f"Start says how to install {list(installs)} only")
    starts = [s.framework for s in snippets if s.thing == "Start"]
    if starts != FRAMEWORKS:
        raise PageError(f"Start has code for {starts} only")
    for snippet in snippets:
        if not any(s.expected for s in snippet.statements):
            where = f"line {snippet.statements[0].line}"
            raise PageError(f"{where}: no line of this code says its value")
    counts = [sum(s.framework == f for s in snippets) for f in FRAMEWORKS]
    if len(set(counts)) > 1:
        counted = dict(zip(FRAMEWORKS, counts))
        raise PageError(f"a tab without code: {counted}")
    return installs, snippets


def agrees(expected: str, outcome: dict[str, str]) -> bool:
    """Say whether an outcome is the one that the page gives.

    Examples
    --------
    >>> agrees("-0.9900, [None, 3]", {"gives": "[-0.98999, [None, 3.0]]"})
    True
    >>> agrees("-0.9900", {"gives": "-0.9901"})
    False
    >>> agrees("TypeError", {"raises": "TypeError"})
    True
    """
    if "raises" in outcome or re.fullmatch(r"\w+Error", expected):
        return outcome.get("raises") == expected
    numbers = {"nan": math.nan, "inf": math.inf}
    got = eval(outcome["gives"], numbers)
    try:
        wanted = eval(expected, numbers)
    except (NameError, SyntaxError, AttributeError):
        wanted = expected  # a name or a version
    return same(wanted, got)


def same(wanted: object, got: object) -> bool:
    """Compare nested lists: numbers to four decimals, all else exactly."""
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(got, list)
            and len(wanted) == len(got)
            and all(map(same, wanted, got))
        )
    kinds = (int, float, complex)
    if isinstance(wanted, bool) or not isinstance(wanted, kinds):
        return type(wanted) is type(got) and wanted == got
    if isinstance(got, bool) or not isinstance(got, kinds):
        return False
    if wanted != wanted or got != got:  # NaN
        return wanted != wanted and got != got
    return wanted == got or abs(wanted - got) < 5.1e-5


def find_python(name: str) -> list[str]:
    """Return the command that makes an environment with this Python."""
    if name == "python":
        return [sys.executable, "-m", "venv"]
    found = shutil.which(name)
    works = found and subprocess.run(
        [found, "-c", ""], capture_output=True, check=False
    )
    if works and works.returncode == 0:
        return [found, "-m", "venv"]
    if shutil.which("uv"):
        return ["uv", "venv", "--seed", "--python", name.removeprefix("python")]
    raise PageError(f"needs {name} on the PATH, or uv, which can fetch it")


def environment(install: str) -> str:
    """Make the environment of an install line, and return its Python."""
    name, *pip = shlex.split(install)
    if pip[:3] != ["-m", "pip", "install"]:
        raise PageError(f"not 'python -m pip install ...': {install}")
    folder = ENVIRONMENTS / pip[3].replace("==", "-")
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    made = folder / "made-by.txt"
    if not made.exists() or made.read_text() != install:
        print(f"  {install}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        steps = [[*find_python(name), str(folder)], [str(python), *pip]]
        for step in steps:
            done = subprocess.run(
                step, capture_output=True, text=True, check=False
            )
            if done.returncode:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                raise PageError(f"{shlex.join(step)} failed: {' '.join(last)}")
        made.write_text(install)
    return str(python)


def check(python: str, snippets: list[Snippet]) -> list[str]:
    """Run one framework's snippets, each behind its *Start*; return the faults."""
    start = snippets[0].statements
    runs = [
        s.statements if s.thing == "Start" else start + s.statements
        for s in snippets
    ]
    pairs = [[(s.source, s.expected is not None) for s in run] for run in runs]
    done = subprocess.run(
        [python, "-W", "ignore", str(RUNNER)],
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        env=os.environ | QUIET,
        check=False,
    )
    if done.returncode:
        return [f"nothing ran: {done.stderr.strip().splitlines()[-1:]}"]
    faults = []
    for snippet, run, outcomes in zip(snippets, runs, json.loads(done.stdout)):
        for statement, outcome in zip(run, outcomes):
            expected = statement.expected
            if expected is None and not outcome:
                continue
            if expected is not None and agrees(expected, outcome):
                continue
            says = outcome.get("message", outcome.get("gives")).strip()
            faults.append(
                f"line {statement.line}, {snippet.thing}: {statement.source}\n"
                f"      the page says {expected}, it gives {says}"
            )
        if len(outcomes) < len(run):
            faults.append(f"line {run[len(outcomes)].line}: not run from here")
    return faults


def main(page: str = str(PAGE)) -> int:
    try:
        installs, snippets = read(Path(page).read_text(encoding="utf-8"))
    except PageError as error:
        print(f"{page}: {error}")
        return 1
    failed = 0
    for framework in FRAMEWORKS:
        own = [s for s in snippets if s.framework == framework]
        values = sum(bool(t.expected) for s in own for t in s.statements)
        print(f"{framework}: {len(own)} snippets, {values} values", flush=True)
        try:
            faults = check(environment(installs[framework]), own)
        except PageError as error:
            faults = [f"not checked: {error}"]
        for fault in faults:
            print(f"  {fault}")
        failed += bool(faults)
    print(f"{len(FRAMEWORKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
