"""What programs read - JSON output and files of ranks - follows the schemas in docs/schema."""

import copy
import json
from dataclasses import fields
from pathlib import Path

import pytest
import shell

import evenrank as er

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "docs" / "schema"
if not SCHEMAS.is_dir():
    pytest.skip("the schemas are only in the source tree", allow_module_level=True)


def validator(name):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.fixture(scope="module")
def files(nations, tmp_path_factory):
    """Files of ranks of two models."""
    folder = tmp_path_factory.mktemp("ranks")
    for name in ("transe", "complex"):
        nations[name].save(folder / f"{name}.parquet")
        nations[name].save(folder / f"{name}.csv")
    return folder


COMMANDS = [
    "transe.parquet",
    "transe.parquet complex.parquet -m mrr,z(mrr),hits@10",
    "transe.csv --by side -m mrr,index(mrr)",
    "transe.parquet complex.parquet --by relation,side -m mrr,z(mrr)",
    "transe.parquet --averages -m mrr",
    "transe.parquet complex.parquet --averages --by side -m mrr",
    "transe.parquet --interval delta -m mrr,hits@10",
    "transe.parquet complex.parquet --by side --interval delta -m mrr",
    "transe.parquet --averages --interval bootstrap --samples 100 -m mrr",
    "transe.parquet complex.parquet --runs -m mrr",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_json_of_evaluate_follows_its_schema(command, files, monkeypatch):
    monkeypatch.chdir(files)
    words = ["evenrank", "evaluate", *command.split(), "--format", "json", "--quiet"]
    code, out, _ = shell.called(words, monkeypatch)
    assert code == 0
    found = json.loads(out)
    assert found["rows"]
    check = validator("evaluation-1")
    check.validate(found)
    validator("protocol-1").validate(found["protocol"])
    for broken in damaged(found):
        assert not check.is_valid(broken), broken


def damaged(found):
    """Outputs that no program expects: an entry lost, another type, an unknown entry."""
    yield {k: v for k, v in found.items() if k != "rows"}
    yield {**found, "new": 1}
    yield {**found, "notes": "none"}
    yield {**found, "protocol": {"data": 3}}
    row = copy.deepcopy(found["rows"][0])
    number = next((k for k in ("value", "mean", "values") if k in row), None)
    if number is None:  # files side by side
        name = next(k for k, v in row.items() if isinstance(v, dict))
        row[name] = {"mrr": "0.5"}
    else:
        row[number] = "0.5"
    yield {**found, "rows": [row, *found["rows"][1:]]}


def test_protocols_of_files_follow_their_schema(files):
    check = validator("protocol-1")
    old = sorted(Path(__file__).parent.joinpath("fixtures").rglob("*.parquet"))
    assert old
    for path in [*files.glob("*.parquet"), *files.glob("*.csv"), *old]:
        check.validate(er.Ranks.load(path).protocol.to_dict())
    assert not check.is_valid({"ties": "coin"})
    assert not check.is_valid({"model": 3})


def test_the_schema_of_protocols_lists_all_entries():
    schema = validator("protocol-1").schema
    names = [field.name for field in fields(er.Protocol) if field.name != "extra"]
    assert list(schema["properties"]) == names


def test_rows_of_files_follow_their_schema(files):
    check = validator("rank-row-1")
    for path in files.glob("*.*"):
        for row in er.Ranks.load(path).to_polars().head(50).to_dicts():
            check.validate(row)
    assert not check.is_valid({"better": -1, "equal": 0})
    assert not check.is_valid({"better": 0})
