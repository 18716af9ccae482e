"""The matrix covers what is supported, installs what it says, and counts rightly."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
import run_matrix  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_examples_hold():
    assert not doctest.testmod(run_matrix).failed


def test_each_python_meets_each_tensorflow():
    rows = run_matrix.versions().values()
    workflow = yaml.safe_load((ROOT / ".github/workflows/book.yml").read_text())
    pythons = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert pythons == run_matrix.PYTHONS
    oldest = re.search(r"tensorflow>=([\d.]+)", str(PROJECT["dependencies"]))
    tensorflows = {t for _, t, _ in rows}
    assert run_matrix.pinned("tensorflow") in tensorflows
    assert any(t.startswith(oldest[1] + ".") for t in tensorflows)
    pairs = {(p, t) for p, t, _ in rows}
    assert pairs == {*product(pythons, tensorflows)}
    assert len({k for _, _, k in rows}) > 1


def test_a_combination_changes_its_pins_and_no_other():
    pins = (ROOT / "requirements.txt").read_text().splitlines()
    changed = run_matrix.requirements("2.20.0", "3.10.0").splitlines()
    others = [(a, b) for a, b in zip(pins, changed, strict=True) if a != b]
    assert sorted(re.split("==| ", after)[:2] for _, after in others) == [
        ["keras", "3.10.0"],
        ["tensorflow", "2.20.0"],
        ["tensorflow-cpu", "2.20.0"],
    ]
    same = map(run_matrix.pinned, ("tensorflow", "keras"))
    assert run_matrix.requirements(*same).splitlines() == pins


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What the tool makes of a chapter with other versions: one cell of each kind."""
    folder = tmp_path_factory.mktemp("chapter")
    new, cells = nbformat.v4, []
    for source, stored, tags in [
        ("print(1)", "1\n", []),
        ("print(1)", "2\n", ["version-bound"]),
        ("print(1)", "1\n", ["version-bound"]),
        ("print(1)", "2\n", []),
    ]:
        cells.append(new.new_code_cell(source, metadata={"tags": tags}))
        cells[-1].execution_count = len(cells)
        cells[-1].outputs = [new.new_output("stream", text=stored)]
    nbformat.write(new.new_notebook(cells=cells), folder / "a.ipynb")
    file = folder / "results.xml"
    command = [sys.executable, "-m", "pytest", "--rootdir", folder, folder]
    command += ["-p", "conftest", "-p", "run_matrix", "-p", "no:cacheprovider"]
    command += ["--nbval", "--nbval-current-env", "--junitxml", file]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tools")])
    subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        check=False,
    )
    return run_matrix.read_results(file, "a")


def test_a_cell_tagged_version_bound_may_differ_and_is_named(outcome):
    assert outcome.passed == 2
    assert [where.split("::")[1] for where in outcome.bound] == ["Cell 1"]


def test_another_cell_may_not_differ(outcome):
    assert [where.split("::")[1] for where in outcome.failed] == ["Cell 3"]


def test_a_python_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(run_matrix.shutil, "which", lambda name: None)
    with pytest.raises(run_matrix.NotRun, match="there is no python9"):
        run_matrix.make_environment(tmp_path / "a", "9.9", "")


@pytest.mark.parametrize(
    "results, status",
    [
        (["green", "green"], 0),
        (["green", "red"], 1),
        (["red: pytest ended with 3", "green"], 1),
        (["green", None], 2),
        ([None, "red"], 1),
    ],
)
def test_the_exit_status_tells(results, status, tmp_path, monkeypatch, capsys):
    def run(name, result):
        if result is None:
            raise run_matrix.NotRun("no Python")
        return run_matrix.Outcome(name, result)

    rows = {str(k): result for k, result in enumerate(results)}
    monkeypatch.setattr(run_matrix, "BUILD", tmp_path)
    monkeypatch.setattr(run_matrix, "versions", lambda: rows)
    monkeypatch.setattr(run_matrix, "try_versions", run)
    assert run_matrix.main() == status
    assert capsys.readouterr().out.count("not run: no Python | 0") == (
        results.count(None)
    )
    assert (tmp_path / "versions.md").read_text().startswith("| combination")
