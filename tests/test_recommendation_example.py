"""The recommendation example: files, splits, models, and all numbers a second way."""

import gzip
import re
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import shared

import evenrank as er

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "recommendation"
MOVIELENS = "recommendation/ml-100k.inter.gz"
HEADER = "user_id:token\titem_id:token\trating:float\ttimestamp:float"


def load(name):
    spec = spec_from_file_location(f"recommendation_{name.strip('_')}", FOLDER / f"{name}.py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # NamedTuples and data classes look themselves up there
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(FOLDER))  # as Python does for a folder that it runs
try:
    example = load("__main__")
finally:
    sys.path.remove(str(FOLDER))
interactions, recommenders = sys.modules["interactions"], sys.modules["recommenders"]


def written(folder, users=60, items=90, name="little.inter"):
    """A file of users with one of three tastes, who mostly watch popular items that suit it."""
    rng = np.random.default_rng(5)
    lines = [HEADER]
    for user in range(users):
        liked = 1.0 / (1 + np.arange(items)) ** 0.7 * np.where(np.arange(items) % 3 == user % 3, 6, 1)
        count = int(rng.integers(8, 30))
        chosen = rng.choice(items, count, replace=False, p=liked / liked.sum())
        at = np.sort(rng.integers(1000, 1020, count))  # many at the same time
        lines += [f"{user + 1}\t{item + 1}\t3\t{t}" for item, t in zip(chosen, at, strict=True)]
    path = folder / name
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def little(tmp_path_factory):
    return interactions.read(written(tmp_path_factory.mktemp("little")))


PAGE = (ROOT / "docs" / "recommendation.md").read_text(encoding="utf-8")


def tables(page):
    """The lines of the tables of a page: those in blocks that are neither Python nor commands."""
    blocks = [part.partition("\n") for part in page.split("```")[1::2]]
    plain = [body for kind, _, body in blocks if not kind and not body.startswith("$")]
    return [line for body in plain for line in body.splitlines() if line]


def like(shown, line):
    """Whether a line is that of the page, up to what another BLAS may change in the last digits."""
    one, other = shown.split(), line.split()
    return len(one) == len(other) and all(
        a == b or (number(a) is not None and number(b) == pytest.approx(number(a), rel=0.005, abs=3e-4))
        for a, b in zip(one, other, strict=True)
    )


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


# The second way -----------------------------------------------------------------------------------


def by_user(scores, answers, seen):
    """nDCG@10 and recall@20 of one user in plain NumPy; tied items share their positions."""
    left = np.flatnonzero(~seen | answers)
    score, relevant = scores[left], answers[left]
    ndcg = recall = 0.0
    for s in score[relevant]:
        better, tied = (score > s).sum(), (score == s).sum()
        positions = np.arange(better + 1, better + tied + 1)
        ndcg += np.where(positions <= 10, 1 / np.log2(positions + 1), 0.0).mean()
        recall += (positions <= 20).mean()
    count = relevant.sum()
    return ndcg / (1 / np.log2(np.arange(2, min(count, 10) + 2))).sum(), recall / count


def scores_of(model, users, items):
    """All scores of a model, without its ranking."""
    if isinstance(model, er.models.DotProduct):
        return np.asarray(model.users) @ np.asarray(model.items).T
    return model.score(np.arange(users)[:, None], slice(0, items))


def a_second_way(part):
    """The mean metrics of each model, by user."""
    answers, seen = part.test.matrix() > 0, part.train.matrix() > 0
    who = np.flatnonzero(answers.any(axis=1))
    scores = {name: scores_of(model, *part.train.shape) for name, model in part.models.items()}
    return {
        name: np.array([by_user(table[u], answers[u], seen[u]) for u in who])
        for name, table in scores.items()
    }


def simulated(part, rounds, seed=0):
    """Mean and standard error of nDCG@10 and recall@20 of random orders."""
    rng = np.random.default_rng(seed)
    answers, seen = part.test.matrix() > 0, part.train.matrix() > 0
    who = np.flatnonzero(answers.any(axis=1))
    means = []
    for _ in range(rounds):
        scores = rng.random((len(who), part.train.shape[1]))
        scores[seen[who] & ~answers[who]] = -1.0
        ahead = np.argsort(np.argsort(-scores, axis=1), axis=1) + 1
        gain = np.where((ahead <= 10) & answers[who], 1 / np.log2(ahead + 1), 0.0).sum(axis=1)
        count = answers[who].sum(axis=1)
        ideal = np.cumsum(1 / np.log2(np.arange(2, 12)))[np.minimum(count, 10) - 1]
        found = ((ahead <= 20) & answers[who]).sum(axis=1)
        means.append([(gain / ideal).mean(), (found / count).mean()])
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1)


@pytest.mark.parametrize("name", interactions.SPLITS)
def test_metrics_equal_those_computed_user_by_user(little, name):
    part = example.Split.of(little, name, 0)
    expected = a_second_way(part)
    for model, one in example.ranked(part.models, part.full()).items():
        for i, metric in enumerate(example.METRICS):
            assert one.values(metric) == pytest.approx(expected[model][:, i], abs=1e-12)


@pytest.mark.parametrize("name", interactions.SPLITS)
def test_chance_levels_equal_those_of_simulated_orders(little, name):
    part = example.Split.of(little, name, 0)
    one = example.ranked(part.three, part.full())["popularity"]
    rounds = 400
    mean, std = simulated(part, rounds)
    for i, metric in enumerate(example.METRICS):
        null = er.chance(metric, one)
        assert mean[i] == pytest.approx(null.mean(), abs=4 * null.std() / rounds**0.5)
        assert std[i] == pytest.approx(null.std(), rel=0.15)


def test_a_part_of_the_catalogue_equals_a_smaller_matrix(little):
    part = example.Split.of(little, "random", 0)
    chosen = np.array([0, 3, 4, 8, 20, 21, 22, 60, 77])
    answers, seen = (one.matrix()[:, chosen] > 0 for one in (part.test, part.train))
    for name, one in example.ranked(part.models, part.within(chosen)).items():
        scores = scores_of(part.models[name], *part.train.shape)[:, chosen]
        some = answers.any(axis=1)
        other = er.Rankings.from_scores(scores[some], answers[some], seen[some])
        assert one.evaluate("ndcg@10", "index(ndcg@10)", "recall@20").to_dict() == pytest.approx(
            other.evaluate("ndcg@10", "index(ndcg@10)", "recall@20").to_dict(), abs=1e-12
        )


def test_sampled_negatives_are_new_to_the_user(little):
    train, test = interactions.split(little, "random")
    drawn = interactions.negatives(train, test, 15, seed=3)
    wanted, seen = test.matrix() > 0, train.matrix() > 0
    for user, items in enumerate(drawn):
        assert wanted[user, items].sum() == wanted[user].sum()
        assert (~wanted[user, items]).sum() == 15
        assert not seen[user, items].any()
    again = interactions.negatives(train, test, 15, seed=3)
    other = interactions.negatives(train, test, 15, seed=4)
    assert all(map(np.array_equal, drawn, again))
    assert not all(map(np.array_equal, drawn, other))


def test_all_negatives_are_the_full_ranking(little, monkeypatch):
    monkeypatch.setattr(example, "NEGATIVES", 10**6)
    part = example.Split.of(little, "random", 0)
    full, sampled = (example.ranked(part.models, task) for task in (part.full(), part.sampled(0)))
    for name in part.models:
        assert sampled[name].evaluate("map")["map"] == full[name].evaluate("map")["map"]
        counts = [
            dict(zip(x.keys["user"], x.candidates, strict=True)) for x in (sampled[name], full[name])
        ]
        assert counts[0] == counts[1]


# Files and splits -----------------------------------------------------------------------------------


def test_all_layouts_are_read_alike(tmp_path, little):
    plain = tmp_path / "u.data"
    plain.write_text(written(tmp_path).read_text().removeprefix(HEADER + "\n"))
    for path in (plain, written(tmp_path, name="little.inter.gz")):
        for one, other in zip(interactions.read(path), little, strict=True):
            assert np.array_equal(one, other)


def test_columns_are_found_by_name(tmp_path):
    path = tmp_path / "x.inter"
    path.write_text("timestamp:float\titem_id:token\tuser_id:token\n5\tb\tu\n4\ta\tu\n")
    data = interactions.read(path)
    assert (data.items.tolist(), data.time.tolist()) == ([1, 0], [5, 4])


def test_a_pair_that_is_listed_twice_counts_once(tmp_path):
    path = tmp_path / "u.data"
    path.write_text("1 7 3 10\n1 8 3 11\n1 7 5 12\n")
    assert interactions.read(path).pairs.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read as text"),
        ("", "has no interactions"),
        (HEADER, "has no interactions"),
        ("user_id:token\titem_id:token\n1\t2\n", "has no column timestamp; got user_id, item_id"),
        ("1 2 3 4\n1 2\n", "line 2 has too few columns; got 1 2"),
        ("1 2 3 noon\n", "timestamps must be numbers"),
    ],
)
def test_a_file_of_something_else(tmp_path, text, message):
    path = tmp_path / "x.inter"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=f"^recommendation: .*{re.escape(message)}"):
        example.main([str(path)])


def test_the_last_interaction_of_each_user_is_held_out(little):
    train, test = interactions.split(little, "last")
    assert sorted(test.users) == list(range(little.shape[0]))
    latest = np.zeros(little.shape[0], np.int64)
    np.maximum.at(latest, train.users, train.time)
    assert (test.time >= latest[test.users]).all()


def test_a_fifth_of_each_user_is_held_out(little):
    train, test = interactions.split(little, "random")
    count = np.bincount(little.users)
    assert (np.bincount(test.users) == np.maximum(1, np.rint(count / 5))).all()
    assert len(np.unique(np.concatenate([train.pairs, test.pairs]), axis=0)) == len(little.users)


def test_users_with_one_interaction_keep_it():
    data = interactions.Interactions(
        np.array([0, 1, 1]), np.array([2, 0, 1]), np.arange(3), shape=(2, 3)
    )
    for name in interactions.SPLITS:
        train, test = interactions.split(data, name)
        assert (test.users.tolist(), train.users.tolist()) == ([1], [0, 1])


# Models ---------------------------------------------------------------------------------------------


def test_factors_solve_their_equations(little):
    """Row by row, by the definition of Hu, Koren and Volinsky."""
    seen = little.matrix()
    fixed = np.random.default_rng(1).normal(size=(little.shape[1], 4))
    found = recommenders.solved(seen, fixed, confidence=3.0, regularization=2.0)
    for row, vector in zip(seen, found, strict=True):
        weight = np.diag(1 + 3.0 * row)
        left = fixed.T @ weight @ fixed + 2.0 * np.eye(4)
        assert left @ vector == pytest.approx(fixed.T @ weight @ row, abs=1e-9)


def test_neighbours_are_the_most_similar_items(little):
    seen = little.matrix()
    model = recommenders.item_knn(little, neighbours=5, shrink=2.0)
    cosine = np.zeros((little.shape[1],) * 2)
    for i, j in np.ndindex(*cosine.shape):
        a, b = seen[:, i], seen[:, j]
        cosine[i, j] = (a @ b) / (np.sqrt(a.sum() * b.sum()) + 2.0) if i != j else 0.0
    least = np.sort(cosine, axis=1)[:, -5]
    for item in (0, 17, 60):
        expected = seen @ np.where(cosine[item] >= least[item], cosine[item], 0.0)
        assert model.scores[:, item] == pytest.approx(expected)


def test_an_item_that_nobody_has_seen_has_no_neighbours():
    data = interactions.Interactions(
        np.array([0, 0, 1]), np.array([0, 1, 1]), np.arange(3), shape=(2, 3)
    )
    assert recommenders.item_knn(data, shrink=0.0).scores[:, 2].tolist() == [0.0, 0.0]


# The command ----------------------------------------------------------------------------------------


def test_the_command_prints_all_tables_within_80_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figure, path = Path("figure.svg"), str(written(tmp_path))
    example.main([path, "--draws", "2", "--figure", str(figure), "--split", "random"])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "left out" not in printed
    for title in ("All items", "Paired comparison", "Smaller catalogues", "sampled negatives"):
        assert title in printed
    assert all(name in figure.read_text() for name in ("popularity", "ALS", "index(ndcg@10)"))
    part = example.Split.of(interactions.read(path), "random", 0)
    ndcg, recall = a_second_way(part)["item-kNN"].mean(axis=0)
    for metric, value in (("ndcg@10", ndcg), ("recall@20", recall)):
        assert re.search(rf"item-kNN +{metric} +{value:.4f} ", printed)


def test_settings_are_tried_on_training_interactions_only(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(example, "GRID_KNN", [(20, 10.0)])
    monkeypatch.setattr(example, "GRID_ALS", [(4, 4.0, 16.0)])
    path = written(tmp_path)
    example.main([str(path), "--tune"])
    row = next(x for x in capsys.readouterr().out.splitlines() if "neighbours 20, shrink 10" in x)
    train, _ = interactions.split(interactions.read(path), "random")
    inner, valid = interactions.split(train, "random", 1)
    part = example.Split("valid", inner, valid, {"knn": recommenders.item_knn(inner, 20, 10.0)})
    assert row.split()[-2:] == [f"{x:.4f}" for x in a_second_way(part)["knn"].mean(axis=0)]


@pytest.mark.parametrize("wrong", [["--draws", "0"], ["--seed", "-1"]])
def test_numbers_that_cannot_be(tmp_path, wrong):
    with pytest.raises(SystemExit, match="--draws must be at least 1, --seed at least 0"):
        example.main([str(written(tmp_path)), *wrong])


# MovieLens-100k -------------------------------------------------------------------------------------


@cache
def trained(name):
    """The models of a split, trained once for all tests."""
    data = interactions.read(shared.path(MOVIELENS))
    assert data.shape == (943, 1682)
    assert len(data.users) == 100_000
    return example.Split.of(data, name, 0)


@pytest.fixture(params=interactions.SPLITS)
def movielens(request):
    return trained(request.param)


@shared.needs(MOVIELENS)
def test_metrics_of_movielens_equal_those_computed_user_by_user(movielens):
    expected = a_second_way(movielens)
    for model, one in example.ranked(movielens.models, movielens.full()).items():
        for i, metric in enumerate(example.METRICS):
            # a product of matrices may round a score to its neighbour's: such ties change a position
            assert one.values(metric).mean() == pytest.approx(expected[model][:, i].mean(), abs=1e-6)


@shared.needs(MOVIELENS)
def test_chance_levels_of_movielens_equal_those_of_simulated_orders(movielens):
    one = example.ranked({"": movielens.models["popularity"]}, movielens.full())[""]
    mean, _ = simulated(movielens, 30)
    for i, metric in enumerate(example.METRICS):
        null = er.chance(metric, one)
        assert mean[i] == pytest.approx(null.mean(), abs=4 * null.std() / 30**0.5)


def test_lines_of_the_page_are_compared_by_their_numbers():
    assert like("ALS  ndcg@10  0.4414  1,000", "ALS ndcg@10 0.4415 1,001")
    assert not like("ALS  ndcg@10  0.4414", "ALS ndcg@10 0.4514")
    assert not like("ALS  ndcg@10  0.4414", "kNN ndcg@10 0.4414")
    assert len(tables(PAGE)) > 60


@shared.needs(MOVIELENS)
def test_the_page_shows_what_the_example_prints(capsys, monkeypatch):
    parts = {name: trained(name) for name in interactions.SPLITS}
    monkeypatch.setattr(example.Split, "of", lambda data, name, seed: parts[name])
    example.main([str(shared.path(MOVIELENS))])
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 80
    lacking = [shown for shown in tables(PAGE) if not any(like(shown, line) for line in printed)]
    assert lacking == []


@shared.needs(MOVIELENS)
def test_the_page_states_the_auc_of_two_models_that_sampling_swaps():
    part = trained("random")
    two = {name: part.models[name] for name in (example.KNN, example.WEAK)}
    values = [one.evaluate("auc")["auc"] for one in example.ranked(two, part.full()).values()]
    assert [f"{value:.3f}" for value in values] == ["0.925", "0.925"]
    assert "the two are equal (0.925)" in PAGE
