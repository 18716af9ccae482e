"""How `make bench` measures: functions take turns, and answers come before times.

Each file ``tools/bench_*.py`` with rows ends in ``report(...)``: it is run as a
process of its own with the name of a row, and prints what it found as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version

import numpy as np


@dataclass
class Line:
    """One line of the table.

    Attributes
    ----------
    what
        What was computed.
    beside
        What it is compared with, and its version.
    values
        One for each turn, function or process; ratios, if there is no unit.
    most
        The value to stay at or below; None, if it is only reported.
    within
        How far the answers may differ: they were compared first.
    why
        The reason, in case the value is larger.
    judge
        Whether the "median" or the "largest" value is held against ``most``.
    unit
        Of the values.
    """

    what: str
    beside: str
    values: list[float]
    most: float | None = None
    within: str = ""
    why: str = ""
    judge: str = "median"
    unit: str = ""

    @property
    def spread(self) -> tuple[float, float, float]:
        """The median, and the quartiles; the ends of a short list."""
        middle = statistics.median(self.values)
        if self.judge == "largest" or len(self.values) < 8:
            return middle, min(self.values), max(self.values)
        low, _, high = statistics.quantiles(self.values, method="inclusive")
        return middle, low, high

    @property
    def reached(self) -> bool:
        """Whether the value is at or below ``most``."""
        judged = max(self.values) if self.judge == "largest" else self.spread[0]
        return self.most is None or judged <= self.most


def peer(name: str) -> str:
    """Return the name of a package with its version."""
    return f"{name} {version(name)}"


def agree(answers: dict, rtol: float) -> str:
    """Compare answers, nested as they may be, with the first; return rtol as text.

    Examples
    --------
    >>> agree({"ours": (1.0, [2.0, 3.0]), "theirs": (1.0, [2.0, 3.0])}, 1e-9)
    '1e-09'
    """
    (name, first), *others = answers.items()
    for other, answer in others:
        for a, b in zip(_flat(first), _flat(answer), strict=True):
            scale = np.max(np.abs(b), initial=0.0)
            if a.shape != b.shape or not np.all(abs(a - b) <= rtol * scale):
                raise AssertionError(f"{name} and {other} differ: {a}, {b}")
    return f"{rtol:.0e}"


def _flat(answer) -> list[np.ndarray]:
    if isinstance(answer, list | tuple):
        return [array for part in answer for array in _flat(part)]
    return [np.asarray(answer)]


def in_turns(
    *functions: Callable,
    turns: int = 30,
    seconds: float = 0.02,
    clock: Callable = time.perf_counter,
) -> list[list[float]]:
    """Time functions in turns, so that all meet the same machine.

    Returns for each function its time per call in every turn. A turn is as many
    calls as last about ``seconds``; every other round goes backward.
    """
    calls = [_calls(function, seconds, clock) for function in functions]
    times: list[list[float]] = [[] for _ in functions]
    jobs = list(zip(functions, calls, times))
    for turn in range(turns):
        for function, n, taken in jobs if turn % 2 else jobs[::-1]:
            taken.append(_time(function, n, clock) / n)
    return times


def _calls(function: Callable, seconds: float, clock: Callable) -> int:
    first = _time(function, 1, clock)  # with what is done once: traces, caches
    if first > 10 * seconds:
        return 1
    return max(1, round(seconds / max(1e-9, _time(function, 1, clock))))


def _time(function: Callable, n: int, clock: Callable) -> float:
    start = clock()
    for _ in range(n):
        function()
    return clock() - start


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Divide the times of each turn."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def report(rows: dict[str, Callable]) -> None:
    """Run the row that the command line names, and print its lines as JSON."""
    name, *rest = sys.argv[1:]
    print(json.dumps([asdict(line) for line in rows[name](*rest)]))
