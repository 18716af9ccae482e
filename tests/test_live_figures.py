"""Live figures show, in a real browser, the numbers that their chapters compute."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import numpy as np
import pytest
import tensorflow as tf
from playwright.sync_api import Browser, Page, sync_playwright

from utils import forward_mode, reverse_mode
from utils.figures import COLORS

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
from check_site import NO_CHROMIUM, find_chromium  # noqa: E402
from draw_stills import FIGURES, LIVE, draw  # noqa: E402

NOTEBOOKS = {
    path: nbformat.read(path, as_version=4)
    for path in sorted((ROOT / "book").glob("*.ipynb"))
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not find_chromium():
        pytest.skip(NO_CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium())
        yield browser
        browser.close()


def show(browser: Browser, folder: Path, figure: str, **options) -> Page:
    """Open a live figure as its chapter has it, from a file."""
    sources = [c.source for book in NOTEBOOKS.values() for c in book.cells]
    found = re.search(
        rf'<figure class="live">\n<live-{figure}.*?</figure>',
        "\0".join(sources),
        re.DOTALL,
    )
    assert found, f"no chapter has the figure {figure}"
    html = re.sub(
        r"!\[(.*?)\]\(_static/live/(.*?)\)",
        lambda m: f'<img alt="{m[1]}" src="{(LIVE / m[2]).as_uri()}">',
        found[0]
        .replace("\n\n!", "\n<p>!")
        .replace("\n\n</live", "</p>\n</live"),
    )
    file = folder / f"{figure}.html"
    file.write_text(f"""<!doctype html><html lang="en"><title>{figure}</title>
        <meta charset="utf-8"><meta name="viewport" content="width=device-width">
        <style>
          /* The measures of the site, for which the figures keep room. */
          body {{ margin: 16px; font: 16px/1.65 sans-serif; }}
          main {{ max-width: 688px; }}
          figure {{ margin: 0; }}
          * {{ box-sizing: border-box; }}
        </style>
        <link rel="stylesheet" href="{(LIVE / "live.css").as_uri()}">
        <script defer src="{(LIVE / "live.js").as_uri()}"></script>
        <script defer src="{(LIVE / figure).as_uri()}.js"></script>
        <main>{html}<p>What comes after it.</p></main>""")
    page = browser.new_context(**options).new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.goto(file.as_uri())
    return page


def status(page: Page) -> str:
    return page.inner_text("[role=status]").replace("\N{MINUS SIGN}", "-")


def chapter(number: str, *functions: str) -> dict:
    """Run the cells of a chapter that define these functions, and its imports."""
    path = next(path for path in NOTEBOOKS if path.name.startswith(number))
    wanted = ("import matplotlib", *(f"def {name}(" for name in functions))
    scope: dict = {}
    for cell in NOTEBOOKS[path].cells:
        lines = cell.source.splitlines()
        if cell.cell_type == "code" and any(
            line.startswith(wanted) for line in lines
        ):
            exec(cell.source, scope)
    return scope


@pytest.mark.parametrize("figure", FIGURES)
def test_stored_pictures_are_what_the_script_draws(browser, figure):
    for name, svg in draw(browser, figure).items():
        assert (LIVE / name).read_text() == svg, "python tools/draw_stills.py"


@pytest.mark.parametrize("figure", FIGURES)
def test_without_scripts_the_pictures_stay(browser, tmp_path, figure):
    page = show(browser, tmp_path, figure, java_script_enabled=False)
    images = page.locator(f"live-{figure} img")
    assert images.count() > 0
    for image in images.all():
        assert image.evaluate("image => image.naturalWidth") > 0
        assert image.get_attribute("alt").endswith(".")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("figure", FIGURES)
def test_shifts_nothing_and_fits(browser, tmp_path, figure, width):
    page = show(
        browser,
        tmp_path,
        figure,
        viewport={"width": width, "height": 844},
    )
    shift = page.evaluate("""() => new Promise(resolve => {
        let sum = 0;
        new PerformanceObserver(list => {
          for (const entry of list.getEntries()) sum += entry.value;
        }).observe({ type: "layout-shift", buffered: true });
        setTimeout(() => resolve(sum), 300);
    })""")
    assert shift < 0.02
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_colours_in_the_light_are_those_of_the_book():
    light = (LIVE / "live.css").read_text().split("}")[0]
    found = dict(re.findall(r"--live-(\w+): (#\w+)", light))
    assert found == COLORS


# The secant.
STEPS = [float(f"{m}e{k}") for k in range(-16, 0) for m in (1, 2, 5)] + [1.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", ["forward", "central"])
def test_secant_agrees_with_numpy(browser, tmp_path, method, dtype):
    """To the digits shown, and two gaps between the values of f over h."""
    here = chapter("01", "f", "forward")

    def along_y(y):
        return here["f"](dtype(3), y)

    page = show(browser, tmp_path, "secant")
    page.check(f"[value={method}]")
    page.check(f"[value={dtype.__name__}]")
    for i, step in enumerate(STEPS):
        page.fill("[type=range]", str(i))
        shown = re.search(
            r"h = (\S+): y moves by (\S+), f by (\S+)\.\n"
            r"The quotient is (\S+), off by (\S+)\.\n",
            status(page),
        ).groups()
        h, y_moves, f_moves, quotient, error = map(float, shown)
        y, step_ = dtype(5), dtype(step)
        slope = here[method](along_y, y, step_)
        left = y if method == "forward" else y - step_
        gaps = 2 * float(np.spacing(abs(along_y(y)))) / step
        assert h == step
        assert y_moves == pytest.approx(y + step_ - left, rel=5e-5)
        moved = along_y(y + step_) - along_y(left)
        assert f_moves == pytest.approx(moved, rel=0.05, abs=step * gaps)
        assert quotient == pytest.approx(slope, rel=0, abs=1e-6 + gaps)
        assert error == pytest.approx(abs(slope + 75), rel=0.05, abs=gaps)


def test_secant_breaks_where_the_chapter_says(browser, tmp_path):
    page = show(browser, tmp_path, "secant")
    page.fill("[type=range]", str(STEPS.index(1e-12)))
    assert "y moves by 1.0001e-12, f by -7.5e-11." in status(page)
    page.fill("[type=range]", str(STEPS.index(1e-16)))
    assert "The quotient is 0.000000, off by 7.5e+01." in status(page)


def test_secant_by_keyboard(browser, tmp_path):
    page = show(browser, tmp_path, "secant")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert status(page).startswith("h = 5e-01:")
    slider = page.get_by_label("Step h")
    assert slider.get_attribute("aria-valuetext") == "5e-01"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="central").is_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="float32").is_checked()
    error = page.locator("[data-still=secant-error]")
    assert "step 5e-01" in error.get_attribute("aria-label")


# The noise.
@pytest.mark.parametrize("x", [-2, -1, 1])
@pytest.mark.parametrize("attempt", ["nothing", "early", "last"])
def test_noise_agrees_with_tensorflow(browser, tmp_path, attempt, x):
    """To half of the last digit shown and 1e-5, for sums in float32."""
    here = chapter("11", "value_and_slope", "early", "last")
    page = show(browser, tmp_path, "noise")
    page.check(f"[value={attempt}]")
    page.check(f"[value='{x:+}']")
    draws = page.evaluate("document.querySelector('live-noise').draws")
    assert len(draws) == 1000
    assert 0.9 <= min(draws) < 0.901
    assert 1.099 < max(draws) < 1.1
    here["u"] = tf.constant(draws, tf.float32)
    here["x"] = tf.fill([1000], float(x))
    values, slopes = here["value_and_slope"](here[attempt])
    expected = [
        *(draws[-1], values[-1], slopes[-1]),
        *(np.mean(values), np.mean(slopes), np.std(values), np.std(slopes)),
    ]
    last, product, mean, spread = status(page).split("\n")
    number = r"-?\d+\.\d{4}"
    shown = re.findall(number, f"{last} {mean} {spread}")
    assert list(map(float, shown)) == pytest.approx(expected, rel=0, abs=6e-5)
    factors = list(map(float, re.findall(number, product)))
    assert np.prod(factors) == pytest.approx(slopes[-1], rel=0, abs=5e-4)


def test_noise_by_keyboard_and_again(browser, tmp_path):
    page = show(browser, tmp_path, "noise")
    first = status(page)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="early").is_checked()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="Start over").focus()
    page.keyboard.press("Enter")
    assert "Mean of 1:" in status(page)
    page.get_by_role("button", name="Draw 1000").focus()
    page.keyboard.press("Space")
    assert "Mean of 1001:" in status(page)
    page.get_by_role("button", name="Start over").press("Enter")
    for _ in range(3):
        page.get_by_role("button", name="Draw again").press("Enter")
    assert "Mean of 4:" in status(page)
    page.reload()
    assert status(page) == first


# The sweep.


def running(x, y):
    return np.sin(x) - y**3


def twice(x1, x2):
    return x1 * x2 + np.sin(x1)


def doublings(a):
    b = a + a
    return b + b


def shared(x, y):
    m = x * y
    return m * np.sin(m)


def neuron(w, x, b):
    return (np.tanh(w * x + b) - 1) ** 2


SWEPT = {
    running: (3.0, 5.0),
    twice: (2.0, 3.0),
    doublings: (1.0,),
    shared: (0.5, 3.0),
    neuron: (0.5, 2.0, -0.5),
}
SWEEP_TOLERANCE = (
    1e-14  # relative; the browser has a sine and a tanh of its own
)


SWEEP = """to_the_end => {
  const figure = document.querySelector("live-sweep"), states = [];
  const next = [...figure.querySelectorAll("button")].at(-1);
  for (;;) {
    const nodes = [...figure.querySelectorAll("[data-name]")].map(node => [
      {...node.dataset},
      [...node.querySelectorAll("text")].map(text => text.textContent),
      node.querySelector("rect").getAttribute("stroke-width")]);
    states.push([nodes, figure.querySelector("[role=status]").textContent]);
    if (!to_the_end || next.ariaDisabled === "true") return states;
    next.click();
  }
}"""


def sweep_states(page, to_the_end=True):
    """From this step to the last: all nodes, and what is said of the step."""
    states = page.evaluate(SWEEP, to_the_end)
    for nodes, _ in states:
        for data, *_ in nodes:
            data |= {k: float(v) for k, v in data.items() if k != "name"}
    return [
        (nodes, said.replace("\N{MINUS SIGN}", "-")) for nodes, said in states
    ]


def sweeps(function):
    """What is chosen in the menu, the row of numbers, and the trace."""
    point = SWEPT[function]
    yield "reverse", "adjoint", reverse_mode.trace(function, point)
    for direction in np.eye(len(point)):
        nodes = forward_mode.trace(function, point, tuple(direction))
        moving = next(node.name for node in nodes if node.tangent == 1)
        yield f"forward, along {moving}", "tangent", nodes


@pytest.mark.parametrize("function", SWEPT, ids=lambda f: f.__name__)
def test_a_sweep_ends_with_the_numbers_of_utils(browser, tmp_path, function):
    page = show(browser, tmp_path, "sweep")
    page.get_by_label("Expression").select_option(function.__name__)
    for sweep, row, trace in sweeps(function):
        page.get_by_label("Sweep").select_option(label=sweep)
        *_, (nodes, _) = sweep_states(page)
        name_of = {t.name: n["name"] for t, (n, *_) in zip(trace, nodes)}
        for expected, (data, written, _) in zip(trace, nodes, strict=True):
            numbers = {"value": expected.value, row: getattr(expected, row)}
            assert data == {"name": data["name"]} | {
                key: pytest.approx(number, rel=SWEEP_TOLERANCE, abs=1e-300)
                for key, number in numbers.items()
            }
            line = data["name"]
            if expected.function:
                words = re.split(r"\b", expected.expression)
                line += " = " + "".join(name_of.get(w, w) for w in words)
            shown = [f"{n + 0.0:.4g}" for n in numbers.values()]
            assert [t.split(" = ")[-1] for t in written[1:]] == [
                n.replace("-", "\N{MINUS SIGN}") for n in shown
            ]
            assert written[0] == line


@pytest.mark.parametrize("function", SWEPT, ids=lambda f: f.__name__)
def test_each_step_of_a_sweep_says_what_it_does(browser, tmp_path, function):
    page = show(browser, tmp_path, "sweep")
    page.get_by_label("Expression").select_option(function.__name__)
    for sweep, row, trace in sweeps(function):
        page.get_by_label("Sweep").select_option(label=sweep)
        (before, _), *rest = sweep_states(page)
        operations = len(trace) - len(SWEPT[function])
        terms = sum(p is not None for node in trace for p in node.parents)
        assert len(rest) == operations + (row == "adjoint") * (1 + terms)
        for nodes, said in rest:
            (current,) = [data for data, _, width in nodes if width == "3.2"]
            known = {data["name"]: data for data, *_ in before}
            was = known[current["name"]]
            assert current != was
            for name, sign, rule, product, result in re.findall(
                rf"{row} of (\w+) (\+?=) (.+) = (.+) = (.+)", said
            ):
                assert name == current["name"]
                gained = current[row] - (was.get(row, 0) if sign == "+=" else 0)
                for key, data in {**known, name: current}.items():
                    rule = rule.replace(f"{row} of {key}", str(data.get(row)))
                values = {key: data.get("value") for key, data in known.items()}
                values |= {name: current["value"], "cos": np.cos}
                assert eval(rule, values) == pytest.approx(gained, rel=1e-12)
                for rounded in (product, result):
                    assert eval(rounded) == pytest.approx(gained, rel=1e-3)
            for terms, total in re.findall(r"terms: (.+) = (.+)", said):
                for rounded in (terms, total):
                    assert eval(rounded) == pytest.approx(
                        current[row], rel=1e-3
                    )
            before = nodes


def test_a_sweep_goes_by_keyboard(browser, tmp_path):
    page = show(browser, tmp_path, "sweep")
    page.get_by_label("Expression").focus()
    seen = sweep_states(page, to_the_end=False)
    for key in (*3 * ["Tab"], "Enter", "Space", "Shift+Tab", *3 * ["Enter"]):
        page.keyboard.press(key)
        seen += sweep_states(page, to_the_end=False)
    start, *still, one, two, moved, back, again, stopped = seen
    assert still == [start] * 3
    assert start[1].startswith("Step 0 of 5.")
    assert one[1].startswith("Step 1 of 5.") and two[1].startswith("Step 2")
    assert [moved, back, again, stopped] == [two, one, start, start]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowDown")
    assert "The tangent of x is 1" in status(page)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowUp")
    assert "x = 0.5 and y = 3" in status(page)


def test_a_sweep_is_printed_to_its_end(browser, tmp_path):
    page = show(browser, tmp_path, "sweep")
    page.pdf()
    assert status(page).startswith("Step 5 of 5.")
