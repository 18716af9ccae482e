"""Print the whole book, built as one page, to a PDF with an outline and tags.

    python tools/print_pdf.py

The page is what `jupyter-book build . --builder singlehtml` made; the PDF lies in
`_build/pdf`. The exit status is 1 if a picture is not shown, or if the PDF lacks its
tags or, in its outline, a chapter.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from check_site import NO_CHROMIUM, find_chromium
from playwright.sync_api import sync_playwright
from pypdf import PdfReader

ROOT = Path(__file__).parents[1]
# With its root in a folder, the builder writes the page where its links do not lead
# (jupyter-book issue 2204): they count from the folder above.
BUILT = ROOT / "_build" / "singlehtml"
PDF = ROOT / "_build" / "pdf" / "the-chain-rule-in-tensorflow.pdf"
FOOTER = """<div style="width: 100%; text-align: center; font: 9px sans-serif">
<span class="pageNumber"></span></div>"""


def print_page(page: Path, file: Path, chromium: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        tab = browser.new_page(color_scheme="light")
        tab.goto(page.as_uri(), wait_until="networkidle")
        lost = tab.evaluate(
            "[...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
        )
        if lost:
            sys.exit(f"pictures not shown: {', '.join(lost)}")
        tab.pdf(
            path=file,
            format="A4",
            scale=0.8,  # 80 letters of code fit a line
            margin=dict.fromkeys(("top", "bottom", "left", "right"), "18mm"),
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            tagged=True,
            outline=True,
            print_background=True,
        )
        browser.close()


def titles(outline: list) -> list[str]:
    """List the entries of an outline, of all its levels."""
    return [
        title
        for entry in outline
        for title in (
            titles(entry) if isinstance(entry, list) else [entry.title]
        )
    ]


def plain(title: str) -> str:
    """Leave out what Chromium loses (a space at the end of a line) or typesets."""
    return "".join(title.split()).replace(
        "\N{RIGHT SINGLE QUOTATION MARK}", "'"
    )


def faults(pdf: PdfReader) -> list[str]:
    """Say what a reader of the PDF would miss."""
    found = []
    if not pdf.trailer["/Root"].get("/MarkInfo", {}).get("/Marked"):
        found.append("it has no tags")
    outline = plain(" ".join(titles(pdf.outline)))
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        first = nbformat.read(path, as_version=4).cells[0].source
        title = first.splitlines()[0].removeprefix("# ")
        if plain(title) not in outline:
            found.append(f"its outline lacks {title!r}")
    return found


def main() -> int:
    chromium = find_chromium()
    built = BUILT / "book" / "index.html"
    if not chromium or not built.is_file():
        print(NO_CHROMIUM if not chromium else f"No {built}: run make pdf.")
        return 2
    page = built.rename(BUILT / "book.html")
    PDF.parent.mkdir(exist_ok=True)
    print_page(page, PDF, chromium)
    pdf = PdfReader(PDF)
    found = faults(pdf)
    size = PDF.stat().st_size / 1e6
    print(f"{PDF.relative_to(ROOT)}: {len(pdf.pages)} pages, {size:.1f} MB")
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
