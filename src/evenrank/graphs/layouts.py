"""Files of triples in the usual layouts, which are recognised by the names of the files.

| layout  | files                                                                                    |
|---------|------------------------------------------------------------------------------------------|
| text    | `train.txt`, `valid.txt`, `test.txt` (or .tsv, .csv): head, relation, tail per line      |
| RotatE  | the same with `entities.dict` and `relations.dict`: id, tab, name                        |
| OpenKE  | `train2id.txt`, ...: head, **tail, relation** ids; `entity2id.txt`, ...: name, tab, id   |
| LibKGE  | `train.del`, ...: ids; `entity_ids.del`, `relation_ids.del`: id, tab, name                |
| Parquet | `train.parquet`, ..., or one file with a column `split`; whole numbers are ids           |
| NumPy   | `train.npy`, ...: arrays of ids                                                          |

Each may be gzipped. polars splits lines and numbers names; a malformed line is an error that names the
line.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from numpy.typing import NDArray

from evenrank._internal.reading import content, read_array, read_parquet, translated
from evenrank.errors import InputError
from evenrank.graphs.graph import PARTS, SPLITS, ids

if TYPE_CHECKING:
    import polars as pl

Content: TypeAlias = tuple[dict[str, NDArray[Any]], list[str] | None, list[str] | None]

STEMS = {split: split for split in SPLITS} | {
    "training": "train",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "testing": "test",
}
ENDINGS = {
    ".txt": "text",
    ".tsv": "text",
    ".csv": "text",
    "2id.txt": "OpenKE",
    ".del": "LibKGE",
    ".parquet": "Parquet",
    ".npy": "NumPy",
}
FILES = {s + e: (layout, split) for s, split in STEMS.items() for e, layout in ENDINGS.items()} | {
    "entities.dict": ("text", "entities"),
    "relations.dict": ("text", "relations"),
    "entity2id.txt": ("OpenKE", "entities"),
    "relation2id.txt": ("OpenKE", "relations"),
    "entity_ids.del": ("LibKGE", "entities"),
    "relation_ids.del": ("LibKGE", "relations"),
}
HEADERS = {
    **dict.fromkeys(("head", "h", "subject", "source"), "head"),
    **dict.fromkeys(("relation", "r", "predicate"), "relation"),
    **dict.fromkeys(("tail", "t", "object", "target"), "tail"),
}
LOOKED_FOR = (
    "train, valid, test as .txt, .tsv, .csv (.gz or not), .npy or .parquet; train2id.txt, ...; "
    "train.del, ...; or one Parquet file with a column split"
)


class Table(NamedTuple):
    """Rows of a file, and their place in it."""

    frame: pl.DataFrame
    where: str
    first: int = 0

    def refuse(self, bad: pl.Series, what: str, column: str) -> None:
        """Raise an error that names the first bad row."""
        if bad.any():
            row = int(bad.arg_true()[0])
            cell = self.frame[column][row]
            raise InputError(f"{self.where}{row + self.first}: {what}", got=repr(cell))


def read(path: Path) -> Content:
    """Read a folder of splits, or one Parquet file with all of them."""
    if path.is_file():
        if path.suffix.lower() != ".parquet":
            raise InputError(
                "a graph is loaded from a folder or a Parquet file", got=path, do="pass its folder"
            )
        return _numbered(_partition(_parquet(path)))
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
    if len(layouts) > 1:
        got = " and ".join(f"{name} ({layout})" for layout, name in layouts.items())
        raise InputError(f"{path}: more than one layout", got=got, do="keep the files of one")
    tables = [file for file in present if file.suffix.lower() == ".parquet"]
    if len(tables) == 1 and layouts.keys() <= {"Parquet"}:
        table = _parquet(tables[0])
        if not files or "split" in table.frame.columns:
            return _numbered(_partition(table))
    layout = next(iter(layouts), "")
    names = [dictionary(files.pop(role, None), layout) for role in ("entities", "relations")]
    if "train" not in files:
        raise InputError(
            f"{path}: no {'train split' if files else 'splits'}",
            got=", ".join(file.name for file in (files.values() or present[:9])) or "an empty folder",
            allowed=LOOKED_FOR,
        )
    splits = {split: files[split] for split in SPLITS if split in files}
    if layout == "NumPy":
        return {split: _array(file) for split, file in splits.items()}, None, None
    return _numbered({split: _triples(file, layout) for split, file in splits.items()}, *names)


def _triples(file: Path, layout: str) -> Table:
    if layout == "Parquet":
        return _parquet(file)
    if layout == "OpenKE":
        return _whole(_text(file, ("head", "tail", "relation"), "\t ", counted=True), *PARTS)
    if layout == "LibKGE":
        return _whole(_text(file, PARTS, "\t "), *PARTS)
    return _text(file, PARTS, "\t, ")


def dictionary(file: Path | None, layout: str) -> list[str] | None:
    """Read a dictionary: names in the order of their ids."""
    if file is None:
        return None
    counted = layout == "OpenKE"
    table = _text(file, ("name", "id") if counted else ("id", "name"), "\t ", counted=counted)
    frame = _whole(table, "id").frame
    table.refuse(frame["name"].is_null(), "empty name", "name")
    for column in ("id", "name"):
        table.refuse(~frame[column].is_first_distinct(), f"duplicate {column}", column)
    most = len(frame) - 1
    table.refuse(~frame["id"].is_between(0, most), f"ids must run from 0 to {most:,}", "id")
    return frame.sort("id")["name"].to_list()


def _numbered(
    tables: dict[str, Table], entities: list[str] | None = None, relations: list[str] | None = None
) -> Content:
    """Convert names to ids, and check the ids."""
    tables, entities = _number(tables, ("head", "tail"), "entities", entities)
    tables, relations = _number(tables, ("relation",), "relations", relations)
    arrays = {
        split: ids(frame.select(PARTS).to_numpy(), entities, relations, where, first)
        for split, (frame, where, first) in tables.items()
    }
    return arrays, entities, relations


def _number(
    tables: dict[str, Table], parts: Sequence[str], what: str, names: list[str] | None
) -> tuple[dict[str, Table], list[str] | None]:
    """Number names as the dictionary does, or in sorted order, those of the training split first."""
    import polars as pl

    for table in tables.values():
        for part in parts:
            table.refuse(table.frame[part].is_null(), f"no {part}", part)
    kinds = {table.frame[part].dtype for table in tables.values() for part in parts}
    if len(kinds) > 1:
        got = " and ".join(sorted(map(str, kinds)))
        raise InputError(f"the {what} mix names and ids", got=got, do="use one or the other")
    if kinds != {pl.String()}:
        return tables, names
    if names is None:
        shown = {
            split: pl.concat(table.frame.select(parts).get_columns()).unique()
            for split, table in tables.items()
        }
        train = shown.pop("train").sort()
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


def _array(file: Path) -> NDArray[Any]:
    raw = content(file)
    with translated(file):
        return read_array(io.BytesIO(raw), len(raw))


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


def _text(file: Path, columns: Sequence[str], separators: str, *, counted: bool = False) -> Table:
    """Split lines into columns of text; a header names the columns, a count of lines is checked."""
    import polars as pl

    raw = content(file).removeprefix(codecs.BOM_UTF8)
    if b"\0" in raw:
        raise InputError(f"{file}: a binary file, not text", do="save it as UTF-8 text")
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        line, byte = raw.count(b"\n", 0, error.start) + 1, raw[error.start]
        raise InputError(
            f"{file}:{line}: not UTF-8", got=f"byte 0x{byte:02x}", do="save it as UTF-8"
        ) from None
    first, count = 1, b""
    if counted:
        count, _, raw = raw.partition(b"\n")
        first = 2
    if not raw.strip(b"\r\n"):
        raise InputError(f"{file}: an empty file", do="add triples or remove the file")
    head = raw.partition(b"\n")[0].removesuffix(b"\r").decode()
    width = len(columns)
    fields = {separator: len(_fields(head, separator)) for separator in separators}
    separator = next((s for s in separators if fields[s] == width), max(fields, key=fields.__getitem__))
    schema = dict.fromkeys(columns, pl.String)
    if separator == "," and b'"' in raw:
        frame = pl.DataFrame(_quoted(raw, width, file), schema=schema, orient="row")
    else:
        _check_lines(raw, separator, width, file, first)
        raw = (
            codecs.BOM_UTF8 + raw
        )  # otherwise polars takes names like "x\x01" or "xچ" for compressed data
        frame = pl.read_csv(raw, separator=separator, has_header=False, quote_char=None, schema=schema)
    if counted and count.strip() != str(len(frame)).encode():
        got = f"{count.strip()[:40].decode()!r} before {len(frame):,} lines"
        raise InputError(f"{file}:1: wrong count of lines", got=got)
    words = [HEADERS.get((cell or "").strip().lower(), "") for cell in frame.row(0)]
    if sorted(words) == sorted(columns):
        frame, first = frame[1:].rename(dict(zip(columns, words, strict=True))), first + 1
    if not len(frame):
        raise InputError(f"{file}: no triples, only a header", do="add triples or remove the file")
    return Table(frame, f"{file}:", first)


def _check_lines(raw: bytes, separator: str, width: int, file: Path, first: int) -> None:
    """Check the number of fields of each line: polars would pad or truncate it silently."""
    mark = separator.encode()
    # without all other bytes, every good line is the same; four times faster than a loop
    marks = raw.translate(None, bytes({*range(256)} - {*mark, *b"\n"})).removesuffix(b"\n") + b"\n"
    if marks != (mark * (width - 1) + b"\n") * (len(marks) // width):
        for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n"), first):
            fields = line.count(mark) + 1
            if fields != width:
                raise _ragged(file, number, fields if line.strip(b"\r") else 0, width)


def _quoted(raw: bytes, width: int, file: Path) -> list[list[str | None]]:
    """Split the rows of a CSV file with quotes."""
    reader = csv.reader(io.StringIO(raw.decode(), newline=""), strict=True)
    rows: list[list[str | None]] = []
    try:
        for row in reader:
            if len(row) != width:
                raise _ragged(file, reader.line_num, len(row), width)
            rows.append([cell or None for cell in row])
    except csv.Error as error:
        raise InputError(f"{file}:{reader.line_num}: not CSV", got=str(error)) from None
    return rows


def _fields(line: str, separator: str) -> list[str]:
    with suppress(csv.Error):  # a line that is not CSV may still be split at spaces
        return next(csv.reader([line])) if separator == "," else line.split(separator)
    return [line]


def _ragged(file: Path, line: int, fields: int, width: int) -> InputError:
    got = f"{fields} fields" if fields else "an empty line"
    return InputError(f"{file}:{line}: expected {width} fields", got=got, do="fix or remove the line")
