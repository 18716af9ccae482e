"""Measure `utils` beside its peers, and write BENCHMARKS.md and a picture of it.

    python tools/bench.py [ROW ...]

All rows take about ten minutes on two quiet cores; rows that are named are only
printed. The peers are installed into ``_build/bench/peers``, on top of the
book's environment, which stays as it is. Each row is measured in processes of
its own, in which ours and theirs take turns, after their answers were compared.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from bench_measure import Line, peer

TOOLS = Path(__file__).parent
ROOT = TOOLS.parent
PAGE = ROOT / "BENCHMARKS.md"
PICTURE = ROOT / "book" / "_static" / "benchmarks.svg"
DRAWN = ("reverse", "scalar", "chain", "forward")
LIMIT = {"color": "black", "markersize": 16, "markeredgewidth": 2}
PEERS = ROOT / "_build" / "bench" / "peers"
PINS = [
    "autograd==1.9.1",
    "micrograd==0.1.0",
    "numdifftools==0.11.2",
    "scipy==1.17.1",  # for numdifftools, too
    "threadpoolctl==3.8.0",  # says which kernel multiplies matrices
]
#: {row: (the file that measures it, in how many processes)}
ROWS = {
    "reverse": ("bench_engines.py", 3),
    "scalar": ("bench_engines.py", 3),
    "chain": ("bench_engines.py", 1),
    "forward": ("bench_engines.py", 2),
    "crossing": ("bench_engines.py", 2),
    "numerical": ("bench_numerical.py", 1),
    "join": ("bench_tensorflow.py", 3),
    "keras": ("bench_tensorflow.py", 3),
    "explain": ("bench_tensorflow.py", 1),
    "book": ("bench_book.py", 1),
}
QUIET = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "OPENBLAS_NUM_THREADS": "1",  # two wait for each other if others run
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}
# They choose kernels for another OpenBLAS than the one in NumPy's wheel.
UNSET = ["OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"]
HEAD = """\
# Benchmarks

`make bench` wrote this page; it is not edited by hand. Each value is ours divided by
theirs, taken in turns in the same process, unless a unit is given: the median, and in
brackets the quartiles (the smallest and the largest of fewer than eight). Where answers
agree to a tolerance, they were compared before a time was taken. Lower is better.

{machine}

`make bench ROWS="scalar chain"` measures some rows again and only prints them.
"""
COLUMNS = [
    "row",
    "what was computed",
    "compared with",
    "median (spread)",
    "at most",
    "reached",
    "answers agree to",
]


def environment() -> dict[str, str]:
    """Install the peers where they are not yet, and return what processes need."""
    made = PEERS / "made-by.txt"
    if not made.exists() or made.read_text() != " ".join(PINS):
        shutil.rmtree(PEERS, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, "--target", str(PEERS), *PINS], check=True)
        made.write_text(" ".join(PINS))
    kept = {k: v for k, v in os.environ.items() if k not in UNSET}
    return kept | QUIET | {"PYTHONPATH": str(PEERS)}


def measure(row: str, environ: dict[str, str]) -> list[Line]:
    """Measure a row in processes of its own, and join what they found."""
    script, processes = ROWS[row]
    found: list[Line] = []
    for _ in range(processes):
        done = subprocess.run(
            [sys.executable, str(TOOLS / script), row],
            check=True,
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = [Line(**line) for line in json.loads(done.stdout)]
        for known, line in zip(found, lines):
            known.values += line.values
        found = found or lines
    return found


def table(measured: dict[str, list[Line]]) -> str:
    """Write the lines as a table, with the reasons below it."""
    rows, whys = [COLUMNS, ["---"] * len(COLUMNS)], []
    for row, lines in measured.items():
        for line in lines:
            reached = "" if line.most is None else "yes"
            if not line.reached:
                reached = "no"
                if line.why and line.why not in whys:
                    whys.append(line.why)
                if line.why:
                    reached = f"no ({whys.index(line.why) + 1})"
            rows.append(
                [
                    row,
                    line.what,
                    line.beside,
                    _values(line),
                    "" if line.most is None else f"{line.most:g}",
                    reached,
                    line.within,
                ]
            )
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    reasons = (
        f"{i}. {why[0].upper()}{why[1:]}." for i, why in enumerate(whys, 1)
    )
    return "\n".join([text, "", *reasons]).strip() + "\n"


def draw(measured: dict[str, list[Line]]) -> None:
    """Draw what the engines take, in multiples of what their peers take."""
    import matplotlib.pyplot as plt  # late: a table needs no figures

    from utils.figures import COLORS, use_style

    use_style()
    plt.rcParams["svg.hashsalt"] = "benchmarks"  # the same file each time
    lines = [line for row in DRAWN for line in measured[row]]
    lines = [line for line in lines if not line.unit][::-1]
    fig, ax = plt.subplots(figsize=(4.6, 0.9 * len(lines) + 1))
    for y, line in enumerate(lines):
        middle, low, high = line.spread
        ax.plot([low, high], [y, y], color=COLORS["backward"], lw=5, alpha=0.4)
        ax.plot(middle, y, "o", color=COLORS["backward"])
        ax.plot(line.most or [], y if line.most else [], "|", **LIMIT)
    ax.axvline(1, color=COLORS["plain"], lw=1)
    fill = partial(textwrap.fill, width=27)
    names = [
        f"{fill(line.what)}\n{fill(f'beside {line.beside}')}" for line in lines
    ]
    ax.set_yticks(range(len(lines)), names, fontsize=10)
    ax.set(xscale="log", xlabel="time, divided by that of the other")
    fig.savefig(PICTURE, metadata={"Date": None})


def _values(line: Line) -> str:
    middle, low, high = (f"{number:.3g}" for number in line.spread)
    unit = f" {line.unit}" if line.unit else ""
    spread = "" if len(line.values) == 1 else f" ({low} to {high})"
    return f"{middle}{unit}{spread}"


def machine() -> str:
    """Describe the machine and what runs on it."""
    try:
        cpus = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(s.split(": ")[1] for s in cpus if s.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = f"{platform.system()} {platform.release()}"
    versions = []
    for name in ["numpy", "tensorflow", "tensorflow-cpu", "keras"]:
        with suppress(PackageNotFoundError):
            versions.append(peer(name))
    return (
        f"{datetime.date.today()}: {cpu}, {os.cpu_count()} cores, {memory:.0f} GiB; "
        f"{system}; Python {platform.python_version()}, {', '.join(versions)}; load before "
        f"the run {os.getloadavg()[0]:.1f}."
    )


def main(*names: str) -> int:
    if unknown := set(names) - set(ROWS):
        print(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
        return 1
    head = HEAD.format(machine=machine())
    environ, measured = environment(), {}
    for row in names or ROWS:
        print(f"{row} ...", flush=True)
        measured[row] = measure(row, environ)
    page = table(measured)
    print(page)
    if not names:
        PAGE.write_text(f"{head}\n{page}", encoding="utf-8")
        draw(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
