"""Report which pages show something else with the packages that are installed here.

    python tools/report_drift.py [NOTEBOOK ...]

Runs the notebooks, all of the book unless some are named, stores nothing, and compares
what each cell shows with what is stored: text, numbers and errors, but no pictures. The
report is Markdown, on the standard output. Exit status: 0 when all is as it is stored,
1 when not.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from difflib import SequenceMatcher, ndiff
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(
    r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.]*\w)"
)
MOST_LINES = 30  # of one cell; who wants them all runs it

TO_DO = """\
## What to do

1. Begin with the first cell of a page: what follows may be wrong because of it.
2. Find the package: install the old version of one of those above, run
   `python tools/report_drift.py book/PAGE.ipynb` again, and read its release notes.
3. If the new output is right, take the new version as CONTRIBUTING.md says, and mend
   the sentences that are named here. If it is not, report it to that package, and set
   an upper bound in pyproject.toml with the reason beside it.
"""


def other_versions() -> list[str]:
    """Name the packages that are not as pinned, those of pyproject.toml first."""
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    wanted = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    direct, others = [], []
    for name, pin in re.findall(r"^([\w.-]+)==(\S+)", pins, re.MULTILINE):
        try:
            found = version(name)
        except PackageNotFoundError:  # for another system
            continue
        if found != pin:
            asked_for = re.search(rf'"{name}[<>=]', wanted) or name == "keras"
            kind = direct if asked_for else others
            kind.append(f"{name} {pin} → {found}")
    lines = [f"- **{change}**" for change in direct]
    if others:
        lines.append(f"- and what they bring: {', '.join(others)}")
    return lines or ["- none; what differs is the processor, or the system"]


def run(path: Path) -> tuple[nbformat.NotebookNode, str]:
    """Run a notebook to its end, whatever its cells raise; say what stopped it."""
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        book,
        timeout=300,
        allow_errors=True,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute()
    except (CellTimeoutError, DeadKernelError) as error:
        return book, str(error).splitlines()[0]
    return book, ""


def shown(cell: nbformat.NotebookNode) -> list[str]:
    """List the lines that a cell shows, an error by its name and message."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            mark = "stderr: " if output.name == "stderr" else ""
            texts.append(mark + output.text)
        elif output.output_type == "error":
            texts.append(f"raises {output.ename}: {output.evalue}")
        else:
            texts += [output.data[m] for m in output.data if "text" in m]
    return "\n".join(text.strip("\n") for text in texts).splitlines()


def pairs(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Put each line that changed beside what stands in its place."""
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            yield from zip_longest(old[a:b], new[c:d], fillvalue="")


def other_numbers(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    """Return each number that became another, or nothing when words changed.

    Examples
    --------
    >>> other_numbers(["loss 0.0296 in 3 steps"], ["loss 0.0301 in 3 steps"])
    [('0.0296', '0.0301')]
    >>> other_numbers(["loss 0.0296"], ["error 0.0301"])
    []
    """
    found = []
    for was, now in pairs(old, new):
        if NUMBER.sub("#", was).split() != NUMBER.sub("#", now).split():
            return []
        numbers = zip(NUMBER.findall(was), NUMBER.findall(now))
        found += [(a, b) for a, b in numbers if a != b]
    return found


def sentences(book: nbformat.NotebookNode, number: str) -> list[str]:
    """Find where the text of a page names a number."""
    word = re.compile(rf"(?<![\w.]){re.escape(number)}(?!\w|\.\d)")
    text = "\n\n".join(
        cell.source for cell in book.cells if cell.cell_type == "markdown"
    )
    found = re.split(r"(?<=[.:;?])\s+|\n\n", text)
    return [" ".join(part.split()) for part in found if word.search(part)]


def verdict(cell: nbformat.NotebookNode, old: list[str], new: list[str]) -> str:
    """Say in a sentence what kind of change it is."""
    raised = [line for line in new if line.startswith("raises ")]
    if raised and raised != [o for o in old if o.startswith("raises ")]:
        return "It raises an error, or another one: mend the call."
    if any(line.startswith("stderr: ") for line in new):
        return "It prints a warning: write the cell such that there is none."
    numbers = [f"{was} → {now}" for was, now in other_numbers(old, new)]
    listed = ", ".join(numbers[:8]) + ", ..." * (len(numbers) > 8)
    what = (
        f"Numbers changed: {listed}."
        if numbers
        else "Its words or its number of lines changed."
    )
    if "version-bound" in cell.metadata.get("tags", []):
        what += (
            " It is tagged version-bound: the text around it has to name the"
            " version, and what holds now."
        )
    return what


def place(book: nbformat.NotebookNode, index: int) -> str:
    """Name a cell as a reader finds it: by its number and the heading above."""
    text = "\n".join(
        cell.source
        for cell in book.cells[:index]
        if cell.cell_type == "markdown"
    )
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE) or ["no heading"]
    return f"In [{book.cells[index].execution_count}], under {headings[-1]!r}"


def about_cell(
    book: nbformat.NotebookNode, index: int, old: list[str], new: list[str]
) -> list[str]:
    """Report on one cell that changed."""
    difference = [line for line in ndiff(old, new) if line[0] in "-+"]
    left_out = len(difference) - MOST_LINES
    lines = [
        f"### {place(book, index)}",
        "",
        verdict(book.cells[index], old, new),
    ]
    lines += ["", "```diff", *difference[:MOST_LINES]]
    lines += [f"  ({left_out} more lines)"] if left_out > 0 else []
    lines += ["```", ""]
    named = {}
    for number in dict(other_numbers(old, new)):
        if len(number.lstrip("-+0.")) > 2:  # fewer digits stand anywhere
            for sentence in sentences(book, number):
                named.setdefault(sentence, []).append(number)
    for sentence, numbers in named.items():
        lines += [f"The text names {', '.join(numbers)}: {sentence}", ""]
    return lines


def about_page(path: Path) -> list[str]:
    """Report on one page; nothing when it is as it is stored."""
    stored = nbformat.read(path, as_version=4)
    fresh, stopped = run(path)
    lines = []
    for index, (was, now) in enumerate(zip(stored.cells, fresh.cells)):
        ran = was.cell_type == "code" and now.execution_count is not None
        if ran and shown(was) != shown(now):
            lines += about_cell(stored, index, shown(was), shown(now))
    if stopped:
        lines = [f"**It did not come to its end.** {stopped}", "", *lines]
    return [f"## {path.name}", "", *lines] if lines else []


def main(*names: str) -> int:
    # As pytest runs them, see conftest.py; told so, a kernel takes no notice of what
    # libraries write past Python to stderr, with times and process ids.
    os.environ["PYTEST_CURRENT_TEST"] = "report_drift"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    paths = [Path(name) for name in names]
    paths = paths or sorted((ROOT / "book").glob("*.ipynb"))
    changed = {}
    for path in paths:
        print(path.name, file=sys.stderr, flush=True)
        if report := about_page(path):
            changed[path.name] = report
    print(f"# {len(changed)} of {len(paths)} pages show something else\n")
    print("Packages that are not as pinned:\n")
    print("\n".join(other_versions()) + "\n")
    for report in changed.values():
        print("\n".join(report) + "\n")
    if changed:
        print(TO_DO)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
