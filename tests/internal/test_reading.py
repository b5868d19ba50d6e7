"""Files of others are read within bounds, and whatever is wrong with them is an error of one line."""

import gzip
import io
import os
import struct
import subprocess
import sys
import zipfile
from datetime import date

import numpy as np
import polars as pl
import pytest
from shell import called

import evenrank as er
from evenrank._internal import limits, reading
from evenrank.errors import InputError

RANKS = pl.DataFrame({"better": [0, 3], "equal": [0, 1], "candidates": [14, 14]})
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="no pipes and devices in folders")


def header(shape, kind="<f4", version=(1, 0)):
    """Write the header of an array."""
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text


# What is read -------------------------------------------------------------------------------------


@POSIX
def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    for name, got in (("pipe", "a pipe"), ("zero", "a device"), ("loop", "Too many")):
        for read in (reading.content, reading.check_regular, er.Ranks.load):
            with pytest.raises(InputError, match=rf"{name}.csv; got {got}"):
                read(tmp_path / f"{name}.csv")
    with pytest.raises(InputError, match="got a folder"):
        reading.content(tmp_path)


@POSIX
@pytest.mark.parametrize(
    "name", ["train.txt", "train.tsv.gz", "train.npy", "train.parquet", "train.del"]
)
def test_pipes_and_devices_in_folders_of_graphs_are_not_read(name, tmp_path):
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match=f"{name}; got a device"):
        er.load(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}; got a pipe"):
        er.load(tmp_path)


@POSIX
@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_pipes_in_folders_of_ranks_are_not_read(name, tmp_path):
    er.Ranks.of([1, 2], candidates=9).save(tmp_path / "b.parquet")
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match=f"{name}; got a pipe"):
        er.stream(tmp_path)


@POSIX
def test_a_pipe_that_the_shell_opened_is_read(tmp_path):
    table = "model,data,mrr\nTransE,wn18rr,0.2\n"
    line = f"printf '{table}' | {sys.executable} -m evenrank adjust /dev/stdin --format csv"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "TransE" in done.stdout


# How much -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train.txt.gz", "train.npy.gz", "train.parquet.gz"])
def test_zipped_files_are_unpacked_up_to_the_memory_that_is_there(name, tmp_path, monkeypatch):
    with gzip.open(tmp_path / name, "wb") as file:
        for _ in range(8):
            file.write(b"a\tb\tc\n" * 2**20)
    monkeypatch.setattr(reading, "STEP", 2**20)
    for module in (limits, reading):
        monkeypatch.setattr(module, "available_memory", lambda: 10**7)
    with pytest.raises(InputError, match=rf"{name}: what this file unpacks to needs more memory.*GB"):
        er.load(tmp_path)


def test_tables_of_few_bytes_and_many_rows_are_not_read(tmp_path, monkeypatch):
    rows = 10**6
    frame = pl.select(better=pl.repeat(1, rows), equal=pl.repeat(0, rows), candidates=pl.repeat(9, rows))
    frame.write_parquet(tmp_path / "r.parquet")
    assert (tmp_path / "r.parquet").stat().st_size < 50_000
    er.Ranks.load(tmp_path / "r.parquet")
    monkeypatch.setattr(limits, "available_memory", lambda: 10**7)
    with pytest.raises(InputError, match=r"this table of 1,000,000 rows needs more memory.*0\.\d+ GB"):
        er.Ranks.load(tmp_path / "r.parquet")
    assert er.stream(tmp_path / "r.parquet").evaluate("mr").to_dict() == {"mr": 2.0}


BAD_HEADERS = {
    "many rows": header((10**12, 3)),
    "more than can be counted": header((2**62, 2**62)),
    "negative": header((-5, 3)),
    "one more than there are": header((11,)),
    "no bytes each": header((10**15,), "|V0"),
    "texts without letters": header((10**15,), "<U0"),
    "objects": header((2,), "|O"),
    "times": header((2,), "<M8[s]"),
    "records": header((2,), [("a", "<f4")]),
    "another version": header((2,), version=(9, 0)),
    "no array": b"hello",
    "empty": b"",
    "brackets": b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000,
    "no dictionary": b"\x93NUMPY\1\0" + struct.pack("<H", 3) + b"[1]",
    "cut": header((2,))[:30],
}


@pytest.mark.parametrize("start", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_headers_of_arrays_are_checked_before_anything_is_allocated(start, tmp_path):
    (tmp_path / "train.npy").write_bytes(start + bytes(40))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("train.npy", start + bytes(40))
    for read in (lambda: er.load(tmp_path), lambda: reading.load_arrays(tmp_path / "a.npz")):
        with pytest.raises(InputError, match=r"cannot read .*; got .*; it may be damaged") as error:
            read()
        assert "pickle" not in str(error.value)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_every_version_are_read(version, tmp_path):
    array = np.arange(12.0).reshape(4, 3)
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version)
    assert (reading.load_arrays(tmp_path / "a.npy") == array).all()
    np.savez_compressed(tmp_path / "a.npz", one=array, two=np.array(["ä", "b"]))
    arrays = reading.load_arrays(tmp_path / "a.npz")
    assert (arrays["one"] == array).all()
    assert arrays["two"].tolist() == ["ä", "b"]


def test_archives_of_arrays_that_unpack_to_more_than_the_memory(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", zeros=np.zeros(10**6))
    monkeypatch.setattr(limits, "available_memory", lambda: 10**6)
    with pytest.raises(InputError, match="this archive needs more memory"):
        reading.load_arrays(tmp_path / "a.npz")


def test_running_out_of_memory_is_one_line(monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("evenrank.cli._chance.null_distribution", exhausted)
    code, out, err = called(["evenrank", "chance", "mrr", "--sizes", "14x2"], monkeypatch)
    assert (code, out) == (2, "")
    assert err.startswith("evenrank: not enough memory; got ")
    assert err.count("\n") == 1


# Complete or not ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read", [lambda p: er.Ranks.load(p), lambda p: er.stream(p)], ids=["load", "stream"]
)
def test_other_rows_than_the_footer_says_are_an_error(read, tmp_path, monkeypatch):
    RANKS.write_parquet(tmp_path / "r.parquet")
    for module in ("evenrank._internal.reading", "evenrank.ranks.streams._files"):
        monkeypatch.setattr(f"{module}.parquet_rows", lambda _: 3)
    with pytest.raises(InputError, match="2 of 3 rows could be read"):
        read(tmp_path / "r.parquet")


def test_other_rows_than_the_footer_says_are_an_error_for_graphs_and_the_atlas(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "parquet_rows", lambda _: 7)
    pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]}).write_parquet(
        tmp_path / "train.parquet"
    )
    with pytest.raises(InputError, match=r"1 of 7 rows could be read"):
        er.load(tmp_path)
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    RANKS.write_parquet(tmp_path / "atlas.parquet")
    with pytest.raises(InputError, match=r"2 of 7 rows could be read"):
        er.atlas("no-such-data")


# Protocols and columns ----------------------------------------------------------------------------

PROTOCOLS = {
    "[" * 100_000: "brackets nested too deep",
    '{"a":' * 50_000: "brackets nested too deep",
    "null": "must be a JSON object; got NoneType",
    "[]": "must be a JSON object; got list",
    "": "is not valid JSON",
    '{"data": "\\ud800"}': "half of a surrogate pair",
    '{"\\udfff": "x"}': "half of a surrogate pair",
    '{"data": ' + "9" * 5000 + "}": "thousands of digits",
    '{"data": {"a": 1}}': "data of the protocol must be a text",
    '{"filter": [1]}': "filter of the protocol must be a text",
}


@pytest.mark.parametrize(("text", "got"), PROTOCOLS.items(), ids=[key[:20] for key in PROTOCOLS])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_protocols_that_make_no_sense(text, got, ending, tmp_path):
    path = tmp_path / f"r.{ending}"
    if ending == "parquet":
        RANKS.write_parquet(path, metadata={"evenrank": text})
    else:
        path.write_text(f"# evenrank {text}\n{RANKS.write_csv()}")
    for read in (er.Ranks.load, er.stream):
        with pytest.raises(InputError, match=got) as error:
            read(path)
        assert str(path) in str(error.value)


def test_a_protocol_with_thousands_of_digits_in_a_text_is_words(tmp_path):
    words = "9" * 5000 + " sampled per query, seed 7"
    RANKS.write_parquet(tmp_path / "r.parquet", metadata={"evenrank": f'{{"candidates": "{words}"}}'})
    assert str(er.Ranks.load(tmp_path / "r.parquet").protocol.candidates) == words


@pytest.mark.parametrize(
    ("column", "better"),
    [
        (pl.Series([0, 3], dtype=pl.Int128), [0, 3]),
        (pl.Series([0, 3], dtype=pl.UInt128), [0, 3]),
        (pl.Series([0, 3], dtype=pl.Decimal(20, 2)), [0, 3]),
        (pl.Series([0, 3], dtype=pl.UInt64), [0, 3]),
        (pl.Series([0, 2**100], dtype=pl.Int128), "a number of more than 64 bits in column better"),
        (pl.Series([0, 2**64 - 1], dtype=pl.UInt64), "better must be at most"),
        (pl.Series([date(2020, 1, 1)] * 2), "column better must be numbers; got type Date"),
        (pl.Series([[1], [2]]), r"a file of rankings|column equal must be lists"),
        (pl.Series([{"a": 1}] * 2), r"column better must be numbers; got type Struct"),
        (pl.Series([b"1", b"2"]), "column better must be numbers; got type Binary"),
        (pl.Series([True, False]), "better must be a column of whole numbers"),
        (pl.Series([None, None]), "empty cell in column better"),
        (pl.Series(["²", "3"]), "a cell that is not a number in column better"),
        (pl.Series(["9" * 5000, "3"]), "better must be whole; got inf"),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pl.Series) else "",
)
def test_columns_of_any_type(column, better, tmp_path):
    path = tmp_path / "r.parquet"
    RANKS.with_columns(better=column).write_parquet(path)
    for read in (er.Ranks.load, er.stream):
        if isinstance(better, str):
            with pytest.raises(InputError, match=better) as error:
                read(path)
            assert str(path) in str(error.value)
        else:
            read(path)
    if not isinstance(better, str):
        assert er.Ranks.load(path).better.tolist() == better


@pytest.mark.parametrize("kind", [pl.Int128, pl.Date, pl.Decimal(9, 1), pl.Binary])
def test_keys_of_any_type_are_texts_or_numbers(kind, tmp_path):
    value = (
        pl.Series([1, 2]).cast(pl.String).cast(kind)
        if kind == pl.Binary
        else pl.Series([1, 2]).cast(kind)
    )
    RANKS.with_columns(key=value).write_parquet(tmp_path / "r.parquet")
    ranks = er.Ranks.load(tmp_path / "r.parquet")
    assert len(ranks.by("key")) == 2
    assert len(er.stream(tmp_path / "r.parquet", by="key").evaluate("mr").values_by_group) == 2


def test_keys_that_are_records_are_an_error(tmp_path):
    RANKS.with_columns(key=pl.Series([{"a": 1}] * 2)).write_parquet(tmp_path / "r.parquet")
    with pytest.raises(InputError, match=r"key key must be texts or numbers; got type Struct"):
        er.Ranks.load(tmp_path / "r.parquet")


@pytest.mark.parametrize("name", ["a\u2028b.csv", "a\nb.csv", "a\x1b[2Jb.csv", "a\u202eb.csv"])
def test_names_of_files_with_line_breaks_are_escaped_in_messages(name, tmp_path, monkeypatch):
    (tmp_path / name).write_text("better,equal,candidates\n15,0,14\n")
    code, _, err = called(["evenrank", "evaluate", str(tmp_path / name)], monkeypatch)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert err.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"unseen": "perhaps"}, "unknown words"),
        ({"side": "left"}, "unknown words"),
        ({"data": "\u2028"}, "names without letters"),
        ({"split": ""}, "names without letters"),
        ({"count": 2**62}, "impossible counts"),
        ({"relations": -1}, "impossible counts"),
        ({"unseen": "keep"}, "data sets without one of the treatments of unseen entities"),
    ],
)
def test_an_atlas_with_unknown_words(change, got, tmp_path, monkeypatch):
    monkeypatch.setenv("EVENRANK_ATLAS", str(tmp_path))
    rows = er.graphs.atlas.build(er.Graph.of([[0, 0, 1]], name="mine"))
    er.graphs.atlas.add([rows])
    assert "mine" in er.graphs.atlas.names()
    rows.with_columns(
        **{name: pl.lit(value).cast(rows.schema[name]) for name, value in change.items()}
    ).write_parquet(tmp_path / "atlas.parquet")
    with pytest.raises(InputError, match=f"cannot read .*atlas.parquet; got {got}; delete it"):
        er.atlas("mine")


# Messages of native code --------------------------------------------------------------------------

PANICKING = """
import os, sys
import polars as pl
from evenrank._internal import reading
from evenrank.cli import main

def read(*_, **__):
    os.write(2, b"thread 'main' panicked at lib.rs:7:\\nnote: a backtrace\\n")
    if sys.argv.pop() == "panic":
        raise pl.exceptions.PanicException("called `Option::unwrap()` on a `None` value")
    return real(*_, **__)

real, reading.parquet_rows = reading.parquet_rows, read
sys.argv = ["evenrank", "estimate", *sys.argv[1:]]
main()
"""


def test_backtraces_of_rust_are_not_shown_but_other_messages_are(tmp_path):
    path = tmp_path / "r.parquet"
    RANKS.write_parquet(path, metadata={"evenrank": '{"candidates": "13 sampled per query, seed 1"}'})

    def run(how):
        command = [sys.executable, "-c", PANICKING, path, "--full", "99", how]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    done = run("panic")
    assert done.returncode == 2
    assert done.stderr.startswith(f"evenrank: cannot read {path}; got damaged content; it may be")
    assert done.stderr.count("\n") == 1
    done = run("fine")
    assert "panicked" in done.stderr


def test_a_gzip_stream_with_trailing_zeros_is_read(tmp_path):
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        file.write(b"hello")
    (tmp_path / "a.gz").write_bytes(packed.getvalue() + bytes(512))
    assert reading.content(tmp_path / "a.gz") == b"hello"
