"""Reproduce the case study of Hoyt et al. (2022): four models on four data sets, adjusted exactly.

    python examples/case_study train [--data NAME ...] [--models NAME ...] [-o FOLDER]
    python examples/case_study table [--ranks FOLDER] [--markdown]
    python examples/case_study figure [--ranks FOLDER] [-o FILE ...]

`train` writes the test ranks and the model of each run. For Nations and Kinships, models are trained by
PyKEEN with the paper's settings, on a CPU, and ranked by evenrank and by PyKEEN's evaluator, which have
to agree. For WN18RR and FB15k-237, they are trained by `train.py`, in a few minutes each on a GPU.
`table` and `figure` compare our exact values with the published ones; by default they use the ranks
that come with this example, so that no training is needed.
"""

from __future__ import annotations

import argparse
import csv
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import evenrank as er
from evenrank._internal.table import Table, figure

HERE = Path(__file__).resolve().parent
SMALL, LARGE = ("nations", "kinships"), ("fb15k237", "wn18rr")
DATA = {"nations": "Nations", "kinships": "Kinships", "fb15k237": "FB15k-237", "wn18rr": "WN18RR"}
MODELS = {"complex": "ComplEx", "rotate": "RotatE", "transe": "TransE", "tucker": "TuckER"}
PANELS = ("mrr", "index(mrr)", "z(mrr)")  # the paper's MRR, AMRR and ZMRR
RUNS = "runs.csv"
Run = dict[str, Any]


# Training ----------------------------------------------------------------------------------------


def by_pykeen(graph: er.Graph, model: str, epochs: int | None) -> tuple[er.models.Model, er.Ranks, Run]:
    """Train with the paper's settings, and rank with both libraries."""
    import paper

    done = paper.train(graph, model, epochs=epochs)
    print(
        f"  ranked in {1e3 * done.evenrank:.0f} ms, by PyKEEN in {1e3 * done.pykeen:.0f} ms; "
        f"their metrics differ by {done.deviation:.0e} at most"
    )
    times = {"training_s": done.training, "evenrank_s": done.evenrank, "pykeen_s": done.pykeen}
    return done.model, done.ranks, times | {"deviation": done.deviation}


def by_torch(
    graph: er.Graph, model: str, epochs: int | None, seconds: float
) -> tuple[er.models.Model, er.Ranks, Run]:
    """Train until the time is over; keep the parameters with the best validation MRR."""
    from train import train

    recipe = tomllib.loads((HERE / "recipes.toml").read_text(encoding="utf-8"))[graph.name][model]
    recipe = recipe if epochs is None else {**recipe, "epochs": epochs}
    best = None
    for progress in train(graph, model, recipe, seconds=seconds):
        print(f"  {progress}", flush=True)
        best = progress.better or best
    assert best is not None
    task = graph.task("test")
    start = time.perf_counter()
    ranks = er.rank(best, task, device="auto", progress=False)
    took = time.perf_counter() - start
    return best, ranks, {"training_s": progress.seconds, "evenrank_s": took}


def train(arguments: argparse.Namespace) -> None:
    """Train models, and write the ranks and the model of each run."""
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    for data in arguments.data:
        graph = er.load(data, unseen="drop")  # as the paper did
        for model in arguments.models:
            print(f"{MODELS[model]} on {DATA[data]}", flush=True)
            if data in SMALL:
                trained, ranks, times = by_pykeen(graph, model, arguments.epochs)
            else:
                trained, ranks, times = by_torch(graph, model, arguments.epochs, 60 * arguments.minutes)
            er.models.save(trained, folder / f"{data}-{model}.safetensors", graph=graph)
            ranks.save(folder / f"{data}-{model}.parquet")
            record(folder / RUNS, {"data": data, "model": model, **times})
            print(f"  MRR {ranks.evaluate('mrr')['mrr']:.4f}", flush=True)


def record(path: Path, run: Run) -> None:
    """Record the times of a run; they replace those of an earlier one."""
    names = ("data", "model", "training_s", "evenrank_s", "pykeen_s", "deviation")
    runs = [r for r in rows(path) if (r["data"], r["model"]) != (run["data"], run["model"])]
    runs.append({name: rounded(v) if isinstance(v, float) else v for name, v in run.items()})
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(runs, key=lambda run: (order(run), run["model"])))


def rounded(x: float) -> str:
    """Format with three significant digits."""
    return f"{float(f'{x:.3g}'):g}"


def rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file; a missing one has no rows."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def order(run: Mapping[str, Any]) -> int:
    return list(DATA).index(run["data"])


# Results -----------------------------------------------------------------------------------------


def ours(folder: Path) -> dict[tuple[str, str], er.Evaluation]:
    """Evaluate the runs whose ranks are in a folder."""
    files = {(d, m): folder / f"{d}-{m}.parquet" for d in DATA for m in MODELS}
    found = {run: er.Ranks.load(file) for run, file in files.items() if file.exists()}
    if not found:
        raise SystemExit(f"no ranks in {folder}; run `train -o {folder}` first")
    alone = "independent"  # as the paper takes ranks
    return {run: ranks.evaluate(*PANELS, "chance(mrr)", chance=alone) for run, ranks in found.items()}


def published() -> dict[tuple[str, str], dict[str, float]]:
    """Return the published values, errors included (Hoyt et al. 2022; see docs/published.md)."""
    return {
        (row["data"], row["model"]): {name: float(row[name]) for name in PANELS}
        for row in rows(HERE / "published.csv")
    }


def corrected() -> dict[tuple[str, str], dict[str, float]]:
    """Return the published MRR with exact adjusted values."""
    names = {name: key for key, name in MODELS.items()}
    return {
        (row["data"], names[row["model"]]): {
            "mrr": row["value"],
            "index(mrr)": row["index"],
            "z(mrr)": row["z"],
        }
        for row in er.published.adjust_table("hoyt2022", "mrr", chance="independent").rows()
    }


def table(arguments: argparse.Namespace) -> None:
    """Compare our runs with the published values and with their corrections."""
    runs, theirs, right = ours(Path(arguments.ranks)), published(), corrected()
    header = ["data", "model", "MRR\nours", "MRR\npaper"]
    for name in ("AMRR", "ZMRR"):
        header += [f"{name}\nours", f"{name}\npaper", f"{name}\npaper, exact"]
    lines = [
        [DATA[data], MODELS[model], figure(run["mrr"]), figure(theirs[data, model]["mrr"])]
        + [
            figure(number)
            for name in ("index(mrr)", "z(mrr)")
            for number in (run[name], theirs[data, model][name], right[data, model][name])
        ]
        for (data, model), run in runs.items()
    ]
    if arguments.markdown:
        header = [title.replace("\n", ", ") for title in header]
        print(Table(header, lines, labels=2).markdown())
    else:
        print(Table(header, lines, labels=2).text())


def points(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the points of the figure: our runs and the published values."""
    runs, theirs = ours(folder), published()
    for (data, model), run in sorted(runs.items(), key=lambda run: list(MODELS).index(run[0][1])):
        where = {"data": DATA[data], "model": MODELS[model]}
        for metric in PANELS:
            chance = run["chance(mrr)"] if metric == "mrr" else None
            yield {**where, "metric": metric, "value": run[metric], "chance": chance}
            yield {**where, "metric": metric, "value": theirs[data, model][metric], "published": True}


def draw(arguments: argparse.Namespace) -> None:
    """Draw the paper's figure: MRR, AMRR and ZMRR by data set and model."""
    from evenrank.report import charts

    chart = charts.panels(points(Path(arguments.ranks)), PANELS)
    for file in arguments.output:
        print(charts.save(chart, file))


# Command line ------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    usage, _, _ = (__doc__ or "").partition("\n")
    top = argparse.ArgumentParser("case_study", description=usage)
    verbs = top.add_subparsers(required=True)

    def verb(name: str, work: Any) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=work.__doc__)
        made.set_defaults(work=work)
        return made

    one = verb("train", train)
    one.add_argument("--data", nargs="+", choices=DATA, default=SMALL)
    one.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    one.add_argument(
        "--minutes",
        type=float,
        default=5,
        help="time limit for each model of a large data set (default: 5)",
    )
    one.add_argument("--epochs", type=int, help="number of epochs (default: as in the settings)")
    one.add_argument("-o", "--output", default="case_study", help="folder for ranks and models")
    two, three = verb("table", table), verb("figure", draw)
    for made in (two, three):
        made.add_argument("--ranks", default=HERE / "ranks", help="folder that `train` wrote")
    two.add_argument("--markdown", action="store_true")
    three.add_argument("-o", "--output", nargs="+", default=["case_study.png", "case_study.svg"])
    return top


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    try:
        given.work(given)
    except er.errors.InputError as error:
        raise SystemExit(f"case_study: {error}") from None
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"case_study: training needs {error.name}; pip install 'evenrank[peers]'"
        ) from None


if __name__ == "__main__":
    main()
