"""What programs read - JSON output and files of ranks - follows the schemas in docs/schema."""

import copy
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import shell
import typer

import evenrank as er
from evenrank import cli

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


EVALUATE = [
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
    "tables/tied.csv -m mrr,hits@1",
    "tables/tied.csv --interval bootstrap --samples 100 --unit target -m mrr",
    "tables/answers.parquet -m map,ndcg@10",
    "tables/answers.parquet --interval delta -m map",
]
# schema: commands; the files are made below
COMMANDS = {
    "evaluation": [
        *(f"evaluate {words}" for words in EVALUATE),
        "rank nations/transe --data nations -o ranks.parquet",
        "demo",
        "adjust mrr=0.476 hits@10=0.57 --data wn18rr",
        "adjust mrr=0.476 --sizes 100x50",
        "baseline wn18rr -m mrr,hits@10",
    ],
    "comparison": [
        "compare transe.parquet complex.parquet -m mrr,hits@10",
        "compare transe.parquet transe.csv -m mrr --test t",
        "compare tables/answers.parquet tables/others.parquet -m map",
    ],
    "across": [
        "compare --across transe.parquet complex.parquet k-transe.parquet k-complex.parquet -m mrr"
    ],
    "estimate": [
        "estimate sampled.parquet -m mrr,hits@10",
        "estimate sampled.parquet -m mr --by side",
    ],
    "chance": [
        "chance mrr --data wn18rr",
        "chance mrr --data yago310 --value 0.1",
        "chance mrr --sizes 10x10 --value 2",
        "chance hmr --sizes 100,200,300 --method sample --samples 100 --value 3",
        "chance map --sizes 1000x50 --answers 3 --value 0.02",
    ],
    "adjustment": ["adjust tables/published.csv"],
    "published": ["published --data wn18rr -m mrr", "published --data fb15k237 --candidates any"],
    "audit": ["audit tables/published.csv", "audit"],
}
# what these print is for people, or lists files that they wrote
WITHOUT = {"atlas", "data", "explore", "leaderboard", "record", "report"}


@pytest.fixture(scope="module")
def folder(files):
    """Also other ranks: of another data set, sampled, tied, of several answers; and published values."""
    for name in ("transe", "complex"):
        model, graph = er.models.load(f"kinships/{name}"), er.load("kinships")
        er.rank(model, graph.task("test"), progress=False).save(files / f"k-{name}.parquet")
    task = er.load("nations").task("test", candidates=5)
    er.rank(er.models.load("nations/transe"), task, progress=False).save(files / "sampled.parquet")
    text = "model,data,mrr,hits@1,hits@10\nA,wn18rr,0.476,0.6,0.5\nB,wn18rr,0.476,0.43,0.57\n"
    files.joinpath("tables").mkdir()
    files.joinpath("tables", "published.csv").write_text(text, encoding="utf-8")
    files.joinpath("tables", "tied.csv").write_text(
        "better,equal,candidates\n" + "0,2,9\n1,3,12\n" * 5, encoding="utf-8"
    )
    for name, first in (("answers", 1), ("others", 2)):
        ranked = [[first, first + 3 + i % 3] for i in range(20)]
        rankings = er.Rankings.of(ranked, candidates=[50] * 20, keys={"query": list(range(20))})
        rankings.save(files / "tables" / f"{name}.parquet")
    return files


def output(command, monkeypatch):
    """What a command prints as JSON."""
    words = ["evenrank", *command.split(), "--format", "json"]
    code, out, err = shell.called(words, monkeypatch)
    assert code == 0, err
    return json.loads(out)


@pytest.mark.parametrize(
    ("name", "command"), [(name, command) for name, some in COMMANDS.items() for command in some]
)
def test_json_of_commands_follows_its_schema(name, command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    found = output(command, monkeypatch)
    check = validator(f"{name}-1")
    check.validate(found)
    assert len(found.get("rows", ["none"])) > 0
    if "protocol" in found:
        validator("protocol-1").validate(found["protocol"])
    for broken in damaged(found):
        assert not check.is_valid(broken), broken


def test_every_command_with_json_has_a_schema_or_is_known_to_have_none():
    described = {command.split()[0] for some in COMMANDS.values() for command in some}
    printing = {name for name, command in commands() if any(p.name == "form" for p in command.params)}
    assert not described & WITHOUT
    # import prints what evaluate does, of the ranks that it imports
    assert printing == described | WITHOUT | {"import"}


def commands():
    """Every command, by the first word of its name."""
    for name, command in typer.main.get_command(cli.app).commands.items():
        command = command.load()
        yield name, command
        yield from ((name, inner) for inner in getattr(command, "commands", {}).values())


def test_the_page_lists_every_schema_and_its_commands():
    page = ROOT.joinpath("docs", "schemas.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)-1\.json` \| (.*) \|$", page, re.MULTILINE))
    assert set(rows) == {path.stem.removesuffix("-1") for path in SCHEMAS.iterdir()}
    for name, some in COMMANDS.items():
        for command in some:
            assert f"`evenrank {command.split()[0]}" in rows[name], (name, command)


def damaged(found):
    """Outputs that no program expects: an entry lost, another type, an unknown entry."""
    for name in ("rows", "notes", "mean", "findings", "models"):
        if name in found:
            yield {k: v for k, v in found.items() if k != name}
    yield {**found, "new": 1}
    if "notes" in found:
        yield {**found, "notes": "none"}
    if "protocol" in found:
        yield {**found, "protocol": {"data": 3}}
    for table in ("rows", "pairs", "findings"):
        if found.get(table):
            yield {**found, table: [wrong(found[table][0]), *found[table][1:]]}
    for name in ("mean", "variance", "p"):
        if name in found:
            yield {**found, name: "0.5"}


def wrong(row):
    """A row with a text where its number, or a number where its text is."""
    row = copy.deepcopy(row)
    if "values" in row:
        return row | {"values": {"mrr": "0.5"}}
    numbers = [name for name in ("value", "mean", "difference") if isinstance(row.get(name), float)]
    if numbers:
        return row | {numbers[0]: "0.5"}
    if "finding" in row:
        return row | {"finding": 1}
    name = next(k for k, v in row.items() if isinstance(v, dict))  # files side by side
    return row | {name: {"mrr": "0.5"}}


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
