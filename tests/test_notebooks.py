"""What the comparison of outputs does not see: order, stderr, pictures, contents."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))

# About 15 lines of code can be read at once. 25 are tolerated, which a screen of
# the site shows without scrolling; in these chapters as many as stand here, for a
# program that two cells would tear apart. Lower a number, do not raise one.
MOST_LINES = 25
LONGEST = {"03": 27, "04": 29, "06": 26, "07": 39, "09": 27, "11": 28}


@cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def metadata(notebook, name):
    expected = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    if notebook.metadata != expected:
        yield "its metadata name one Python: store it with `make notebooks`"


def order(notebook, name):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield "not run from top to bottom (a cell never run passes): `make notebooks`"


def stderr(notebook, name):
    for cell in code_cells(notebook):
        if any(output.get("name") == "stderr" for output in cell.outputs):
            yield f"write the cell such that it has no stderr:\n{cell.source}"


def errors(notebook, name):
    for cell in code_cells(notebook):
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed and "raises-exception" not in tags(cell):
            yield f"mend the error, or tag it raises-exception:\n{cell.source}"


def semicolons(notebook, name):
    for cell in code_cells(notebook):
        if cell.source.rstrip().endswith(";"):
            yield f"`;` hides nothing in a test; end with plt.show():\n{cell.source}"


def figures(notebook, name):
    """A sentence for each picture that says what is to be seen, and its caption."""
    seen = set()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            texts = re.findall(r"!\[([^\]]*)\]\(", cell.source)
            captions = []
        elif any("image/png" in o.get("data", {}) for o in cell.outputs):
            shown = cell.metadata.get("mystnb", {})
            texts = [shown.get("image", {}).get("alt", "")]
            captions = [shown.get("figure", {}).get("caption", "")]
        else:
            continue
        for text in texts:
            if not re.fullmatch(r"[A-Z].{30,}\.", text, re.DOTALL):
                yield f"alt text (mystnb.image.alt) is no sentence: {text!r}"
        for text in captions:
            if not re.fullmatch(r"\S.{15,}[.)]", text, re.DOTALL):
                yield f"caption (mystnb.figure.caption) is no sentence: {text!r}"
        for text in (*texts, *captions):
            if text in seen:
                yield f"say of this figure what is its own: {text!r}"
            seen.add(text)


def exercises(notebook, name):
    text = "\0".join(
        cell.source if cell.cell_type == "markdown" else "\0RUN\0"
        for cell in notebook.cells
    )
    labels = re.findall(r"\{exercise\}.*\n:label: (\S+)", text)
    if not 3 <= len(labels) <= 5:
        yield "close the chapter with three to five exercises"
    for label in labels:
        start = rf"\{{solution-start\}} {re.escape(label)}\n"
        found = re.search(rf"{start}(.*?)\{{solution-end\}}", text, re.DOTALL)
        if not found:
            yield f"give {label} a solution-start and a solution-end"
        elif "\0RUN\0" not in found[1]:
            yield f"run a cell in the solution of {label}"


def title(notebook, name):
    first = notebook.cells[0]
    if first.cell_type != "markdown" or not re.match(r"# \S", first.source):
        yield "begin the first cell with the title, `# ...`"


def length(notebook, name):
    """The cell for Colab is not shown, and not counted."""
    shown = [cell for cell in notebook.cells if "remove-cell" not in tags(cell)]
    if not 25 <= len(shown) <= 45:
        yield f"a chapter has 25 to 45 cells on one subject, not {len(shown)}"


def long_cells(notebook, name):
    """Code that draws a figure is folded (hide-input), and not counted."""
    most = LONGEST.get(name[:2], MOST_LINES)
    for cell in code_cells(notebook):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > most and "hide-input" not in tags(cell):
            yield f"split or shorten a cell of {len(lines)} lines:\n{cell.source}"


CHECKS = [
    metadata, order, stderr, errors, semicolons, figures, exercises, title, length,
    long_cells,
]  # fmt: skip


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


def test_is_a_valid_notebook(path):
    nbformat.validate(read(path))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_holds(path, check):
    found = list(check(read(path), path.name))
    assert not found, "\n".join(found)


def sample():
    """A chapter in which each check finds nothing."""
    new = nbformat.v4
    text, code = new.new_markdown_cell, new.new_code_cell
    picture = new.new_output("display_data", {"image/png": ""})
    shown = {
        "figure": {"caption": "Error against step, twice."},
        "image": {"alt": "A line that falls to the left and then rises again."},
    }
    notebook = new.new_notebook(
        cells=[
            text("# Measure a slope"),
            code("import math", metadata={"tags": ["remove-cell"]}),
            code("plt.show()", outputs=[picture], metadata={"mystnb": shown}),
            text("![A second picture, with another line in it.](other.svg)"),
            code("1 / 0", metadata={"tags": ["raises-exception"]}),
        ]
    )
    error = new.new_output("error", ename="ZeroDivisionError", evalue="")
    notebook.cells[-1].outputs = [error]
    for k in range(6):
        notebook.cells += [
            text(f":::{{exercise}} Do\n:label: ex-{k}\n:::" * (k < 3)),
            text(f":::{{solution-start}} ex-{k}\n:::" * (k < 3)),
            code("print(1)"),
            text(":::{solution-end}\n:::" * (k < 3)),
        ]
    for count, cell in enumerate(code_cells(notebook), 1):
        cell.execution_count = count
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        }
    )
    return notebook


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_finds_nothing_in_a_good_chapter(check):
    assert list(check(sample(), "99_sample.ipynb")) == []


def figure_of(notebook):
    return notebook.cells[2].metadata["mystnb"]


def stream(name):
    return nbformat.v4.new_output("stream", name=name, text="W: no GPU")


FAULTS = {
    "another Python": (metadata, lambda n: n.metadata["language_info"].update(version="3.14")),
    "never run": (order, lambda n: n.cells[-2].update(execution_count=None)),
    "run twice": (order, lambda n: n.cells[-2].update(execution_count=99)),
    "stderr": (stderr, lambda n: n.cells[-2].outputs.append(stream("stderr"))),
    "untagged error": (errors, lambda n: n.cells[4].metadata["tags"].clear()),
    "semicolon": (semicolons, lambda n: n.cells[2].update(source="plt.show(); ")),
    "no alt text": (figures, lambda n: figure_of(n).pop("image")),
    "alt text of a word": (figures, lambda n: figure_of(n)["image"].update(alt="Figure.")),
    "no caption": (figures, lambda n: figure_of(n).pop("figure")),
    "alt text twice": (figures, lambda n: n.cells.insert(3, n.cells[2])),
    "a picture without words": (figures, lambda n: n.cells[3].update(source="![](a.svg)")),
    "no solution": (exercises, lambda n: n.cells.pop(6)),
    "solution not run": (exercises, lambda n: n.cells.pop(7)),
    "two exercises": (exercises, lambda n: n.cells.pop(5)),
    "code first": (title, lambda n: n.cells.pop(0)),
    "no title": (title, lambda n: n.cells[0].update(source="## Why?")),
    "too short": (length, lambda n: n.cells.__delitem__(slice(-10, None))),
    "too long": (length, lambda n: n.cells.extend(n.cells[-20:])),
    "a long cell": (long_cells, lambda n: n.cells[-2].update(source="x = 1\n" * 26)),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_finds_a_planted_fault(fault):
    check, plant = FAULTS[fault]
    notebook = sample()
    plant(notebook)
    assert list(check(notebook, "99_sample.ipynb"))
