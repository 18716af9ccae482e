"""tools/check_site.py finds each fault that it looks for, and no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKER = Path(__file__).parents[1] / "tools" / "check_site.py"
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    os.environ.get("CHROMIUM"),
)
needs_chromium = pytest.mark.skipif(
    not any(shutil.which(browser) for browser in BROWSERS if browser),
    reason="no Chromium is installed",
)

SHELL = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>A page</title></head>
<body><main><h1>A page</h1>{}</main></body></html>"""
SOUND = {
    "sound": r"""
<h2 id="caf&eacute;">A sound page</h2>
<p><a href="other/">a folder</a>, <a href="other/index.html?q=1#here">a place</a>,
<a href="#caf%C3%A9">this page</a>, <a href="#">its head</a>, <a href="#top">too</a>,
<a href="https://example.org/">afar</a>, <a href="mailto:a@example.org">mail</a></p>
<p>A pear is $2, two are $3; <code>$x$</code> and <code>\(x\)</code> are code.</p>
<pre>$$x$$ as typed</pre>
<div style="overflow-x: auto"><div style="width: 3000px">a table</div></div>
<img src="dot.svg" alt="a dot"> <img src="dot.svg" alt="" role="presentation">
<img src="dot.svg" alt="far below" loading="lazy" style="margin-top: 9000px">
<script>console.log("not a fault"); localStorage.mode = "auto"</script>""",
    "other/index": "<p id=here>here</p>",
    # Not a page: the theme leaves pieces of its templates in _static.
    "_static/piece": "<img>",
}
FAULTY = {
    "access": """
<button></button> <p style="color: #aaa; background: #fff">pale</p>""",
    "console": """
<script>console.warn("careful"); console.error("wrong")</script>
<script>throw new Error("thrown")</script>""",
    "formulas": r"""
<p>One $x_1 <em>+</em> y$ in a line.</p> <p>$$
x $$</p> <p>\(x\)</p> <div>\[x\]</div> <span class="katex-error">\foo</span>""",
    "images": """
<img src="dot.svg"> <img src="dot.svg" alt=""> <img src="broken.png" alt="broken">
<img src="dot.svg" alt="../a plot.png"> <img src="dot.svg" alt="0f3c9d2e8b7a6514">
<img src="lost.png" alt="lost">""",
    "links": """
<p>Links to <a href="gone.html#here">no page</a>, <a href="/html/sound.html">a
page</a>, <a href="/sound.html">another site</a>, <a href="other/#gone">no place
there</a> and <a href="#gone">no place here</a>.</p>""",
    "requests": """
<script src="lost.js"></script> <script src="/root.js"></script>
<script src="https://cdn.example.org/a.js"></script>
<script src="http://192.0.2.1/b.js"></script>
<link rel="preconnect" href="https://fonts.example.org">""",
    "shift": """
<p id=late></p><p style="height: 300px">Text that is pushed down.</p>
<script>
const painted = then => requestAnimationFrame(() => requestAnimationFrame(then));
painted(() => painted(() => late.style.height = "400px"));
</script>""",
    "theme": """
<script>if (!localStorage.mode) console.error("no mode yet")</script>
<script>document.documentElement.dataset.theme = "light"</script>""",
    "wide": '<div style="width: 2000px">wide</div>',
    "wide-on-a-phone": '<div style="width: 600px">wide</div>',
}
REPORT = r"""
Accessibility
  access.html: button-name: button
  access.html: color-contrast: p
  images.html: image-alt: img[src$="dot.svg"]:nth-child(2)

Alt text is a file name
  images.html: ../a plot.png
  images.html: 0f3c9d2e8b7a6514

Console message
  console.html: error: wrong
  console.html: warning: careful
  theme.html: error: no mode yet

Dead link
  links.html: no anchor gone in links.html
  links.html: no anchor gone in other/index.html
  links.html: no file gone.html
  links.html: no file http://HOST/sound.html

Formula not rendered
  formulas.html: $$ x $$
  formulas.html: $x_1 + y$
  formulas.html: \(x\)
  formulas.html: \[x\]
  formulas.html: \foo

Image not shown
  images.html: <img src="broken.png" alt="broken">
  images.html: <img src="lost.png" alt="lost">

Image without alt text
  images.html: <img src="dot.svg" alt="">
  images.html: <img src="dot.svg">

Layout shift
  shift.html: SHIFT (1280 px light, 1280 px dark)
  shift.html: SHIFT (390 px light, 390 px dark)

Request failed
  images.html: lost.png
  requests.html: http://HOST/root.js
  requests.html: lost.js

Request to another host
  requests.html: http://192.0.2.1/b.js
  requests.html: https://cdn.example.org/a.js
  requests.html: https://fonts.example.org/

Script error
  console.html: thrown

Sideways scrolling
  wide-on-a-phone.html: 608 px: <div style="width: 600px"> (390 px light, 390 px dark)
  wide.html: 2008 px: <div style="width: 2000px">

Wrong theme
  theme.html: light (1280 px dark, 390 px dark)

12 pages, each opened in 4 ways: 33 faults.
10 passed, 38 failed
"""


def write_site(folder: Path, pages: dict[str, str]) -> None:
    for name, body in pages.items():
        file = folder / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SHELL.format(body))
    (folder / "broken.png").write_text("no picture")
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    (folder / "dot.svg").write_text(svg)


def check(folder: Path, **settings: str) -> tuple[int, str]:
    """Run the checker; return its exit status and all that it printed."""
    done = subprocess.run(
        [sys.executable, CHECKER, folder],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout


@needs_chromium
def test_planted_faults_are_found_and_nothing_else(tmp_path: Path) -> None:
    write_site(tmp_path / "html", SOUND | FAULTY)
    status, output = check(tmp_path / "html")
    report = output[output.index("\n\n") + 1 :]  # below the table of weights
    report = re.sub(r"127\.0\.0\.1:\d+", "HOST", report)
    report = re.sub(r"0\.[1-4]\d\d (?=\()", "SHIFT ", report)
    assert report == REPORT
    assert status == 1


@needs_chromium
def test_sound_site_passes_and_is_weighed(tmp_path: Path) -> None:
    first = {"index": '<img src="dot.svg" alt="a dot">'}
    write_site(tmp_path, SOUND | first)
    with (tmp_path / "dot.svg").open("a") as file:
        file.write(" " * 20_000)
    status, output = check(tmp_path)
    rows = [line.split() for line in output.splitlines()]
    assert rows[:4] == [
        ["Page", "KB", "gzipped", "as", "second", "requests", "shift"],
        ["index.html", "20", "0", "0", "2", "0.000"],
        ["other/index.html", "0", "0", "0", "1", "0.000"],
        ["sound.html", "21", "1", "1", "2", "0.000"],
    ]
    assert output.endswith("ways: no faults.\n12 passed, 0 failed\n")
    assert status == 0


@pytest.mark.parametrize(
    ("pages", "advice"),
    [
        (SOUND, "No Chromium found. Install it"),
        ({}, "build the site first (make book)"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    tmp_path: Path, pages: dict[str, str], advice: str
) -> None:
    write_site(tmp_path, pages)
    status, output = check(tmp_path, CHROMIUM="/nowhere/chromium")
    assert advice in output
    assert output.count("\n") == 1
    assert status == 2
