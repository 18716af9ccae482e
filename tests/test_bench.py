"""The benchmarks compare answers first, and their table says what was measured."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import bench  # noqa: E402
import bench_measure  # noqa: E402
from bench_measure import Line, agree, in_turns, ratios  # noqa: E402


def test_examples_hold():
    assert not doctest.testmod(bench_measure).failed


@pytest.mark.parametrize("other", [1.1, np.ones(1), np.nan])
def test_another_answer_is_seen(other):
    with pytest.raises((AssertionError, ValueError)):
        agree({"ours": (1.0, 2.0), "theirs": (other, 2.0)}, 1e-3)
    with pytest.raises(ValueError):
        agree({"ours": (1.0, 2.0), "theirs": (1.0,)}, 1e-3)


def test_functions_take_turns():
    order = []
    pair = [lambda: order.append("a"), lambda: order.append("b")]
    times = in_turns(*pair, turns=4, seconds=0)
    assert [len(taken) for taken in times] == [4, 4]
    assert "".join(order[-8:]) == "baabbaab"
    assert ratios([2.0, 3.0], [1.0, 2.0]) == [2.0, 1.5]


def test_a_line_is_judged_by_its_median_or_its_largest_value():
    values = [1.0] * 7 + [1.5, 9.0]
    assert Line("f", "g", values, 1.2).reached
    assert Line("f", "g", values, 1.2).spread == (1.0, 1.0, 1.0)
    assert not Line("f", "g", values, 1.2, judge="largest").reached
    assert Line("f", "g", values, judge="largest").spread == (1.0, 1.0, 9.0)
    assert Line("f", "g", values).reached


def test_the_table_says_what_falls_short_and_why():
    measured = {
        "a": [Line("f", "g 1.0", [0.5], 1.0, "1e-09"), Line("h", "g", [2.0])],
        "b": [Line("f", "g", [3.0, 4.0], 1.0, why="it is slow", unit="s")],
        "c": [Line("f", "g", [3.0], 1.0, why="it is slow")],
    }
    assert bench.table(measured).splitlines()[2:] == [
        "| a | f | g 1.0 | 0.5 | 1 | yes | 1e-09 |",
        "| a | h | g | 2 |  |  |  |",
        "| b | f | g | 3.5 s (3 to 4) | 1 | no (1) |  |",
        "| c | f | g | 3 | 1 | no (1) |  |",
        "",
        "1. It is slow.",
    ]


def test_a_row_that_is_not_there_is_refused(capsys):
    assert bench.main("scala") == 1
    assert "no row scala; there are reverse, scalar" in capsys.readouterr().out


def test_the_page_is_of_the_rows_and_peers_of_the_tool():
    page = bench.PAGE.read_text(encoding="utf-8")
    head, *_ = bench.HEAD.partition("{machine}")
    assert page.startswith(head)
    rows = re.findall(r"^\| ([a-z]+) \|", page, re.MULTILINE)
    assert list(dict.fromkeys(rows)) == ["row", *bench.ROWS]
    for pin in bench.PINS[:-1]:
        assert pin.replace("==", " ") in page


def test_each_row_has_a_file_that_measures_it():
    for row, (file, processes) in bench.ROWS.items():
        assert f'"{row}": ' in (bench.TOOLS / file).read_text()
        assert processes > 0
