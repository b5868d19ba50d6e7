"""How far do random models spread? The figure and the simulations of docs/random-scorer.md.

Draws scorers of two kinds on Nations: tables of independent scores, which is what the null distribution
of evenrank describes, and embedding models with random parameters, whose scores of different triples
depend on each other. Prints the standard deviation of their z-scores, and draws those of MRR.

    python examples/random_scorer.py [--scorers 2000] [--figure docs/random-scorer.svg]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from math import exp, pi, sqrt
from pathlib import Path

import numpy as np

import evenrank as er

METRICS = ("mr", "mrr", "hits@1", "hits@10")
LAWS = ("independent", "scorer")
DIMENSION = 16


def tables(task: er.Task, rng: np.random.Generator, scorers: int) -> np.ndarray:
    """Metrics of tables of independent scores, a row each."""
    seed = int(rng.integers(2**31))
    return np.stack([task.simulated(er.parse(m), scorers, seed) for m in METRICS], axis=1)


def embeddings(kind: str) -> Callable[[er.Task, np.random.Generator, int], np.ndarray]:
    """Metrics of models with random parameters, a row each."""

    def draw(task: er.Task, rng: np.random.Generator, scorers: int) -> np.ndarray:
        rows = []
        for _ in range(scorers):
            entities, relations = (rng.normal(size=(n, DIMENSION)) for n in (14, 55))
            model = getattr(er.models, kind)(entities, relations)
            rows.append([*er.rank(model, task).evaluate(*METRICS).to_dict().values()])
        return np.array(rows)

    return draw


def figure(values: np.ndarray, laws: dict[str, tuple[float, float]], path: Path) -> None:
    """Draw a histogram with the normal densities of both laws as SVG."""
    width, height, left, bottom = 640, 300, 16, 40
    mean, spread = laws["scorer"]
    edges = np.linspace(mean - 4 * spread, mean + 4 * spread, 61)
    density = np.histogram(values, edges, density=True)[0]
    top = 1.08 / (laws["independent"][1] * sqrt(2 * pi))

    def at(x: float, y: float) -> str:
        across = left + (x - edges[0]) / (edges[-1] - edges[0]) * (width - 2 * left)
        return f"{across:.1f},{(height - bottom) * (1 - y / top):.1f}"

    bars = "".join(
        f'<path class="bar" d="M{at(a, 0)} L{at(a, d)} L{at(b, d)} L{at(b, 0)}Z"/>'
        for a, b, d in zip(edges, edges[1:], density, strict=False)
    )
    curves = ""
    for name, (mu, sigma) in laws.items():
        xs = np.linspace(edges[0], edges[-1], 200)
        points = " ".join(
            at(x, exp(-0.5 * ((x - mu) / sigma) ** 2) / (sigma * sqrt(2 * pi))) for x in xs
        )
        curves += f'<polyline class="{name}" points="{points}"/>'
    ticks = "".join(
        f'<text x="{at(x, 0).split(",")[0]}" y="{height - 22}">{x:.2f}</text>'
        for x in np.arange(np.ceil(edges[0] * 50) / 50, edges[-1], 0.02)
    )
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        "<title>MRR of random scorers on Nations, and the two null distributions</title>\n"
        "<style>text{font:13px sans-serif;text-anchor:middle;fill:#444}.bar{fill:#c9d3e0}"
        "polyline{fill:none;stroke-width:2.2}.scorer{stroke:#1b5fae}"
        ".independent{stroke:#c2551b;stroke-dasharray:6 4}.key{text-anchor:start}</style>\n"
        f'<rect width="{width}" height="{height}" fill="#fff"/>{bars}{curves}{ticks}\n'
        f'<text x="{width / 2}" y="{height - 4}">MRR</text>\n'
        '<text class="key" x="446" y="30" style="fill:#1b5fae">random scorer</text>\n'
        '<text class="key" x="446" y="50" style="fill:#c2551b">independent ranks (dashed)</text>\n'
        '<text class="key" x="446" y="70">bars: simulated scorers</text>\n</svg>\n',
        encoding="utf-8",
    )


def main() -> None:
    """Print the table and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scorers", type=int, default=2000)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    task, rng = er.load("nations").task("test"), np.random.default_rng(0)
    nulls = {law: [er.chance(m, task, chance=law) for m in METRICS] for law in LAWS}
    print("standard deviation of z, independent / random scorer")
    print(f"{'':<10}" + "".join(f"{metric:>14}" for metric in METRICS))
    kinds = {"tables": tables, **{name: embeddings(name) for name in ("DistMult", "ComplEx", "TransE")}}
    for name, draw in kinds.items():
        values = draw(task, rng, options.scorers)
        cells = [
            " / ".join(f"{column.std() / nulls[law][i].std():.2f}" for law in LAWS)
            for i, column in enumerate(values.T)
        ]
        print(f"{name:<10}" + "".join(f"{cell:>14}" for cell in cells))
        if name == "tables" and options.figure:
            found = {law: (float(nulls[law][1].mean()), float(nulls[law][1].std())) for law in LAWS}
            figure(values[:, 1], found, options.figure)


if __name__ == "__main__":
    main()
