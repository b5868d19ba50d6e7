"""PyKEEN's pickles are read without PyKEEN and torch, and without running code in them."""

import csv
import gzip
import io
import json
import os
import pickle
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import shared

import evenrank as er
from evenrank.models import load
from evenrank.models.readers import read
from evenrank.models.readers.pykeen import _records
from evenrank.models.readers.pykeen._records import Record, Unreadable, records

REFERENCE = Path(__file__).parents[1] / "reference" / "pykeen_models.tar.xz"
QUERIES = np.array([(entity, relation) for entity in range(6) for relation in range(3)])


def error_of(call, *args, **kwargs):
    """Return the error of a call, which has one line."""
    with pytest.raises(er.errors.InputError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# What versions since 1.6 wrote ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Return pickles of several versions of PyKEEN (see tests/reference/pykeen_models.py)."""
    folder = tmp_path_factory.mktemp("pykeen")
    with tarfile.open(REFERENCE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def in_order(scores):
    return np.argsort(scores, axis=1, kind="stable")


@pytest.mark.parametrize("version", ["1.6.0", "1.8.2", "1.10.2", "1.11.1"])
@pytest.mark.parametrize(
    "name",
    ["TransE", "RotatE", "ComplEx", "DistMult", "TuckER", "RESCAL", "HolE", "SimplE", "CP", "MuRE"],
)
def test_old_pickles_have_the_scores_of_the_version_that_wrote_them(old, version, name):
    """Without PyKEEN, without torch, without trust: every layout since 1.6."""
    file = old / version / f"{name}.pkl"
    if (version, name) == ("1.6.0", "CP"):
        assert not file.exists()  # there was none
        return
    if (version, name) == ("1.6.0", "SimplE"):
        assert error_of(load, file).endswith("use trust_pickle=True")
        return
    model, theirs = load(file), json.loads(file.with_suffix(".json").read_text())
    assert (model.entities, model.relations, model.inverse) == (6, 3, "interleaved")
    kind = type(model).__name__
    assert (model.name, model.notes) == (name, () if kind == name else (f"{name}, written as {kind}",))
    entity, relation = QUERIES.T
    nothing = np.full(len(QUERIES), -1)
    for side, columns in (("tail", (entity, relation, nothing)), ("head", (nothing, relation, entity))):
        ours, given = model.score(np.stack(columns, axis=1), slice(0, 6)), np.array(theirs[side])
        assert np.array_equal(in_order(ours), in_order(given)), side
        if name == "RotatE":  # the squared distance orders the same
            ours = -np.sqrt(-ours)
        assert np.allclose(ours, given, atol=1e-5), side


@pytest.mark.parametrize("model", ["complex", "rotate", "transe", "tucker"])
@shared.needs("paper/models", "paper/case_study_metrics_by_side.json.gz")
def test_the_papers_models_reproduce_the_papers_values(model):
    """`evenrank rank nations-*.pkl` of 2022: head, tail and both, by every rule for ties."""
    graph = er.load("nations")
    scorer = load(shared.path(f"paper/models/nations-{model}.pykeen.pkl"), graph)
    ranks = er.rank(scorer, graph.task("test"), progress=False)
    published = shared.content("paper/case_study_metrics_by_side.json.gz")[f"nations/{model}"]["metrics"]
    parts = {"both": ranks, **{side: part for (side,), part in ranks.by("side")}}
    for side, rules in published.items():
        for rule, metrics in rules.items():
            plain = [name for name in metrics if not name.startswith(("adjusted_", "z_"))]
            ours = parts[side].evaluate(*plain, ties=rule)
            for name in plain:
                assert ours[name] == pytest.approx(metrics[name], rel=1e-6), (side, rule, name)


def test_a_folder_of_a_pipeline_includes_names(old, tmp_path):
    """Names beside the model put its rows in the order of any graph."""
    folder = saved(old, tmp_path)
    graph = er.Graph.of([[0, 0, 1], [2, 1, 3], [4, 2, 5]], entities=[*"fedcba"], relations=[*"zyx"])
    for path in (folder, folder / "trained_model.pkl"):
        found = load(path, graph)
        assert (found.notes, found.vocabulary) == ((), graph.vocabulary)
        assert np.array_equal(found.entity[::-1], load(old / "1.11.1" / "TransE.pkl").entity)


def test_names_with_quotes_and_tabs(old, tmp_path):
    names = ['"a"', 'b"', "c\td", "e\nf", "", " g "]
    checkpoint = read(saved(old, tmp_path, names))
    assert checkpoint.entities == names


def saved(old, tmp_path, entities="abcdef"):
    folder = tmp_path / "saved"
    (folder / "training_triples").mkdir(parents=True)
    (folder / "trained_model.pkl").write_bytes((old / "1.11.1" / "TransE.pkl").read_bytes())
    for kind, names in (("entity", entities), ("relation", "xyz")):
        with gzip.open(folder / "training_triples" / f"{kind}_to_id.tsv.gz", "wt") as file:
            csv.writer(file, "excel-tab").writerows([("id", "label"), *enumerate(names)])
    return folder


def test_an_incomplete_folder(old, tmp_path):
    folder = saved(old, tmp_path, entities="abcde")
    names = folder / "training_triples" / "entity_to_id.tsv.gz"
    line = error_of(load, folder)
    assert line.startswith(f"{names} is not the dictionary of this model; got 5 entities for 6 rows")
    with gzip.open(names, "wt") as file:
        file.write("id\tlabel\n0\ta\n2\tb\n")
    assert error_of(load, folder).startswith(
        f"cannot read {names}; got KeyError: 1; the file may be damaged"
    )
    names.write_bytes(names.read_bytes()[:-9])
    assert error_of(load, folder).startswith(f"cannot read {names}; got ")
    names.unlink()
    line = error_of(load, folder)
    assert "missing entity_to_id.tsv.gz; got only relation_to_id.tsv.gz; copy the" in line
    (folder / "trained_model.pkl").unlink()
    line = error_of(load, folder)
    assert line.startswith(
        f"incomplete checkpoint {folder}: missing trained_model.pkl; got training_triples"
    )


def test_a_damaged_pickle(old, tmp_path):
    content, damaged = (old / "1.11.1" / "TransE.pkl").read_bytes(), tmp_path / "model.pkl"
    damaged.write_bytes(content[: len(content) // 2])
    for trust_pickle in (False, True):
        line = error_of(load, damaged, trust_pickle=trust_pickle)
        assert line.startswith(f"cannot read {damaged}; got EOFError: an end before all was read; the")
    damaged.write_bytes(content.replace(b"entity_representations", b"entity_representationz"))
    assert "got BadZipFile: Bad CRC-32 for file" in error_of(load, damaged)


# Malicious pickles ----------------------------------------------------------------------------


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


class Storage:
    """Stands for the numbers of a tensor."""

    def __init__(self, kind="FloatStorage"):
        self.kind = kind
        self.key = "0"


class Tensor:
    """A tensor as torch pickles it."""

    def __init__(self, shape, strides, offset=0, storage=None, pending=None):
        self.args = (storage or Storage(), offset, shape, strides, False, {}, pending)

    def __reduce__(self):
        return named("torch._utils", "_rebuild_tensor_v2"), self.args


def named(module, name):
    """Return a function that is pickled as a name of another library."""
    return type(name, (), {"__module__": module, "__qualname__": name})


class Writer(pickle._Pickler):
    """Pickles stand-ins by the names of what they stand for."""

    def persistent_id(self, thing):
        if isinstance(thing, Storage):
            return "storage", named("torch", thing.kind), thing.key, "cpu", 4
        return None

    def save_global(self, thing, name=None):
        self.save(thing.__module__)
        self.save(name or thing.__qualname__)
        self.write(pickle.STACK_GLOBAL)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, type: save_global}


NUMBERS = np.arange(4, dtype="<f4")


def written(path, thing, numbers=NUMBERS):
    content = io.BytesIO()
    Writer(content, protocol=4).dump(thing)
    return packed(path, content.getvalue(), numbers)


def packed(path, content, numbers=NUMBERS, compression=zipfile.ZIP_STORED, order=b"little"):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/byteorder", order)
        archive.writestr("archive/data/0", numbers.tobytes())
    return path


def test_nothing_in_a_pickle_runs(tmp_path):
    target = tmp_path / "made"
    path = written(tmp_path / "model.pkl", thing("pykeen.models", "Model", loss=Attack(target)))
    assert isinstance(records(path).loss, Record)
    line = error_of(load, path)
    assert line.startswith(f"reading {path} means to unpickle it, which can run code in it; got ")
    assert line.endswith("if you trust its source, use trust_pickle=True")
    assert not target.exists()


def test_tensors_have_the_layout_of_torch(tmp_path):
    def read(*args, **kwargs):
        return records(written(tmp_path / "file", Tensor(*args, **kwargs)))

    assert read((2, 2), (2, 1)).tolist() == [[0, 1], [2, 3]]
    assert read((2, 2), (1, 2)).tolist() == [[0, 2], [1, 3]]
    assert read((2,), (1,), offset=2).tolist() == [2, 3]
    assert read((), ()).tolist() == 0
    assert read((0, 3), (3, 1)).shape == (0, 3)
    with pytest.raises(Unreadable, match="a lazily conjugated or negated tensor"):
        read((2,), (1,), pending={"conj": True})


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((5,), (1,), 0),
        ((2,), (9,), 0),
        ((1,), (1,), 4),
        ((2,), (-1,), 1),
        ((1 << 20, 1 << 20), (0, 0), 0),  # one number, again and again
    ],
)
def test_tensors_never_exceed_their_storage(tmp_path, shape, strides, offset):
    path = written(tmp_path / "file", Tensor(shape, strides, offset))
    with pytest.raises(Unreadable, match="a tensor larger than its storage"):
        records(path)


def test_tensors_are_stored_as_numbers(tmp_path):
    """The storage of a tensor cannot be another tensor, which could expose other memory."""
    path = written(tmp_path / "file", Tensor((4,), (1,), storage=Tensor((4,), (0,), offset=3)))
    with pytest.raises(Unreadable, match="a tensor without numbers"):
        records(path)


def test_objects_have_no_numpy_protocols(tmp_path):
    """A file cannot point NumPy to arbitrary memory."""
    place = {"data": (NUMBERS.ctypes.data, True), "typestr": "<f4", "shape": (4,), "version": 3}
    module = {"__array_interface__": place}
    for content in (module, {"_parameters": module}):
        found = records(written(tmp_path / "file", thing("torch", "Tensor", **content)))
        assert np.asarray(found).dtype == object


SIZE = b"ctorch\nSize\n"
BUILT = b"ctorch._utils\n_rebuild_tensor_v2\n(N}X\x0c\x00\x00\x00__defaults__)stb."


def test_small_files_need_little_memory(tmp_path):
    """Neither with memo indices nor with copies of large objects."""
    for content in (
        b"\x80\x02Nr\xff\xff\xff\x0f.",  # remembers None, under a very large number
        b"\x80\x02(" + b"N" * 100_000 + b"lq\x000(" + (SIZE + b"h\x00\x85R") * 99 + b"l.",
    ):
        path = packed(tmp_path / "file", content)
        tracemalloc.start()
        records(path)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(content) + 2_000_000
        tracemalloc.stop()


def test_a_file_changes_nothing_outside_it(tmp_path):
    """What it names cannot be given attributes."""
    before = _records._tensor.__defaults__
    assert records(packed(tmp_path / "file", b"\x80\x02" + BUILT)) is _records._tensor
    assert _records._tensor.__defaults__ == before


def test_archives_not_written_by_torch_raise(tmp_path):
    path, nothing = tmp_path / "file", pickle.dumps(None)
    nested = Storage()
    nested.key = ()
    for _ in range(9):
        nested.key = (nested.key, nested.key)
    for file, why in (
        (
            lambda: packed(path, nothing, np.zeros(999), zipfile.ZIP_DEFLATED),
            "unpacks to more than its own size",
        ),
        (lambda: packed(path, nothing, order=b"big"), "big-endian numbers"),
        (lambda: packed(path, pickle.dumps(bytearray(8), 5)), "an opcode that torch does not write"),
        (lambda: written(path, nested), "a storage without a key"),
    ):
        with pytest.raises((Unreadable, er.errors.InputError), match=why):
            records(file())


def test_number_types(tmp_path):
    values = np.array([1.5, -2.0, 3.25, 0.0], dtype="<f4")
    half = (values.view("<u4") >> 16).astype("<u2")
    brain = Tensor((4,), (1,), storage=Storage("BFloat16Storage"))
    assert records(written(tmp_path / "file", brain, half)).tolist() == values.tolist()
    unknown = Tensor((4,), (1,), storage=Storage("QInt8Storage"))
    with pytest.raises(Unreadable, match="unsupported storage, QInt8Storage"):
        records(written(tmp_path / "file", unknown))


def test_models_that_cannot_be_identified_raise(tmp_path):
    """Each error has the reason and advice."""
    module = {"_parameters": {}, "_buffers": {}, "_modules": {}}
    for content, why in (
        (thing("pykeen.models.unimodal.trans_e", "TransE"), "TransE has no predict_with_sigmoid"),
        (thing("my.models", "Mine", predict_with_sigmoid=False), "Mine does not consist of interaction"),
        (thing("pykeen.models", "Mine", predict_with_sigmoid=True), "makes large scores equal"),
        (
            thing(
                "my.models", "Mine", predict_with_sigmoid=False, interaction=1, entity_representations=1
            ),
            "Mine is not a model of PyKEEN",
        ),
        (
            thing(
                "pykeen.models.nbase",
                "ERModel",
                predict_with_sigmoid=False,
                interaction=thing("my.models", "MyInteraction"),
                entity_representations=thing("torch.nn", "ModuleList", **module),
            ),
            "MyInteraction is not an interaction of PyKEEN",
        ),
        (
            thing(
                "pykeen.models.unimodal.simple",
                "SimplE",
                predict_with_sigmoid=False,
                entity_embeddings=1,
            ),
            "SimplE of PyKEEN before 1.9 is not supported",
        ),
    ):
        line = error_of(load, written(tmp_path / "model.pkl", content), format="pykeen")
        assert why in line, line
        assert line.endswith("use trust_pickle=True")


def thing(module, name, **attributes):
    """Make an object of a class that is elsewhere."""
    made = named(module, name)()
    vars(made).update(attributes)
    return made
