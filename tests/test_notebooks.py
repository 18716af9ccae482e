"""What the comparison of outputs does not see: order, stderr, pictures, contents."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
PAGES = NOTEBOOKS + sorted((ROOT / "book").glob("*.md"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def alt_text(cell):
    return cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")


def test_every_page_is_in_the_contents():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = [toc["root"]]
    for part in toc["parts"]:
        listed += [chapter["file"] for chapter in part["chapters"]]
    pages = [f"book/{path.stem}" for path in PAGES]
    assert sorted(listed) == sorted(pages), (
        "list each page of book/ once in _toc.yml"
    )


def test_is_a_valid_notebook_for_any_python(notebook):
    nbformat.validate(notebook)
    assert notebook.metadata == {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }, "store it with `make notebooks`"


def test_was_run_from_top_to_bottom(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    expected = list(range(1, len(counts) + 1))
    assert counts == expected, (
        "run it with `make notebooks`: a cell never run passes"
    )


def test_stores_no_stderr_and_no_unannounced_error(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.get("name") != "stderr", f"stderr of:\n{cell.source}"
            if output.output_type == "error":
                tags = cell.metadata.get("tags", [])
                assert "raises-exception" in tags, (
                    f"tag the error of:\n{cell.source}"
                )


def test_hides_no_output_behind_a_semicolon(notebook):
    for cell in code_cells(notebook):
        message = f"`;` hides nothing in a test; end a plot with plt.show():\n{cell.source}"
        assert not cell.source.rstrip().endswith(";"), message


def test_describes_each_figure_in_a_sentence_of_its_own(notebook):
    seen = set()
    for cell in code_cells(notebook):
        if any(
            "image/png" in output.get("data", {}) for output in cell.outputs
        ):
            alt = alt_text(cell)
            message = f"say in metadata mystnb.image.alt what is to be seen:\n{cell.source}"
            assert re.fullmatch(r"[A-Z].{30,}\.", alt), message
            assert alt not in seen, f"two figures share the alt text {alt!r}"
            seen.add(alt)


def test_every_exercise_has_a_solution_that_is_run(notebook):
    text = "\0".join(
        cell.source if cell.cell_type == "markdown" else "\0RUN\0"
        for cell in notebook.cells
    )
    exercises = re.findall(r"\{exercise\}.*\n:label: (\S+)", text)
    assert len(exercises) >= 3, "a chapter closes with three to five exercises"
    for label in exercises:
        start = rf"\{{solution-start\}} {re.escape(label)}\n"
        found = re.search(rf"{start}(.*?)\{{solution-end\}}", text, re.DOTALL)
        assert found, f"give {label} a solution-start and a solution-end"
        assert "\0RUN\0" in found[1], f"run a cell in the solution of {label}"
