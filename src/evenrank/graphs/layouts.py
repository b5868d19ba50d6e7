"""Files of triples in the usual layouts, which are recognised by the names of the files.

| layout  | files                                                                                    |
|---------|------------------------------------------------------------------------------------------|
| text    | `train.txt`, `valid.txt`, `test.txt` (or .tsv, .csv, .triples): head, relation, tail     |
| RotatE  | the same with `entities.dict` and `relations.dict`: id, tab, name                        |
| OpenKE  | `train2id.txt`, ...: head, **tail, relation** ids; `entity2id.txt`, ...: name, tab, id   |
| LibKGE  | `train.del`, ...: ids; `entity_ids.del`, `relation_ids.del`: id, tab, name                |
| Parquet | `train.parquet`, ..., or one file with a column `split`; whole numbers are ids           |
| NumPy   | `train.npy`, ...: arrays of ids                                                          |

Each may be gzipped. `text` splits lines, `orders` finds the order of the columns, and polars numbers
names; a malformed line is an error that names the line.

Files of temporal graphs have a fourth column, a time, or a fourth and a fifth, the first and the last
time at which the triple holds (`times`). Their whole numbers are ids, which `entity2id.txt` may name.

Further known triples (`facts.txt`) become a split of their own. If there is an inference graph
(`inference.txt` or `msg.txt`), that is the graph: its triples are the split train, and relations are
numbered as in the training graph.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenrank._internal.arrays import Ints
from evenrank._internal.reading import content, read_array, read_parquet, translated
from evenrank.errors import InputError
from evenrank.graphs.graph import FACTS, PARTS, SPLITS, Order, as_triples, check_order, ids
from evenrank.graphs.orders import arranged, parts
from evenrank.graphs.text import HEADERS, Table, read_text, width_of
from evenrank.graphs.times import INTERVAL, POINT, columns_of, read_times

if TYPE_CHECKING:
    import polars as pl


class Content(NamedTuple):
    """What the files of a graph contain, and what the user should know about how they were read."""

    splits: dict[str, NDArray[Any]]
    entities: list[str] | None
    relations: list[str] | None
    remarks: tuple[str, ...] = ()
    times: dict[str, NDArray[Any]] = {}  # noqa: RUF012  # of a tuple, never changed
    instants: Sequence[str] | range = range(0)


STEMS = {split: split for split in SPLITS} | {
    "training": "train",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "testing": "test",
}
# an inference graph has other entities than the training graph, and splits of its own
OTHERS = {FACTS: FACTS, "inference": "inference", "msg": "inference"} | {
    f"inference_{stem}": f"inference_{split}" for stem, split in STEMS.items() if split != "train"
}
ENDINGS = {
    ".txt": "text",
    ".tsv": "text",
    ".csv": "text",
    ".triples": "text",
    "2id.txt": "OpenKE",
    ".del": "LibKGE",
    ".parquet": "Parquet",
    ".npy": "NumPy",
}
ORDER: dict[str, Order] = {"OpenKE": "htr"}  # of the columns; hrt in all other layouts
FILES = {
    stem + ending: (layout, split)
    for stem, split in (STEMS | OTHERS).items()
    for ending, layout in ENDINGS.items()
} | {
    "entities.dict": ("text", "entities"),
    "relations.dict": ("text", "relations"),
    "entity2id.txt": ("OpenKE", "entities"),
    "relation2id.txt": ("OpenKE", "relations"),
    "entity_ids.del": ("LibKGE", "entities"),
    "relation_ids.del": ("LibKGE", "relations"),
}
LOOKED_FOR = (
    "train, valid, test as .txt, .tsv, .csv (.gz or not), .npy or .parquet; train2id.txt, ...; "
    "train.del, ...; or one Parquet file with a column split"
)


class Files(NamedTuple):
    """The tables of a graph, the usual order of their columns, and the names of their ids."""

    tables: dict[str, Table]
    usual: Order = "hrt"
    entities: list[str] | None = None
    relations: list[str] | None = None


def read(path: Path, columns: Order | None = None, inference: Path | None = None) -> Content:
    """Read a folder of splits, or one Parquet file with all of them; or a pair of inductive graphs."""
    if columns is not None:
        check_order(columns)
    found = _read(path)
    if inference is None:
        content = _content(found, path, columns)
        beside = _beside(path, content.entities, content.relations)
        return content._replace(remarks=(*content.remarks, *beside))
    other = _read(inference)
    names = (found.entities, found.relations, other.entities, other.relations)
    if "train" not in found.tables or any(name is not None for name in names):
        raise InputError(
            "an inductive pair needs two folders with train files of names",
            got=f"{path} and {inference}",
            do="store names as text, without dictionaries",
        )
    graph = "inference" if "inference" in other.tables else "train"
    tables = {"train": found.tables["train"], "inference": other.tables[graph]}
    for split in ("valid", "test", FACTS):
        table = other.tables.get(f"inference_{split}", other.tables.get(split))
        if table is not None:
            tables[f"inference_{split}"] = table
    return _content(Files(tables), path, columns)


def holds_splits(path: Path) -> bool:
    """Whether a path is a file, or a folder with a file that is named or made like splits of a graph.

    A folder with the ranks of a benchmark often has the benchmark's name.
    """
    if not path.is_dir():
        return True
    present = list(path.iterdir())
    if any(file.name.lower().startswith((*STEMS, *OTHERS)) for file in present):
        return True
    return any("split" in _columns(file) for file in present if file.suffix.lower() == ".parquet")


def _columns(file: Path) -> list[str]:
    import polars as pl

    with translated(file):
        return [name.lower() for name in pl.read_parquet_schema(io.BytesIO(content(file)))]


def _read(path: Path) -> Files:
    """Find the files of a graph, and read them as tables."""
    if path.is_file():
        if path.suffix.lower() != ".parquet":
            raise InputError(
                "a graph is loaded from a folder or a Parquet file", got=path, do="pass its folder"
            )
        return Files(_partition(_parquet(path)))
    files: dict[str, Path] = {}
    layouts: dict[str, str] = {}
    present = sorted(path.iterdir())
    if path / "dataset.yaml" in present:  # LibKGE keeps the original files beside its own
        present = [file for file in present if ".del" in file.suffixes]
    for file in present:
        layout, role = FILES.get(file.name.lower().removesuffix(".gz"), ("", ""))
        if role in files:
            both = f"{files[role].name} and {file.name}"
            raise InputError(f"{path}: two files for {role}", got=both, do="keep one of them")
        if role:
            files[role] = file
            layouts.setdefault(layout, file.name)
    mixed = {role for role, file in files.items() if file.name.lower().startswith(OPENKE)}
    if layouts.keys() == {"text", "OpenKE"} and mixed <= {"entities", "relations"}:
        return _with_dictionaries(files, path)
    if len(layouts) > 1:
        got = " and ".join(f"{name} ({layout})" for layout, name in layouts.items())
        raise InputError(f"{path}: more than one layout", got=got, do="keep the files of one")
    tables = [file for file in present if file.suffix.lower() == ".parquet"]
    if len(tables) == 1 and layouts.keys() <= {"Parquet"}:
        table = _parquet(tables[0])
        if not files or "split" in table.frame.columns:
            return Files(_partition(table))
    layout = next(iter(layouts), "")
    names = [dictionary(files.pop(role, None), layout) for role in ("entities", "relations")]
    if "train" not in files and "inference" not in files:
        raise InputError(
            f"{path}: no {'train split' if files else 'splits'}",
            got=", ".join(file.name for file in (files.values() or present[:9])) or "an empty folder",
            allowed=LOOKED_FOR,
        )
    usual = ORDER.get(layout, "hrt")
    splits = _in_order(files)
    return Files(
        {split: _triples(file, split, layout, usual) for split, file in splits.items()}, usual, *names
    )


OPENKE = ("train2id", "valid2id", "test2id", "entity2id", "relation2id")


def _in_order(files: Mapping[str, Path]) -> dict[str, Path]:
    names = dict.fromkeys((*SPLITS, *OTHERS.values()))
    return {split: files[split] for split in names if split in files}


def _with_dictionaries(files: dict[str, Path], path: Path) -> Files:
    """Read text files of triples beside the dictionaries of OpenKE, with or without counts of lines."""
    names = [dictionary(files.pop(role, None), "OpenKE") for role in ("entities", "relations")]
    tables = {split: _triples(file, split, "text", "hrt") for split, file in _in_order(files).items()}
    if "train" not in tables:
        raise InputError(f"{path}: no train split", got=", ".join(f.name for f in files.values()))
    if all(_numbers(table) for table in tables.values()):
        tables = {split: _whole(table, *PARTS) for split, table in tables.items()}
    return Files(tables, "hrt", *names)


def _numbers(table: Table) -> bool:
    """Whether all parts of triples are whole numbers."""
    columns = [table.frame[part] for part in PARTS]
    return all(
        column.dtype.is_integer() or bool(column.str.contains(r"^\d+$").all()) for column in columns
    )


def _triples(file: Path, split: str, layout: str, usual: Order) -> Table:
    if layout == "Parquet":
        return _parquet(file)
    if layout == "NumPy":
        return _array(file, split)
    if layout in ("OpenKE", "LibKGE"):
        return _whole(_text(file, parts(usual), counted=layout == "OpenKE"), *PARTS)
    raw = content(file)
    more = WIDTHS.get(width_of(raw, "\t,; "), ())
    with translated(file):
        table = read_text(raw, file, (*PARTS, *more), "\t,; ", counted=False)
    return _whole(table, *PARTS) if more and _numbers(table) else table


WIDTHS = {4: POINT, 5: INTERVAL}


def _content(files: Files, path: Path, order: Order | None) -> Content:
    """Arrange the columns, find the graph to rank on, and number its names."""
    tables, usual, entities, relations = files
    remarks = [note for table in tables.values() for note in table.notes]
    times, instants, dated = _times(tables, path)
    arrangement, notes = arranged(tables, order, usual, str(path))
    notes += dated
    training = arrangement.get("train") if "inference" in arrangement else None
    if "inference" in arrangement:
        if entities is not None or any(
            table.frame["head"].dtype.is_integer() for table in tables.values()
        ):
            do = "store names as text, or put the inference graph into a folder of its own"
            raise InputError(f"{path}: an inference graph needs names", got="ids of entities", do=do)
        arrangement, more = _inference(arrangement, training)
        notes += more
    elif FACTS in arrangement:
        many = len(arrangement[FACTS].frame)
        notes.append(
            f"{FACTS}: {many:,} more known triples, which are filtered and count as seen in training"
        )
    seen = [split for split in ("train", FACTS) if split in arrangement]
    numbered, entities = _number(arrangement, ("head", "tail"), "entities", entities, seen)
    # models of an inductive data set know the relations of its training graph
    more_relations = {} if training is None else {TRAINING: training}
    seen = [*more_relations] or seen
    numbered, relations = _number(
        {**numbered, **more_relations}, ("relation",), "relations", relations, seen
    )
    arrays = {
        split: ids(table.frame.select(PARTS).to_numpy(), entities, relations, table.at)
        for split, table in numbered.items()
        if split in arrangement
    }
    remarks += notes
    return Content(arrays, entities, relations, tuple(remarks), times, instants)


def _times(
    tables: Mapping[str, Table], path: Path
) -> tuple[dict[str, Ints], Sequence[str] | range, list[str]]:
    """Read the times of a temporal graph; none if its files have three columns."""
    kinds = {split: columns_of(table) for split, table in tables.items()}
    if not any(kinds.values()):
        return {}, range(0), []
    if len({*kinds.values()}) > 1:
        got = ", ".join(f"{split} {3 + len(kind)}" for split, kind in kinds.items())
        raise InputError(f"{path}: the files have different numbers of columns", got=got)
    if "inference" in tables:
        raise InputError(f"{path}: an inference graph with times is not supported", got="4 or 5 columns")
    return read_times(tables)


TRAINING = "training graph"


def _inference(
    tables: Mapping[str, Table], training: Table | None
) -> tuple[dict[str, Table], list[str]]:
    """Return the inference graph of an inductive data set as splits, and describe it."""

    def within(table: Table, names: pl.Series) -> pl.Series:
        """Mark the triples whose entities are all among some names."""
        return table.frame["head"].is_in(names) & table.frame["tail"].is_in(names)

    graph, notes = {"train": tables["inference"]}, list[str]()
    if training is not None:
        _check_shared(tables["inference"], training)
    own = _entities(tables["inference"])
    about = f"the split train is the inference graph, {len(tables['inference'].frame):,} triples"
    other = _entities(training) if training is not None else own.clear()
    if training is not None:
        about += (
            "; relations are numbered as in the training graph, whose "
            f"{len(training.frame):,} triples and {len(other):,} entities are left out"
        )
    for split in ("valid", "test", FACTS):
        table = tables.get(f"inference_{split}", tables.get(split))
        if table is None:
            continue
        if within(table, other.implode()).sum() > within(table, own.implode()).sum():
            notes.append(f"{split} is left out: its entities are those of the training graph")
        else:
            graph[split] = table
            if f"inference_{split}" in tables and split in tables:
                notes.append(f"{split} of the training graph is left out")
    if training is not None:
        known = within(training, own.implode())
        if known.any():
            graph[KNOWN] = training._replace(frame=training.frame.filter(known), lines=None)
            notes.append(
                f"split {KNOWN} holds the triples of the training graph between entities of the "
                f"inference graph, which are filtered: {known.sum():,}"
            )
    return graph, [about, *notes]


def _check_shared(inference: Table, training: Table) -> None:
    """Check that a model of the training graph knows some relation of the inference graph."""
    own, known = (table.frame["relation"].unique().sort() for table in (inference, training))
    if own.is_in(known.implode()).any():
        return
    got = f"relations such as {own[0]!r}, and {known[0]!r} in training"
    place = inference.where.rstrip(": ").removesuffix(" train row")
    raise InputError(
        f"{place}: the inference graph shares no relation with training",
        got=got,
        do="load graphs that belong together, and check the order of their columns",
    )


KNOWN = "training"  # triples of the training graph that are known answers in the inference graph


def _entities(table: Table) -> pl.Series:
    import polars as pl

    return pl.concat([table.frame["head"], table.frame["tail"].rename("head")]).unique()


def _beside(path: Path, entities: list[str] | None, relations: list[str] | None) -> list[str]:
    """Describe the other graph of a pair of folders, `X` for training and `X_ind` for inference."""
    folder = path.resolve()
    if not folder.name.lower().endswith(PAIR):
        other = folder.with_name(f"{folder.name}{PAIR}")
        there = folder.is_dir() and other.is_dir()
        return [f"{other.name}, beside it, is its inference graph: load that to rank there"] * there
    other = folder.with_name(folder.name[: -len(PAIR)])
    if not other.is_dir() or entities is None or relations is None:
        return []
    training = read(other)
    known, kinds = set(training.entities or ()), set(training.relations or ())
    new, shared = len({*entities} - known), len(kinds.intersection(relations))
    return [
        f"the inference graph of {other.name}, beside it: {new:,} of its {len(entities):,} entities "
        f"are new, and {shared:,} of {len(kinds):,} relations in training are used"
    ]


PAIR = "_ind"


def dictionary(file: Path | None, layout: str) -> list[str] | None:
    """Read a dictionary: names in the order of their ids."""
    if file is None:
        return None
    openke = layout == "OpenKE"
    counted = openke and content(file).lstrip().partition(b"\n")[0].strip().isdigit()
    table = _text(file, ("name", "id") if openke else ("id", "name"), "\t ", counted=counted)
    frame = _whole(table, "id").frame
    table.refuse(frame["name"].is_null(), "empty name", "name")
    for column in ("id", "name"):
        table.refuse(~frame[column].is_first_distinct(), f"duplicate {column}", column)
    most = len(frame) - 1
    table.refuse(~frame["id"].is_between(0, most), f"ids must run from 0 to {most:,}", "id")
    return frame.sort("id")["name"].to_list()


def _number(
    tables: Mapping[str, Table],
    parts: Sequence[str],
    what: str,
    names: list[str] | None,
    seen: list[str],
) -> tuple[dict[str, Table], list[str] | None]:
    """Number names as the dictionary does, or in sorted order, those seen in training first."""
    import polars as pl

    for table in tables.values():
        for part in parts:
            table.refuse(table.frame[part].is_null(), f"no {part}", part)
    kinds = {table.frame[part].dtype for table in tables.values() for part in parts}
    if len(kinds) > 1:
        got = " and ".join(sorted(map(str, kinds)))
        raise InputError(f"the {what} mix names and ids", got=got, do="use one or the other")
    if kinds != {pl.String()}:
        return dict(tables), names
    if names is None:
        shown = {
            split: pl.concat(table.frame.select(parts).get_columns()).unique()
            for split, table in tables.items()
        }
        train = pl.concat([shown.pop(split) for split in seen]).unique().sort()
        every = pl.concat([train, *shown.values()]).unique(maintain_order=True)
        names = [*train.to_list(), *every[len(train) :].sort().to_list()]
    # an Enum numbers its categories; that takes a third of the time of `replace_strict`
    number = pl.col(*parts).cast(pl.Enum(names), strict=False).to_physical()
    numbered = {s: table._replace(frame=table.frame.with_columns(number)) for s, table in tables.items()}
    for split, table in tables.items():
        for part in parts:
            table.refuse(numbered[split].frame[part].is_null(), f"{part} is not in {what}.dict", part)
    return numbered, names


def _whole(table: Table, *columns: str) -> Table:
    """Read columns of text as whole numbers."""
    import polars as pl

    frame = table.frame.with_columns(pl.col(*columns).cast(pl.Int64, strict=False))
    for column in columns:
        table.refuse(frame[column].is_null(), f"{column} must be a whole number", column)
    return table._replace(frame=frame)


# Files --------------------------------------------------------------------------------------


def _array(file: Path, split: str) -> Table:
    import polars as pl

    raw = content(file)
    with translated(file):
        loaded = read_array(io.BytesIO(raw), len(raw))
    array = as_triples(split, loaded)
    whole = array.dtype.kind in "iu" and array.dtype != np.uint64  # polars has no float16
    frame = pl.DataFrame(array.astype(np.int64 if whole else np.float64), schema=PARTS)
    return Table(frame, f"{split} row ", named=False)


def _parquet(file: Path) -> Table:
    """Read a table with columns head, relation, tail and perhaps split, of names or of ids."""
    import polars as pl

    frame = read_parquet(content(file, copies=1), file)
    lower = {name.lower(): name for name in frame.columns}
    found = {part: lower[word] for word, part in reversed(HEADERS.items()) if word in lower}
    if len(found) < 3:
        got = f"columns {', '.join(frame.columns)}"
        raise InputError(f"{file} has no triples", got=got, allowed="head, relation, tail[, split]")
    if "split" in lower:
        found["split"] = lower["split"]
    columns = []
    for part, name in found.items():
        column = frame[name].alias(part)
        whole = column.dtype.is_integer() and part != "split"
        if not whole and column.dtype not in (pl.String, pl.Categorical, pl.Enum):
            raise InputError(f"{file}: {name} must be text or whole numbers", got=column.dtype)
        columns.append(
            column.cast(pl.Int64, strict=False) if whole else column.cast(pl.String).replace("", None)
        )
    return Table(pl.DataFrame(columns), f"{file} row ")


def _partition(table: Table) -> dict[str, Table]:
    """Split a table by its column `split`."""
    file = table.where.removesuffix(" row ")
    if "split" not in table.frame.columns:
        raise InputError(f"{file} has no column split", do="add one, or name the file train.parquet")
    table.refuse(table.frame["split"].is_null(), "no split", "split")
    tables: dict[str, Table] = {}
    for (value,), frame in table.frame.partition_by("split", as_dict=True).items():
        split = STEMS.get(value.lower(), value)
        if split in tables:
            raise InputError(f"{file}: two names of the split {split}", got=repr(value), do="use one")
        tables[split] = Table(frame, f"{file} {value} row ")
    if "train" not in tables:
        raise InputError(f"{file}: no train split", got=", ".join(tables) or "an empty table")
    return tables


def _text(
    file: Path, columns: Sequence[str], separators: str = "\t ", *, counted: bool = False
) -> Table:
    raw = content(file)
    with translated(file):
        return read_text(raw, file, columns, separators, counted=counted)
