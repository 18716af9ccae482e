"""Run the tests with other versions, or as on other processors, one after another.

    python tools/run_matrix.py [WORD ...]
    python tools/run_matrix.py --processors [WORD ...]

The first makes an environment for each combination of versions, in ``_build/matrix``,
by uv where it is installed, else by pip. All that a combination does not name is as
``requirements.txt`` pins it. An environment is removed once it was green; a red one is
kept, with its log. The second runs the notebooks in the environment that runs this file
and changes what a processor changes: the number of threads, TensorFlow's oneDNN, and the
instructions that NumPy, its BLAS and oneDNN use.

A WORD selects the combinations whose name contains it; all words have to be there. The
table is printed, and written beside the logs. Exit status: 1 when a combination is red,
2 when none is and one could not be run, else 0.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "_build" / "matrix"
PINS = (ROOT / "requirements.txt").read_text(encoding="utf-8")

BOUND = "version-bound"  # the tag of a cell
PYTHONS = ["3.11", "3.12", "3.13"]
OLDER_TENSORFLOW = "2.20.0"
# As old as each TensorFlow takes. Keras is plain Python, so that neither meets every
# Python: the oldest meets the oldest, and the other the newest.
OLDER_KERAS = [("3.11", OLDER_TENSORFLOW, "3.10.0"), ("3.13", "", "3.12.0")]

# What an old processor computes with; the newest is what this one chooses. A kernel of
# BLAS is tried with each number of threads, the rest (NumPy's functions, oneDNN) once.
INSTRUCTIONS = {
    "newest": {},
    "nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "old": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    },
}
THREADS = (
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)
# A product of matrices, bit for bit: another kernel of BLAS gives another.
PRODUCT = """
import numpy
a = numpy.random.default_rng(0).standard_normal((64, 64))
print((a @ a).tobytes().hex())
"""


class NotRun(Exception):
    """A combination that cannot be run here."""


@dataclass
class Outcome:
    """What the tests of one combination gave, or why they were not run."""

    name: str
    result: str
    passed: int = 0
    skipped: int = 0
    bound: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    seconds: float = 0.0


def pinned(package: str) -> str:
    return re.search(rf"^{package}==(\S+)", PINS, re.MULTILINE)[1]


def versions() -> dict[str, tuple[str, str, str]]:
    """Name each combination of Python, TensorFlow and Keras."""
    tensorflow, keras = pinned("tensorflow"), pinned("keras")
    rows = [*product(PYTHONS, (OLDER_TENSORFLOW, tensorflow), (keras,))]
    rows += [(p, t or tensorflow, k) for p, t, k in OLDER_KERAS]
    return {f"python{p}-tensorflow{t}-keras{k}": (p, t, k) for p, t, k in rows}


def processors() -> dict[str, dict[str, str]]:
    """Name each combination of oneDNN, instructions and threads."""
    rows = [*product("01", ("newest", "nehalem"), "124")]
    rows += [*product("01", ("old",), "2")]
    return {
        f"onednn{onednn}-{name}-threads{count}": {
            "TF_ENABLE_ONEDNN_OPTS": onednn,
            **INSTRUCTIONS[name],
            **dict.fromkeys(THREADS, count),
        }
        for onednn, name, count in rows
    }


def requirements(tensorflow: str, keras: str) -> str:
    """Return the pins with these versions in place of two."""
    text = re.sub(
        r"^(tensorflow(?:-cpu)?)==\S+", rf"\1=={tensorflow}", PINS, flags=re.M
    )
    return re.sub(r"^keras==\S+", f"keras=={keras}", text, flags=re.M)


def call(command: list[str | Path], log: Path, trouble: str) -> None:
    """Run a command; if it fails, say so with its first words about an error."""
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            command,
            cwd=ROOT,  # the pins begin with -e .
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower()] or lines
        reason = " ".join(errors[:1]).strip()
        raise NotRun(f"{trouble} ({reason}); see {log.name}")


def make_environment(folder: Path, version: str, pins: str) -> Path:
    """Make an environment, unless it is there already; return its Python."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    file = folder / "requirements.txt"
    if file.exists() and file.read_text(encoding="utf-8") == pins:
        return python
    log = folder.with_name(f"{folder.name}.log")
    shutil.rmtree(folder, ignore_errors=True)
    if shutil.which("uv"):
        make = ["uv", "venv", "--python", version, folder]
        install = ["uv", "pip", "install", "--python", python]
    else:
        make = [f"python{version}", "-m", "venv", folder]
        install = [python, "-m", "pip", "install"]
        if not shutil.which(make[0]):
            raise NotRun(f"there is no {make[0]} on the PATH")
    call(make, log, f"there is no Python {version} that works on the PATH")
    wanted = folder / "wanted.txt"
    wanted.write_text(pins, encoding="utf-8")
    call([*install, "-r", wanted], log, f"{install[-2]} cannot install it")
    wanted.rename(file)  # last, so that one that was interrupted is made anew
    return python


def read_results(file: Path, name: str) -> Outcome:
    """Count what pytest wrote."""
    outcome = Outcome(name, "green")
    for case in ElementTree.parse(file).iter("testcase"):
        where = f"{case.get('classname')}::{case.get('name')}"
        where = where.removeprefix("book.").replace(".ipynb", "")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += (where,)
        elif skipped is None:
            outcome.passed += 1
        elif skipped.get("message") == BOUND:
            outcome.bound += (where,)
        else:
            outcome.skipped += 1
    return outcome


def run_tests(
    name: str, python: str | Path, arguments: list[str], changes: dict[str, str]
) -> Outcome:
    """Run pytest, as `make test` does but for the arguments, and count."""
    log, file = BUILD / f"{name}.log", BUILD / f"{name}.xml"
    file.unlink(missing_ok=True)
    jobs = os.environ.get("JOBS", "2")
    command = [python, "-m", "pytest", "-n", jobs, "--dist", "loadfile"]
    command += ["--junitxml", file, "-p", "no:cacheprovider"]
    command += ["--nbval-cell-timeout=600", *arguments]  # slow is no difference
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | changes,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if not file.exists():
        return Outcome(name, f"red: pytest ended with {done.returncode}")
    outcome = read_results(file, name)
    outcome.seconds = time.monotonic() - start
    if done.returncode:
        outcome.result = "red"
    return outcome


def try_versions(name: str, combination: tuple[str, str, str]) -> Outcome:
    version, tensorflow, keras = combination
    folder = BUILD / name
    pins = requirements(tensorflow, keras)
    python = make_environment(folder, version, pins)
    arguments, changes = [], {}
    if (tensorflow, keras) != (pinned("tensorflow"), pinned("keras")):
        # The hook at the end of this file.
        arguments = ["-p", Path(__file__).stem]
        changes = {"PYTHONPATH": str(Path(__file__).parent)}
    outcome = run_tests(name, python, arguments, changes)
    if outcome.result == "green":
        shutil.rmtree(folder)  # 2 GB
    return outcome


def product_of_matrices(changes: dict[str, str]) -> str:
    command = [sys.executable, "-W", "ignore", "-c", PRODUCT]
    return subprocess.run(
        command,
        env=os.environ | changes,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def try_processor(name: str, changes: dict[str, str]) -> Outcome:
    if "OPENBLAS_CORETYPE" in changes:
        nehalem = INSTRUCTIONS["nehalem"]
        if product_of_matrices({}) == product_of_matrices(nehalem):
            raise NotRun("this processor knows no other kernel of BLAS")
    return run_tests(name, sys.executable, ["book"], changes)


def table(outcomes: list[Outcome]) -> str:
    """Show the outcomes as a table in Markdown.

    Examples
    --------
    >>> print(table([Outcome("a", "red", 3, 1, ("x",), ("y", "z"), 66.0)]))
    | combination | result | passed | failed | skipped | other, as tagged | min |
    | --- | --- | --: | --: | --: | --: | --: |
    | a | red | 3 | 2 | 1 | 1 | 1.1 |
    <BLANKLINE>
    Failed in a: y, z
    <BLANKLINE>
    Tagged version-bound, and other in a: x
    """
    lines = [
        "| combination | result | passed | failed | skipped | other, as tagged"
        " | min |",
        "| --- | --- | --: | --: | --: | --: | --: |",
    ]
    lines += [
        f"| {o.name} | {o.result} | {o.passed} | {len(o.failed)} | {o.skipped}"
        f" | {len(o.bound)} | {o.seconds / 60:.1f} |"
        for o in outcomes
    ]
    for o in outcomes:
        if o.failed:
            lines += ["", f"Failed in {o.name}: {', '.join(o.failed)}"]
        if o.bound:
            bound = ", ".join(o.bound)
            lines += [
                "",
                f"Tagged version-bound, and other in {o.name}: {bound}",
            ]
    return "\n".join(lines)


def main(*arguments: str) -> int:
    words = [word for word in arguments if word != "--processors"]
    run: Callable = try_versions
    file, combinations = BUILD / "versions.md", versions()
    if "--processors" in arguments:
        run = try_processor
        file, combinations = BUILD / "processors.md", processors()
    chosen = [c for c in combinations if all(word in c for word in words)]
    if not chosen:
        print("No combination has all of these words in its name. There are:")
        print("\n".join(combinations))
        return 2
    BUILD.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name in chosen:
        print(f"{name} ...", flush=True)
        try:
            outcome = run(name, combinations[name])
        except NotRun as reason:
            outcome = Outcome(name, f"not run: {reason}")
        outcomes.append(outcome)
        print(f"  {outcome.result}", flush=True)
        file.write_text(table(outcomes) + "\n", encoding="utf-8")
    print(table(outcomes))
    if any(outcome.result.startswith("red") for outcome in outcomes):
        return 1
    return 2 * any(outcome.result != "green" for outcome in outcomes)


def pytest_collection_modifyitems(items: list) -> None:
    """With other versions than the pins, let cells tagged version-bound differ.

    They are run and compared all the same, so that the table can name those that
    show another behaviour.
    """
    import pytest  # what only makes the environments does not need it

    bound = pytest.mark.xfail(reason=BOUND, strict=False)
    for item in items:
        cell = getattr(item, "cell", None)  # nbval's items have one
        if cell and BOUND in cell.metadata.get("tags", []):
            item.add_marker(bound)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
