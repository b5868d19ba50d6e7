"""What a release needs agrees: versions, dependencies, workflows, the slim installation."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import evenrank as er

ROOT = Path(__file__).parents[1]
if not (ROOT / "recipe").is_dir():
    pytest.skip("the files of a release are only in the source tree", allow_module_level=True)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def text(*names):
    return ROOT.joinpath(*names).read_text(encoding="utf-8")


def recipe():
    """The recipe for conda, with its templates replaced by text."""
    plain = re.sub(r"\{%.*?%\}", "", text("recipe", "meta.yaml"))
    plain = re.sub(r"\{\{\s*(.*?)\s*\}\}", lambda found: found[1].replace("'", ""), plain)
    return yaml.safe_load(plain)


def test_all_files_name_the_same_version():
    assert re.search(r'version = "(.+?)"', text("recipe", "meta.yaml"))[1] == er.__version__
    assert yaml.safe_load(text("CITATION.cff"))["version"] == er.__version__
    assert re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)[1] == er.__version__


def test_conda_has_the_dependencies_of_pip():
    needed = sorted(spec.replace(">=", " >=") for spec in PROJECT["dependencies"])
    found = recipe()
    assert sorted(found["requirements"]["run"][1:]) == needed
    assert found["build"]["entry_points"] == [f"evenrank = {PROJECT['scripts']['evenrank']}"]
    assert found["about"]["license_file"] == PROJECT["license-files"]
    for name in found["about"]["license_file"]:
        assert ROOT.joinpath(name).is_file()


def test_every_supported_python_is_tested():
    listed = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c}
    tests = yaml.safe_load(text(".github", "workflows", "tests.yml"))["jobs"]
    for job in ("tests", "windows"):
        assert set(tests[job]["strategy"]["matrix"]["python"]) == listed
    assert PROJECT["requires-python"] == f">={min(listed, key=lambda v: int(v.split('.')[1]))}"


def test_workflows_run_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))
    files = sorted(ROOT.joinpath(".github", "workflows").glob("*.yml"))
    called = set()
    for file in files:
        jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values()
        steps = [step.get("run", "") for job in jobs for step in job["steps"]]
        called |= set(re.findall(r"\bmake ([\w-]+)", "\n".join(steps)))
    called |= set(re.findall(r"^(?:[A-Z_]+=\S+ )*make ([\w-]+)", text(".ci", "run"), re.MULTILINE))
    assert {"test", "lint", "release-check"} <= called
    assert called - {"docs"} <= targets


def test_commits_are_checked_by_the_same_versions_as_the_package():
    hooks = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    pins = {pin for hook in hooks for pin in hook["additional_dependencies"]}
    assert pins
    assert pins <= set(text("constraints.txt").splitlines())


def test_the_readme_of_the_package_has_links_that_work_on_an_index():
    pytest.importorskip("hatchling", reason="the backend of the build is not installed")
    sys.path.insert(0, str(ROOT))
    import hatch_build  # the hooks of the build

    sys.path.remove(str(ROOT))
    page = text("README.md")
    found = hatch_build.absolute(page, "https://example.org/repository", "v1.2.3")
    links = re.findall(r"\]\(([^)]+)\)", found)
    assert all(link.startswith("https://") for link in links)
    ours = [link for link in links if link.startswith("https://example.org/")]
    assert "https://example.org/repository/raw/v1.2.3/docs/case-study.png" in ours
    assert "https://example.org/repository/blob/v1.2.3/docs/first-hour.md" in ours
    assert all(ROOT.joinpath(link.split("/v1.2.3/")[1]).is_file() for link in ours)

    for urls in ({}, {"Repository": "https://example.org/repository/"}):
        metadata = {"urls": urls}
        hatch_build.ReadmeHook(str(ROOT), {}).update(metadata)
        expected = hatch_build.absolute(page, "https://example.org/repository", f"v{er.__version__}")
        assert metadata["readme"]["text"] == (expected if urls else page)


def test_fragments_of_the_changelog_are_of_a_known_kind():
    kinds = {
        kind["directory"] for kind in tomllib.loads(text("pyproject.toml"))["tool"]["towncrier"]["type"]
    }
    for path in ROOT.joinpath("changelog.d").iterdir():
        if path.name not in ("README.md", "template.md"):
            assert re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(kinds)})\.md", path.name), path.name
            assert path.read_text(encoding="utf-8").strip().endswith((".", "```"))


# what the metrics-only installation of docs/install.md has
SLIM = """
import sys
for name in {absent!r}:
    sys.modules[name] = None  # importing it fails
import numpy as np
import evenrank as er

ranks = er.Ranks.of([1, 3, 1, 12], candidates=14_541)
assert abs(ranks.evaluate("mrr", "index(mrr)")["mrr"] - (1 + 1 / 3 + 1 + 1 / 12) / 4) < 1e-15
assert er.MRR([1, 2, 4]) == (1 + 1 / 2 + 1 / 4) / 3
assert 0 < er.chance("mrr", sizes=[100] * 50).sf(0.1) < 0.01
assert "wn18rr" in str(er.adjust({{"mrr": 0.476}}, data="wn18rr"))
pair = [er.Ranks.of(np.random.default_rng(i).integers(1, 50, 100), candidates=99) for i in (0, 1)]
assert "mrr" in str(er.intervals(pair[0], "mrr"))
models = dict(zip("ab", pair))
assert "mrr" in str(er.compare(models, metrics="mrr", on="row"))
assert "toprule" in er.evaluate(models, "mrr").to_latex()
try:
    ranks.save("x.parquet")
except ModuleNotFoundError as error:
    assert "polars" in str(error)
else:
    raise AssertionError("polars was imported")
"""


def test_metrics_need_numpy_and_scipy_only():
    absent = [re.match(r"[\w.-]+", spec)[0] for spec in PROJECT["dependencies"]]
    absent = [name for name in absent if name not in ("numpy", "scipy")]
    assert "polars" in absent
    done = subprocess.run(
        [sys.executable, "-c", SLIM.format(absent=absent)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("absent", ["typer", "polars"])
def test_the_shell_names_a_library_that_is_not_installed(absent, tmp_path):
    code = f"import sys; sys.modules[{absent!r}] = None; from evenrank.cli import main; main()"
    words = ["evaluate", str(tmp_path / "x.csv")]
    (tmp_path / "x.csv").write_text("better,equal,candidates\n0,0,9\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"evenrank: this requires a library that is not installed; got {absent}; pip install evenrank\n"
    )
