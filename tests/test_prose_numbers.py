"""The numbers in the text are those that the page computes.

A number of three or more significant digits, and every tuple or shape, is printed by a
cell of its page or stands in its code. The text may round what is printed; it may not
give more digits than that. Captions, alt texts and comments in code are text as well.
"""

# ruff: noqa: RUF001 (the multiplication and minus signs of typeset text)

from __future__ import annotations

import io
import re
import tokenize
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

BOOK = Path(__file__).parents[1] / "book"
PAGES = sorted([*BOOK.glob("*.ipynb"), *BOOK.glob("*.md")])
HOW_TO_MEND = (
    "print it in a cell of this page (on a page without cells: of a chapter that it "
    "links to), round it no finer than that, or say it in other words"
)

# No quantities: code to copy, tags, the targets of links and roles, labels, years,
# versions, numbers of reports and chapters, the minutes that a page takes.
NO_QUANTITY = re.compile(
    r"""^```(?:python|json|sh)\n.*?^``` | </?[a-z][\w-]*(?:\s[^<>]*)?>
    | \]\([^)\s]*\) | \{(?:cite:\w|eq|ref|numref|prf:ref|func|class|mod)\}`[^`]*`
    | <[^>\s]+>(?=`) | ^\([\w-]+\)=$ | (?<=\$\$)\ *\([\w-]+\)
    | ^:(?:label|class|name):.*$ | \{solution-start\}.*$
    | \b(?:in|since|from|until|of)\ (?:19[5-9]|20[0-3])\d\b
    | (?<=[({])(?:19[5-9]|20[0-3])\d(?=[)}])
    | \b(?:TensorFlow|Keras|Python|NumPy|SymPy|JAX)\ \d+(?:\.\d+)*
    | \b(?:issue|pull\ request|chapter|section)\ \d+ | \b\d+\ minutes\b""",
    re.VERBOSE | re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
SPELLINGS = [  # of LaTeX, Markdown and Python, made one
    (r"[\u2212\u2013]|\bminus (?=\d)", "-"),
    (r"(?<=\d)(?:\{,\}|\\,|_)(?=\d{3})", ","),
    (r"(?<=\d)\s*(?:\\cdot|\\times|×)\s*10(?:\^|\*\*)\{?(-?\d+)\}?", r"e\1"),
    (r"(?<![\w.])10(?:\^|\*\*)\{?(-?\d+)\}?", r"1e\1"),
    (r"_\{[^}]*\}", "_i"),
    (r"\\times(?![a-z])", "×"),
    (r"\\(?:approx|sim|neq?|leq?|geq?|to|in|quad)(?![a-z])", "="),
    (r"\\cdot(?![a-z])", "·"),
    (r"\\[,;:! ]", " "),
]
NUMBER = re.compile(
    r"""(?P<minus>-\ ?)? (?<![\w.])
    (?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)? | \d+(?:\.\d*)? | \.\d+)
    (?:e(?P<power>[-+]?\d+))? (?!\.?\d)""",
    re.VERBOSE | re.IGNORECASE,
)
_ONE = r"-?\d[\d.]*(?:e[-+]?\d+)?"
TUPLE = re.compile(
    rf"""[(\[]{_ONE}(?:(?:,\s*{_ONE})+,?|,)[)\]]  # (344, 403), [0.9, 1.1), (3,)
    | (?<![\w.^])\d+(?:\s*×\s*\d+)+  # 64 × 16
    | (?<![\w-])\d+(?:-\d+){{2,}}(?![\w-])  # 784-256-10""",
    re.VERBOSE,
)


class Number(NamedTuple):
    """A number as it is written, and where."""

    value: Decimal  # its exponent is that of the last digit
    any_sign: bool  # what stands before it may be a sign or a subtraction
    start: int
    end: int

    @property
    def digits(self) -> int:
        return len(self.value.as_tuple().digits)

    @property
    def unit(self) -> Decimal:
        """One in the last digit."""
        return Decimal((0, (1,), self.value.as_tuple().exponent))

    def may_stand_for(self, known: Number, exact: bool) -> bool:
        """Is it `known`, or that rounded? Code is exact, an output is rounded."""
        if not exact and self.unit < known.unit:
            return False
        signs = (1, -1) if self.any_sign or known.any_sign else (1,)
        differences = [abs(self.value - sign * known.value) for sign in signs]
        return min(differences) <= self.unit / 2


def in_one_spelling(text: str) -> str:
    for pattern, replacement in SPELLINGS:
        text = re.sub(pattern, replacement, text)
    return text


def numbers(text: str) -> list[Number]:
    found = []
    for match in NUMBER.finditer(text):
        value = Decimal(match["digits"].replace(",", ""))
        value = value.scaleb(int(match["power"] or 0))
        minus, before = match["minus"], text[: match.start()][-1:]
        any_sign = minus == "- " or bool(
            minus and re.match(r"[\w)}\]]", before)
        )
        if minus and not any_sign:
            value = -value
        found.append(Number(value, any_sign, match.start(), match.end()))
    return found


def rows(text: str) -> list[list[Number]]:
    """The numbers, those in one list between which are only commas and brackets."""
    found: list[list[Number]] = []
    for number in numbers(text):
        gap = text[found[-1][-1].end : number.start] if found else "first"
        if re.fullmatch(r"[\s,;×x()\[\]]*", gap):
            found[-1].append(number)
        else:
            found.append([number])
    return found


def claims(text: str) -> list[list[Number]]:
    """The tuples and shapes of a text, and its longer numbers."""
    every = numbers(text)
    found = [
        [
            number
            for number in every
            if match.start() <= number.start < match.end()
        ]
        for match in TUPLE.finditer(text)
    ]
    inside = {number for claim in found for number in claim}
    return found + [[n] for n in every if n.digits > 2 and n not in inside]


def stand_in(
    claim: list[Number], known: list[list[Number]], exact: bool
) -> bool:
    """Does a row of known numbers hold those of the claim, in order?"""
    return any(
        all(a.may_stand_for(b, exact) for a, b in zip(claim, row[start:]))
        for row in known
        for start in range(len(row) - len(claim) + 1)
    )


class Page(NamedTuple):
    """What a page says, and what it computes."""

    texts: list[str]
    printed: str = ""
    code: str = ""


def read(path: Path) -> Page:
    if path.suffix == ".md":
        text = path.read_text(encoding="utf-8")
        links = dict.fromkeys(re.findall(r"\]\((\w+\.ipynb)", text))
        chapters = [read(BOOK / link) for link in links]
        return Page(
            [text],
            "\n".join(chapter.printed for chapter in chapters),
            "\n".join(chapter.code for chapter in chapters),
        )
    texts, printed, code = [], [], []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            texts.append(cell.source)
            continue
        figure = cell.metadata.get("mystnb", {})
        texts.append(figure.get("figure", {}).get("caption", ""))
        texts.append(figure.get("image", {}).get("alt", ""))
        bare, comments = without_comments(cell.source)
        code.append(bare)
        texts.append(comments)
        for output in cell.outputs:
            data = output.get("data", {})
            shown = "" if "image/png" in data else data.get("text/plain", "")
            printed += [output.get("text", ""), output.get("evalue", ""), shown]
    return Page(texts, "\n".join(printed), "\n".join(code))


def without_comments(source: str) -> tuple[str, str]:
    lines, comments = source.splitlines(), []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
            comments.append(token.string)
    return "\n".join(lines), "\n".join(comments)


def faults(page: Page) -> list[str]:
    """The numbers of the text that the page does not compute, with their words."""
    printed = rows(in_one_spelling(page.printed))
    code = rows(in_one_spelling(page.code))
    found = []
    for text in page.texts:
        text = in_one_spelling(NO_QUANTITY.sub(" ", text))
        for claim in claims(text):
            if not (
                stand_in(claim, printed, exact=False)
                or stand_in(claim, code, exact=True)
            ):
                start, end = claim[0].start, claim[-1].end
                words = " ".join(text[max(0, start - 50) : end + 30].split())
                found.append(f"{text[start:end].rstrip('.')} in: {words}")
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_number_is_computed_on_its_page(path):
    found = faults(read(path))
    assert not found, "\n".join([f"{path.name}: {HOW_TO_MEND}:", *found])


RIGHT = [  # the text, what is printed, the code
    ("The slope is -0.990.", "slope -0.9899925", ""),
    (r"about $-0.98999$, $\approx-0.990$, −0.990", "slope -0.9899925", ""),
    ("from minus 0.990 to 1.25", "[-0.9899925 1.25]", ""),
    ("It is 0.333, with 0.3333 at the end.", "[0.3333 -1.2]", ""),
    ("0.125 is 0.12 or 0.13, rounded", "0.125", ""),
    (r"1,234 and 12,345.6, or $1{,}234$ and $12\,346$", "1234\n12,345.60", ""),
    (r"$3.05\cdot10^{-5}$, 3.05e-5 and $3.05 \times 10^{-5}$", "3.05e-05", ""),
    (r"a small $10^{-8}$, 1e-8, 12 and 0.015", "", ""),
    ("all of 20,000 numbers and 1.0507", "", "f(20_000, 1.0507009873554805)"),
    (r"the fraction $\frac{708288}{78125}$", "", "708288 / 78125"),
    ("the difference $1 - 0.999$, or 1-0.999", "", "b = 1 - 0.999"),
    ("the shape (344, 403) and a [64, 16]", "(344, 403)", "zeros([64, 16])"),
    (
        r"64 × 16, $64 \times 16$; a 784-256-10 net",
        "",
        "[784, 256, 10], (64, 16)",
    ),
    ("a noise from $U(0.9, 1.1)$", "", "uniform([3], 0.9, 1.1)"),
    ("in 2019 {cite:p}`smith2019`, TensorFlow 2.21.1, issue 1234", "", ""),
    ("{eq}`eq-123` and [this](#sec-123)\n:label: ex-123", "", ""),
    ("an adjoint v123 and float128", "", ""),
]
WRONG = [
    ("A sign: 0.990.", "slope -0.9899925", ""),
    ("A sign: $-0.990$.", "slope 0.9899925", ""),
    (r"A sign: $\le-0.990$.", "slope 0.9899925", ""),
    ("A sign: minus 0.990.", "slope 0.9899925", ""),
    ("A digit: 0.3334.", "0.3333", ""),
    ("A digit: 1,235.", "1234", "1_234"),
    ("Cut off, not rounded: 0.989.", "0.9899925", ""),
    ("Finer: 0.33333.", "0.3333", ""),
    ("Finer: 0.3330.", "0.333", ""),
    ("Finer: 12.5 %.", "12 %", ""),
    ("Percent, where a fraction is printed: 12.5 %.", "0.125", ""),
    (r"A power: $3.05\cdot10^{-6}$.", "3.05e-05", ""),
    (r"An exponent: $2^{-149}$.", "", "2.0**149"),
    ("A shape: (344, 304).", "(344, 403)", ""),
    ("A shape: (403, 344).", "(344, 403)", ""),
    ("A shape, unspaced: (344,403).", "344 of (345, 403)", ""),
    ("A shape: 64 × 16.", "(64, 17)", ""),
    ("A shape: 784-256-10.", "", "[784, 128, 10]"),
    ("An interval: $U(0.9, 1.2)$.", "", "uniform([3], 0.9, 1.1)"),
    ("Printed in a picture's size only: 960.", "", "plt.show()"),
]


@pytest.mark.parametrize("text, printed, code", RIGHT)
def test_passes_what_is_right(text, printed, code):
    assert faults(Page([text], printed, code)) == []


@pytest.mark.parametrize("text, printed, code", WRONG)
def test_notices_a_planted_fault(text, printed, code):
    found = faults(Page([text], printed, code))
    assert len(found) == 1


def test_reads_captions_alt_texts_and_comments(tmp_path):
    cell = nbformat.v4.new_code_cell(
        "print(1.25)  # not 1.24",
        metadata={
            "mystnb": {
                "figure": {"caption": "It falls to 1.23."},
                "image": {"alt": "A line that falls to 1.22."},
            }
        },
        outputs=[
            nbformat.v4.new_output("stream", text="1.25\n"),
            nbformat.v4.new_output(
                "display_data",
                {"image/png": "", "text/plain": "<Figure size 960x608>"},
            ),
        ],
    )
    text = nbformat.v4.new_markdown_cell("1.25 is there, and 960 is not.")
    path = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell, text]), path)
    found = [fault.split()[0] for fault in faults(read(path))]
    assert found == ["1.23", "1.22", "1.24", "960"]
