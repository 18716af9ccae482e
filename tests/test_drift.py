"""The report of drift names the page, the cell, the number and what to do."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import report_drift  # noqa: E402

new = nbformat.v4


def stream(text, name="stdout"):
    return new.new_output("stream", name=name, text=text)


def cell(source, *outputs, count=1, tags=()):
    made = new.new_code_cell(source, metadata={"tags": [*tags]})
    made.outputs, made.execution_count = [*outputs], count
    return made


def test_examples_hold():
    assert not doctest.testmod(report_drift).failed


@pytest.fixture
def page(tmp_path):
    """A chapter that was run when `loss` was 0.0296."""
    book = new.new_notebook(
        cells=[
            new.new_markdown_cell("# Train\n\nThe loss falls to 0.0296."),
            cell("loss = 0.0301"),
            cell('print(f"loss {loss}")', stream("loss 0.0296\n"), count=2),
            cell("print(3)", stream("3\n"), count=3),
        ]
    )
    path = tmp_path / "01_train.ipynb"
    nbformat.write(book, path)
    return path


def test_a_number_that_changed_is_named_with_its_sentence(page, capsys):
    before = page.read_bytes()
    assert report_drift.main(str(page)) == 1
    report = capsys.readouterr().out
    assert report.startswith("# 1 of 1 pages show something else")
    assert "## 01_train.ipynb\n\n### In [2], under 'Train'" in report
    assert "Numbers changed: 0.0296 → 0.0301." in report
    assert "The text names 0.0296: The loss falls to 0.0296." in report
    assert "What to do" in report
    assert "In [3]" not in report
    assert page.read_bytes() == before


def test_a_page_as_it_is_stored_is_green(page, capsys):
    page.write_text(page.read_text().replace("loss 0.0296", "loss 0.0301"))
    assert report_drift.main(str(page)) == 0
    assert "What to do" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "old, fresh, tags, words",
    [
        (["1"], ["raises NameError: x"], (), "raises an error"),
        (["raises A: a"], ["raises A: b"], (), "raises an error"),
        (["1"], ["1", "stderr: W: old"], (), "prints a warning"),
        (["1"], ["2"], ["version-bound"], "It is tagged version-bound"),
        (["a 1", "b 2"], ["a 1", "b 3"], (), "Numbers changed: 2 → 3."),
        (["a 1"], ["a 1", "b 2"], (), "words or its number of lines"),
        (["None"], ["0.0"], (), "words or its number of lines"),
    ],
)
def test_a_verdict_says_what_kind_of_change_it_is(old, fresh, tags, words):
    assert words in report_drift.verdict(cell("", tags=tags), old, fresh)


def test_all_that_a_cell_shows_is_compared():
    error = new.new_output("error", ename="ValueError", evalue="no")
    result = new.new_output("execute_result", {"text/plain": "7"})
    picture = new.new_output(
        "display_data", {"image/png": "A", "text/plain": "<Figure>"}
    )
    outputs = [
        stream("a\nb\n"),
        stream("W\n", "stderr"),
        result,
        picture,
        error,
    ]
    assert report_drift.shown(cell("", *outputs)) == [
        *("a", "b", "stderr: W", "7", "<Figure>", "raises ValueError: no")
    ]


def test_other_versions_are_told_from_pins(monkeypatch):
    pins = (ROOT / "requirements.txt").read_text()
    installed = dict(re.findall(r"^([\w.-]+)==(\S+)", pins, re.MULTILINE))
    monkeypatch.setattr(report_drift, "version", installed.get)
    (line,) = report_drift.other_versions()
    assert line.startswith("- none")
    installed |= {"tensorflow": "9.9.0", "six": "9.0"}
    direct, others = report_drift.other_versions()
    assert re.fullmatch(r"- \*\*tensorflow \S+ → 9.9.0\*\*", direct)
    assert re.fullmatch(r"- and what they bring: six \S+ → 9.0", others)
