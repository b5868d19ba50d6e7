"""Damage: files that are changed as by a bad disk, a bad program, or a bad person."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import zipfile
from random import Random
from typing import Any

import polars as pl

NUMBERS = [0, 1, -1, 2, 7, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1]
WORDS = [
    *("", " ", "0", "-1", "1e999", "nan", "inf", "-inf", "²", "٣", "1_000", "0x10", "1e-320", "٫", "½"),
    *("9" * 5000, "1" + "0" * 400, "9223372036854775807", "9223372036854775808", "1.5", "0.1", "true"),
    *(
        "null",
        "None",
        "=cmd|' /C calc'!A0",
        "@x",
        "+1",
        "[x](http://a.b)",
        "<script>",
        "../../etc/passwd",
    ),
    *(
        "\u2028",
        "\u202e",
        "\x1b[2J",
        "\x00",
        "\ufeff",
        "é",
        "e\u0301",
        "日本",
        "\r",
        "\n",
        "\t",
        '"',
        "'",
    ),
    *(
        "a" * 10_000,
        "(" * 200,
        "[" * 100_000,
        '{"a":' * 5000,
        "test",
        "head",
        "all",
        "both",
        "keep",
        "e1",
    ),
]
BROKEN = [
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xfe\xff",
    b"\x1f\x8b",
    b"\x00",
    b"\x80abc",
    b"\xef\xbb\xbf",
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, 2**70, 10**400, 0.5, -0.0, 1e308, float("nan")),
    *(
        float("inf"),
        "",
        "x",
        "²",
        "\ud800",
        "\u2028",
        "9" * 5000,
        [],
        [1],
        [[]],
        {},
        {"a": 1},
        [None] * 3,
    ),
]


def deep() -> Any:
    found: Any = 1
    for _ in range(900):
        found = [found]
    return found


# Bytes --------------------------------------------------------------------------------------------


def flip(raw: bytearray, draw: Random) -> None:
    """Flip a bit, or a few."""
    for _ in range(draw.choice([1, 1, 1, 2, 8])):
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)


def overwrite(raw: bytearray, draw: Random) -> None:
    at, n = draw.randrange(len(raw)), draw.choice([1, 2, 4, 8, 64, 512])
    fill = draw.choice([b"\0", b"\xff", b" ", draw.randbytes(1)])
    raw[at : at + n] = draw.choice([fill * n, draw.randbytes(n)])[: len(raw) - at]


def number(raw: bytearray, draw: Random) -> None:
    """Overwrite a number of 4 or 8 bytes by a dangerous one."""
    width = draw.choice([2, 4, 8])
    value = draw.choice(NUMBERS) % 256**width
    at = draw.randrange(len(raw))
    raw[at : at + width] = value.to_bytes(width, "little")[: len(raw) - at]


def cut(raw: bytearray, draw: Random) -> None:
    at = draw.choice([draw.randrange(len(raw) + 1), max(0, len(raw) - draw.randrange(1, 40))])
    del raw[at:]


def remove(raw: bytearray, draw: Random) -> None:
    at = draw.randrange(len(raw))
    del raw[at : at + draw.choice([1, 2, 16, 300])]


def repeat(raw: bytearray, draw: Random) -> None:
    at, n = draw.randrange(len(raw)), draw.choice([1, 8, 100, 3000])
    raw[at:at] = raw[at : at + n] * draw.choice([1, 2, 50])


def insert(raw: bytearray, draw: Random) -> None:
    at = draw.choice([0, len(raw), draw.randrange(len(raw) + 1)])
    raw[at:at] = draw.choice([draw.randbytes(draw.choice([1, 4, 100])), draw.choice(BROKEN)])


def swap(raw: bytearray, draw: Random) -> None:
    n = draw.choice([1, 4, 64])
    i, j = draw.randrange(len(raw)), draw.randrange(len(raw))
    raw[i : i + n], raw[j : j + n] = raw[j : j + n], raw[i : i + n]


def nothing(raw: bytearray, draw: Random) -> None:
    raw.clear()


BYTES = [flip, flip, flip, flip, overwrite, overwrite, number, number, cut, remove, repeat, insert, swap]


def mutated_bytes(content: bytes, draw: Random) -> bytes:
    raw = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        if raw:
            draw.choice(BYTES)(raw, draw)
    return bytes(raw) if draw.random() > 0.005 else b""


# Text ---------------------------------------------------------------------------------------------


def mutated_text(content: bytes, draw: Random) -> bytes:
    """Change fields and lines, or bytes."""
    if draw.random() < 0.3:
        return mutated_bytes(content, draw)
    lines = content.split(b"\n")
    for _ in range(draw.choice([1, 1, 2])):
        i = draw.randrange(len(lines))
        how = draw.randrange(9)
        if how < 5:  # a field
            fields = re.split(rb"([,;\t ])", lines[i])
            word = draw.choice(WORDS).encode("utf-8", "surrogatepass")
            fields[draw.randrange(0, len(fields), 2)] = draw.choice([word, word, draw.choice(BROKEN)])
            lines[i] = b"".join(fields)
        elif how == 5:
            lines.insert(i, draw.choice(lines))
        elif how == 6 and len(lines) > 1:
            del lines[i]
        elif how == 7:
            lines[i] = lines[i].replace(
                *draw.choice([(b"\t", b" "), (b"\t", b","), (b",", b";"), (b" ", b"  ")])
            )
        else:
            j = draw.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
    end = draw.choice([b"\n", b"\n", b"\n", b"\r\n", b"\r"])
    return end.join(lines)


# JSON ---------------------------------------------------------------------------------------------


def mutated_json(content: bytes, draw: Random) -> bytes:
    """Replace, remove, rename or nest values."""
    if draw.random() < 0.2:
        return mutated_text(content, draw)
    try:
        tree = json.loads(content)
    except ValueError:
        return mutated_bytes(content, draw)
    places: list[tuple[Any, Any]] = []
    pending = [tree]
    while pending:
        one = pending.pop()
        items = one.items() if isinstance(one, dict) else enumerate(one) if isinstance(one, list) else ()
        places += [(one, key) for key, _ in items]
        pending += [value for _, value in items]
    if not places or draw.random() < 0.05:
        tree = draw.choice(VALUES)
    else:
        one, key = draw.choice(places)
        how = draw.randrange(7)
        if how < 4:
            one[key] = draw.choice([*VALUES, deep()])
        elif how == 4:
            del one[key]
        elif how == 5 and isinstance(one, dict):
            one[draw.choice(WORDS[:40])] = one.pop(key)
        else:
            one[key] = [one[key]]
    return json.dumps(tree).encode()


# Containers ---------------------------------------------------------------------------------------


def mutated_gzip(content: bytes, draw: Random) -> bytes:
    if draw.random() < 0.4:
        return mutated_bytes(content, draw)
    return gzip.compress(mutated_text(gzip.decompress(content), draw))


def mutated_zip(content: bytes, draw: Random) -> bytes:
    """Change a member, under a right checksum, its name, or the archive itself."""
    if draw.random() < 0.4:
        return mutated_bytes(content, draw)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(one.filename, archive.read(one), one.compress_type) for one in archive.infolist()]
    i = draw.randrange(len(members))
    if draw.random() < 0.5:  # the pickle is what is read as a program
        i = next((j for j, (name, *_) in enumerate(members) if name.endswith(("data.pkl", ".npy"))), i)
    name, raw, kind = members[i]
    how = draw.randrange(8)
    if how < 5:
        members[i] = name, mutated_bytes(raw, draw), kind
    elif how == 5:
        odd = [
            "",
            "/etc/x",
            "../x",
            "a" * 5000,
            "\u2028",
            "data.pkl",
            "version",
            "x/data.pkl",
            f"{name}\x1b[2J",
        ]
        members[i] = draw.choice(odd), raw, kind
    elif how == 6:
        del members[i]
    else:
        members.append((name + "x", raw, kind))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, raw, kind in members:
            archive.writestr(name or "x", raw, kind)
    return packed.getvalue()


TYPES = [
    *(pl.Int128, pl.Int8, pl.Float32, pl.Float64, pl.String, pl.Boolean, pl.Date, pl.Binary, pl.UInt64),
    *(pl.Categorical, pl.Duration, pl.Decimal(20, 2), pl.List(pl.Int64), pl.Null),
]


def mutated_parquet(content: bytes, draw: Random) -> bytes:
    """Change bytes, or the types, names and values of columns."""
    if draw.random() < 0.6:
        return mutated_bytes(content, draw)
    frame = pl.read_parquet(io.BytesIO(content))
    metadata = pl.read_parquet_metadata(io.BytesIO(content))
    name = draw.choice(frame.columns)
    column, row = frame[name], draw.randrange(frame.height)
    how = draw.randrange(6)
    if how == 0:
        try:
            frame = frame.with_columns(column.cast(draw.choice(TYPES), strict=False))
        except pl.exceptions.PolarsError:
            frame = frame.drop(name)
    elif how == 1:
        frame = frame.drop(name)
    elif how == 2:
        others = [
            "better",
            "rank",
            "weight",
            "",
            "\u2028",
            "candidates",
            "a" * 3000,
            "side",
            name.upper(),
            f"{name} ",
        ]
        frame = frame.rename({name: draw.choice([one for one in others if one not in frame.columns])})
    elif how == 3:
        frame = frame.with_columns(
            pl.when(pl.arange(frame.height) == row).then(None).otherwise(column).alias(name)
        )
    elif how == 4:
        value = draw.choice([*NUMBERS, *WORDS[:20]] if column.dtype == pl.String else NUMBERS)
        value = str(value) if column.dtype == pl.String else value
        try:
            changed = pl.when(pl.arange(frame.height) == row).then(pl.lit(value)).otherwise(column)
            frame = frame.with_columns(changed.alias(name))
        except pl.exceptions.PolarsError:
            frame = frame.head(row)
    else:
        frame = draw.choice([frame.head(0), frame.head(1), pl.concat([frame, frame])])
    packed = io.BytesIO()
    own = {key: value for key, value in metadata.items() if key == "evenrank"}
    frame.write_parquet(packed, metadata=own, row_group_size=draw.choice([None, 7]))
    return packed.getvalue()


def mutated_safetensors(content: bytes, draw: Random) -> bytes:
    """Change bytes, or the header, whose length stays right."""
    if draw.random() < 0.5:
        return mutated_bytes(content, draw)
    length = int.from_bytes(content[:8], "little")
    header = mutated_json(content[8 : 8 + length], draw)
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


def mutated_protocol(content: bytes, draw: Random, *, text: bool) -> bytes:
    """Change the protocol of a file of ranks."""
    if text:
        first, _, rest = content.partition(b"\n")
        mark = b"# evenrank "
        return mark + mutated_json(first.removeprefix(mark), draw).replace(b"\n", b" ") + b"\n" + rest
    frame = pl.read_parquet(io.BytesIO(content))
    own = pl.read_parquet_metadata(io.BytesIO(content))["evenrank"]
    changed = mutated_json(own.encode(), draw).decode("utf-8", "replace")
    packed = io.BytesIO()
    frame.write_parquet(packed, metadata={"evenrank": changed})
    return packed.getvalue()


PLACE = re.compile(rb'(<script type="application/json" id="kept-ranks">)(.*?)(</script>)', re.DOTALL)
TABLE = re.compile(rb'("parquet": ?")([^"]+)')


def mutated_report(content: bytes, draw: Random) -> bytes:
    """Change the ranks that a report holds: their description, or the table in it."""
    before, kept, after = PLACE.search(content).groups()
    if draw.random() < 0.5:
        mark, table = TABLE.search(kept).groups()
        damaged = base64.b64encode(mutated_parquet(base64.b64decode(table), draw))
        changed = kept.replace(mark + table, mark + damaged)
    else:
        changed = mutated_json(kept, draw)
    return before + changed + after


def mutate(name: str, content: bytes, draw: Random) -> bytes:
    """Damage the content of a file as its name suggests."""
    plain, _, part = name.partition("#")
    if part == "protocol":
        return mutated_protocol(content, draw, text=not plain.endswith(".parquet"))
    if part == "kept":
        return mutated_report(content, draw) if draw.random() < 0.9 else mutated_bytes(content, draw)
    kinds = {
        (".parquet",): mutated_parquet,
        (".safetensors",): mutated_safetensors,
        (".json", ".jsonl"): mutated_json,
        (".gz",): mutated_gzip,
        (".npz", ".pt", ".pkl"): mutated_zip,
        (".npy", ".ckpt"): mutated_bytes,
    }
    how = next((how for ends, how in kinds.items() if plain.endswith(ends)), mutated_text)
    if how is mutated_json and plain.endswith(".jsonl"):
        lines = content.rstrip(b"\n").split(b"\n")
        i = draw.randrange(len(lines))
        lines[i] = mutated_json(lines[i], draw)
        return b"\n".join(lines) + b"\n"
    if how is mutated_zip and not zipfile.is_zipfile(io.BytesIO(content)):
        how = mutated_bytes
    return how(content, draw)
