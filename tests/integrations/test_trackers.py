"""Export of results: keys for experiment trackers, data frames, extras."""

import json
import re
import runpy
import struct
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import expressions

import evenrank as er
from evenrank._internal import optional as extras
from evenrank.ranks.evaluation import plain_label, plain_metric

ROOT = Path(__file__).parents[2]

# warnings of the libraries and their dependencies are ignored
pytestmark = pytest.mark.filterwarnings(
    "ignore:::(mlflow|wandb|sqlalchemy|alembic|pydantic|google|opentelemetry)"
)


def library(name):
    """Import a library of an extra, or skip the test."""
    return pytest.importorskip(name, reason=f"{name} is not installed (make peers installs it)")


@pytest.fixture(scope="module")
def ranks():
    model = er.models.load(files("evenrank") / "models/bundled/nations-complex.safetensors")
    return er.rank(model, er.load("nations").task("test"), progress=False)


# Keys ---------------------------------------------------------------------------------------------

LEGAL = re.compile(r"[\w.-]+")  # for MLflow and everybody else


def test_a_dictionary_has_a_key_per_value(ranks):
    result = ranks.evaluate("mrr", "hits@10", "z(1/gmr)")
    assert result.to_dict() == dict(result)
    assert tuple(er.parse(key) for key in result.to_dict()) == result.expressions
    assert result.to_dict("valid/", plain=True) == {
        "valid/mrr": result["mrr"],
        "valid/hits_at_10": result["hits@10"],
        "valid/z_igmr": result["z(igmr)"],
    }


def test_flat_puts_groups_behind_their_labels(ranks):
    groups = ranks.by("side", "relation").evaluate("mrr", "hits@1")
    rows = groups.rows()
    flat = groups.to_dict()
    assert len(flat) == 2 * len(rows)
    assert all(flat[f"{r['side']}/{r['relation']}/hits@1"] == r["hits@1"] for r in rows)
    one_side = ranks[ranks.keys["side"] == "head"].by("side").evaluate("mrr")
    assert list(one_side.to_dict()) == ["head/mrr"]  # as with two sides


@given(st.lists(expressions, unique=True, min_size=2, max_size=6))
def test_plain_keys_are_legal_and_differ(metrics):
    keys = [plain_metric(metric) for metric in metrics]
    assert all(LEGAL.fullmatch(key) for key in keys)
    assert len(set(keys)) == len(keys)


@given(st.text())
def test_plain_labels_are_legal(text):
    assert LEGAL.fullmatch(plain_label(text))
    assert plain_label(text) not in (".", "..")


def test_colliding_keys_raise():
    ranks = er.Ranks.of([1, 2], candidates=9, keys={"relation": ["born in", "born_in"]})
    result = ranks.by("relation").evaluate("mrr")
    assert len(result.to_dict()) == 2
    with pytest.raises(er.errors.InputError, match="same key; got 'born_in/mrr'; use rows"):
        result.to_dict(plain=True)


@pytest.mark.parametrize("name", ["count", "tie_rate", "mrr"])
def test_values_and_keys_of_the_same_name_are_both_kept(name):
    """A table shows both; where columns are told by name, one of them would be lost."""
    result = er.Ranks.of([1, 2], candidates=9, keys={name: ["few", "many"]}).by(name).evaluate("mrr")
    assert result.labels == (("few",), ("many",))
    assert "few" in result.text()
    wants = [result.rows, result.to_csv, result.to_polars]
    for want in [
        *wants,
        *([result.to_json] if name != "mrr" else []),
    ]:  # JSON has values one level below
        with pytest.raises(
            er.errors.InputError, match=f"same name; got '{name}'; rename the key column"
        ):
            want()


def test_duplicate_keys_raise():
    parts = {"a": er.Ranks.of([1, 2], candidates=9, keys={"model": ["x", "y"]}).by("model")}
    result = er.intervals(parts, "mrr").evaluation
    with pytest.raises(er.errors.InputError, match="two columns would have the same name; got 'model'"):
        result.rows()


# Frames -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def every(ranks):
    """One result of each kind."""
    other = er.Ranks(ranks.better[::-1], ranks.equal, ranks.candidates[::-1], keys=ranks.keys)
    return {
        "evaluation": ranks.evaluate(),
        "groups": ranks.by("side", "relation").evaluate("count", "mrr", "index(mrr)"),
        "intervals": er.intervals(ranks, "mrr"),
        "comparison": er.compare(a=ranks, b=other, mixed=True),
        "seeds": er.summarize_runs([ranks, other], "mrr", "mr"),
        "published": er.adjust({"mrr": 0.7, "hits@10": 0.9}, data="nations", split="test"),
    }


@pytest.mark.parametrize(
    "name", ["evaluation", "groups", "intervals", "comparison", "seeds", "published"]
)
def test_every_result_goes_into_frames(every, name):
    pd, pa = library("pandas"), library("pyarrow")
    result = every[name]
    rows = result.rows()
    text = [{k: v for k, v in row.items() if isinstance(v, str)} for row in rows]
    numbers = [{k: v for k, v in row.items() if isinstance(v, int | float)} for row in rows]
    made = {
        "polars": result.to_polars().to_dicts(),
        "pandas": result.to_pandas().to_dict("records"),
        "arrow": result.to_arrow().to_pylist(),
        "stream": pa.table(result).to_pylist(),  # by __arrow_c_stream__
    }
    assert isinstance(result.to_pandas(), pd.DataFrame)
    for kind, records in made.items():
        assert [{k: r[k] for k in t} for r, t in zip(records, text, strict=True)] == text, kind
        for record, wanted in zip(records, numbers, strict=True):
            np.testing.assert_array_equal([record[k] for k in wanted], [*wanted.values()], kind)
        assert all(list(record) == list(row) for record, row in zip(records, rows, strict=True))
    assert "<table>" in result._repr_html_()


def test_a_result_without_rows_is_an_empty_frame():
    from evenrank._internal.table import Shown

    class Nothing(Shown):
        tables = content = lambda self: []

        def rows(self):
            return []

    assert Nothing().to_polars().shape == (0, 0)


def test_ranks_go_into_xarray(ranks):
    library("xarray")
    data = ranks.to_xarray()
    assert dict(data.sizes) == {"target": len(ranks)}
    assert set(data.coords) == set(ranks.keys)
    assert data.attrs == ranks.protocol.to_dict()
    heads = data.where(data.side == "head", drop=True)
    assert heads.better.values.tolist() == ranks.better[ranks.keys["side"] == "head"].tolist()


@pytest.mark.parametrize("name", ["row", "target"])
def test_keys_may_have_the_name_of_a_dimension(name):
    library("xarray")
    data = er.Ranks.of([1, 4], candidates=9, keys={name: ["a", "b"]}).to_xarray()
    assert dict(data.sizes) == {"target": 2}
    assert data.coords[name].values.tolist() == ["a", "b"]


def test_evaluations_go_into_xarray(ranks):
    library("xarray")
    single = ranks.evaluate("mrr", "hits@1").to_xarray()
    assert single["mrr"].item() == ranks.evaluate("mrr")["mrr"]
    assert single["count"].item() == len(ranks)
    groups = ranks.by("side", "relation").evaluate("mrr")
    data = groups.to_xarray()
    assert data["mrr"].dims == ("side", "relation")
    for row in groups.rows():
        assert data["mrr"].sel(side=row["side"], relation=row["relation"]).item() == row["mrr"]
    assert int(data["mrr"].notnull().sum()) == len(groups.rows()) <= data["mrr"].size
    assert data.attrs == groups.protocol.to_dict()


def test_other_results_go_into_xarray_by_row(every):
    library("xarray")
    data = every["comparison"].to_xarray()
    assert dict(data.sizes) == {"row": len(every["comparison"].rows())}
    assert data["difference"].values.tolist() == [r["difference"] for r in every["comparison"].rows()]


# Extras -------------------------------------------------------------------------------------------


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("name", extras.LIBRARIES)
def test_extras_list_what_the_code_imports(name):
    extra = extras.LIBRARIES[name]
    assert f"{name}>={extra.least}" in project()[extra.name]


@pytest.mark.parametrize(
    "name", ["arrow", "lightning", "mlflow", "pandas", "sklearn", "torchmetrics", "wandb", "xarray"]
)
def test_every_integration_has_an_extra(name):
    assert project()[name]


def test_absent_library_names_its_extra(monkeypatch, ranks):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(er.errors.InputError, match=r"this requires pandas; got .*'evenrank\[pandas\]'"):
        ranks.to_pandas()


def test_old_library_names_its_extra(monkeypatch, ranks):
    monkeypatch.setitem(sys.modules, "xarray", SimpleNamespace(__version__="0.21.1"))
    message = (
        "this version of xarray is too old; got 0.21.1; allowed: 2024.6 or newer; "
        "pip install --upgrade 'evenrank[xarray]'"
    )
    with pytest.raises(er.errors.InputError, match=re.escape(message)):
        ranks.to_xarray()


@pytest.mark.parametrize("name", ["torchmetrics", "lightning"])
def test_integration_without_its_library_names_the_extra(name):
    code = f"""
import sys
sys.modules[{name!r}] = None
from evenrank.errors import InputError
try:
    import evenrank.integrations.{name}
except InputError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith(f"this requires {name}; got")
    assert run.stdout.endswith(f"'evenrank[{name}]'\n")


# Trackers -----------------------------------------------------------------------------------------


@pytest.fixture
def saved(ranks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ranks.save("ranks.parquet")
    return "ranks.parquet"


def logged_by_both(ranks):
    by_side = ranks.by("side").evaluate("mrr", "index(mrr)")
    return {**ranks.evaluate().to_dict(plain=True), **by_side.to_dict(plain=True)}


def test_mlflow_takes_metrics_protocol_and_ranks(ranks, saved, tmp_path):
    mlflow = library("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    runpy.run_path(str(ROOT / "examples/log_to_mlflow.py"))["main"](saved)
    (run,) = mlflow.search_runs(output_format="list")
    assert run.data.metrics == logged_by_both(ranks)
    assert run.data.params == ranks.evaluate().protocol.to_dict()
    assert run.data.tags["protocol"] == ranks.evaluate().fingerprint
    kept = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path=saved)
    assert er.Ranks.load(kept).evaluate().to_dict() == ranks.evaluate().to_dict()
    with mlflow.start_run(), pytest.raises(mlflow.MlflowException, match="Invalid"):
        mlflow.log_metrics(ranks.evaluate("hits@10").to_dict())  # why plain keys are needed


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_examples_without_arguments_print_their_usage(name, monkeypatch):
    library(name)
    monkeypatch.setattr("sys.argv", ["log.py"])
    with pytest.raises(SystemExit, match=rf"Usage: python examples/log_to_{name}.py RANKS.parquet"):
        runpy.run_path(str(ROOT / f"examples/log_to_{name}.py"), run_name="__main__")


def wandb_records(path):
    """Read what W&B would send: a log of LevelDB's format, in blocks of 32 KiB, after seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, pending = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32_768 - at % 32_768 < 7:  # no room for a header: the block ends with zeros
            at += 32_768 - at % 32_768
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        pending += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            yield Record.FromString(pending)
            pending = b""


def test_wandb_takes_metrics_protocol_and_ranks(ranks, saved, tmp_path, monkeypatch):
    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    wandb = library("wandb")
    runpy.run_path(str(ROOT / "examples/log_to_wandb.py"))["main"](saved)
    wandb.teardown()  # its service writes on for a moment after the run has finished
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    records = list(wandb_records(file))
    told = {
        item.key or "/".join(item.nested_key): json.loads(item.value_json)
        for record in records
        for item in record.history.item
    }
    wanted = logged_by_both(ranks)
    assert {key: told[key] for key in wanted} == wanted
    (relations,) = file.parent.glob("files/media/table/*.json")
    assert len(json.loads(relations.read_text())["data"]) == len(ranks.by("relation"))
    assert any(record.artifact.type == "ranks" for record in records)
    config = {u.key: json.loads(u.value_json) for r in records for u in r.run.config.update}
    assert config.items() >= ranks.evaluate().protocol.to_dict().items()
