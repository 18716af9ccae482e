"""Row of `make bench` on the notebooks: how long the book's own test takes.

The chapters run under strict nbval on two workers, as in `make test`; before and
after them two notebooks that do nothing but ``import tensorflow``: the floor. Where
GUIDE names a file, TensorFlow's guide autodiff runs, too; it stores no outputs,
so its comparisons fail, but its time is taken.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import nbformat
from bench_measure import Line, peer, report

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "_build" / "bench"
FLOORS = ["floor_1", "floor_2"]


def floors() -> list[Path]:
    """Write two notebooks of one cell."""
    cell = nbformat.v4.new_code_cell("import tensorflow as tf", id="floor")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    paths = [FOLDER / f"{name}.ipynb" for name in FLOORS]
    for path in paths:
        nbformat.write(notebook, path)
    return paths


def run(paths: list[Path], results: Path) -> float:
    """Run notebooks on two workers, and return the seconds that it took."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist"]
    command += ["loadfile", f"--junitxml={results}"]
    command += ["--nbval-cell-timeout=600", *map(str, paths)]
    kept = set(os.environ) - {"PYTHONPATH", "OPENBLAS_NUM_THREADS"}
    environ = {k: os.environ[k] for k in kept}  # as make test has them
    start = time.perf_counter()
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode > 1 or not results.exists():
        sys.exit(f"pytest did not run:\n{done.stdout[-2000:]}")
    return time.perf_counter() - start


def seconds(results: Path) -> tuple[Counter, set]:
    """Return the seconds of each notebook, and those that failed."""
    taken, failed = Counter(), set()
    for case in ElementTree.parse(results).iter("testcase"):
        name = Path(case.get("classname")).stem.split(".")[-1]
        taken[name] += float(case.get("time"))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
    return taken, failed


def book():
    FOLDER.mkdir(parents=True, exist_ok=True)
    chapters = sorted((ROOT / "book").glob("*.ipynb"))
    guide = [Path(os.environ["GUIDE"])] if os.environ.get("GUIDE") else []
    results = FOLDER / "results.xml"
    run(floors(), results)
    before, _ = seconds(results)
    whole = run(chapters, results)
    each, failed = seconds(results)
    if failed:
        sys.exit(f"not as stored: {', '.join(sorted(failed))}")
    run([*floors(), *guide], results)
    after, _ = seconds(results)
    floor = statistics.mean(run[f] for run in (before, after) for f in FLOORS)
    n = len(chapters)
    longest = max(each, key=each.get)
    load = f"load average while they ran: {os.getloadavg()[1]:.1f}"
    what = f"strict nbval of each of {n} chapters, two workers"
    lines = [
        Line(
            what,
            f"{peer('nbval')}; longest: {longest}; {load}",
            list(each.values()),
            25,
            judge="largest",
            unit="s",
        ),
        Line(
            "strict nbval of the book on two workers, time per chapter",
            f"the floor, kernel start and import tensorflow: {floor:.1f} s",
            [whole / n / floor],
            3.0,
        ),
    ]
    if guide:
        name = guide[0].stem
        values = [value / after[name] for value in each.values()]
        lines.append(Line(what, "TensorFlow's guide autodiff", values))
    return lines


if __name__ == "__main__":
    report({"book": book})
