"""Draw the still pictures of the live figures: book/_static/live/*.svg.

    python tools/draw_stills.py

A live figure is drawn by its script in the reader's browser. Its still picture is that
drawing as it is printed, for whoever runs no script: JupyterLab, a blocked script.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from check_site import NO_CHROMIUM, find_chromium
from playwright.sync_api import Browser, sync_playwright

from utils.figures import COLORS

LIVE = Path(__file__).parents[1] / "book" / "_static" / "live"
FIGURES = sorted(path.stem for path in LIVE.glob("*.js") if path.stem != "live")
MODES = {"sweep": ('mode="forward" expression="neuron"', 'mode="reverse"')}


def draw(browser: Browser, figure: str) -> dict[str, str]:
    """Build a live figure and return its pictures as SVG files by name."""
    page = browser.new_page()
    modes = MODES.get(figure, [""])
    page.set_content(
        "".join(f"<live-{figure} {mode}></live-{figure}>" for mode in modes)
    )
    for script in ("live", figure):
        page.add_script_tag(path=LIVE / f"{script}.js")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    built = page.eval_on_selector_all(
        "[data-still]",
        "all => all.map(svg => [svg.dataset.still, svg.outerHTML])",
    )
    page.close()
    return {f"{name}.svg": finish(svg) for name, svg in built}


def finish(svg: str) -> str:
    """Make a picture on a page one that stands by itself, on white."""
    width, height = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg).groups()
    size = f'width="{width}" height="{height}"'
    head, body = re.sub(
        r' (data-still|role|aria-label)="[^"]*"', "", svg
    ).split(">", 1)
    ground = f'<rect {size} fill="white"/>'
    svg = f'{head} xmlns="http://www.w3.org/2000/svg" {size}>{ground}{body}\n'
    svg = re.sub(r"var\(--live-(\w+)\)", lambda m: COLORS[m[1]], svg)
    return svg.replace("><", ">\n<")


if __name__ == "__main__":
    if not find_chromium():
        sys.exit(NO_CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium())
        for figure in FIGURES:
            for name, svg in draw(browser, figure).items():
                (LIVE / name).write_text(svg)
                print(LIVE / name)
        browser.close()
