"""Benchmarks by name: the registry, search of folders, and downloads that fail."""

import gzip
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import shared
import substitute
from shell import run

import evenrank as er
from evenrank.graphs import download as _fetch
from evenrank.graphs import load, registry, where

ENTRIES = registry.entries()
LOCAL = [entry for entry in ENTRIES.values() if entry.files]
NUMBERS_ONLY = [entry for entry in ENTRIES.values() if not entry.files]


def raises(message: str):
    return pytest.raises(er.errors.InputError, match=message)


# Registry ------------------------------------------------------------------------------


def counted_by_hand(name: str) -> registry.Entry:
    """A graph of the substitute as if it were published, by what was counted without the library."""
    about = substitute.facts(name)
    return registry.Entry(
        name.removeprefix("inductive/"),
        f"Graph {name.removeprefix('inductive/')}",
        entities=len(about.entities),
        relations=len(about.relations),
        splits=about.counts,
        counts="counted by hand",
        source="https://example.org/made",
        reference="Nobody, Nothing, 2026",
        aliases=(name,) if name in substitute.PAIR else (),
        hash=about.hash,
        files={
            file: hashlib.sha256(text.encode()).hexdigest()
            for file, text in substitute.texts(name).items()
        },
        bytes={file: len(text.encode()) for file, text in substitute.texts(name).items()},
    )


MADE = [counted_by_hand(name) for name in (*substitute.MADE, *substitute.PAIR)]


@pytest.fixture
def known(monkeypatch):
    """The benchmarks; without the shared folder, the graphs of the substitute are some of them."""
    every = dict(ENTRIES) if shared.PRESENT else {**ENTRIES, **{entry.name: entry for entry in MADE}}
    monkeypatch.setattr(registry, "entries", lambda: MappingProxyType(every))
    registry._keys.cache_clear()
    yield every
    registry._keys.cache_clear()


def shared_folder(entry: registry.Entry) -> Path:
    """The folder of a benchmark in the shared data: that of one of its names."""
    if entry in MADE:
        roots = [substitute.folder(), substitute.folder() / "inductive"]
    elif shared.PRESENT:
        every = [shared.path("datasets"), shared.path("benchmarks")]
        roots = [one for root in every for one in (root, *root.iterdir()) if one.is_dir()]
    else:
        roots = [shared.path("datasets")]
    keys = set(map(registry.key, entry.names))
    found = [folder for root in roots for folder in root.iterdir() if registry.key(folder.name) in keys]
    found = [folder for folder in found if folder.is_dir()]
    if not found and entry.hash is None:
        pytest.skip(f"not part of the shared folder: the files of {entry.title}")
    if not found and not shared.PRESENT:
        pytest.skip(f"not part of the repository: the files of {entry.title}")
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("entry", [*LOCAL, *MADE], ids=lambda entry: entry.name)
def test_entries_agree_with_the_files(entry):
    folder = shared_folder(entry)
    files = {file.name.removesuffix(".gz"): file for file in folder.iterdir()}
    assert set(entry.files) == set(files)
    for name, file in files.items():
        content = gzip.decompress(file.read_bytes())
        assert hashlib.sha256(content).hexdigest() == entry.files[name]
        assert len(content) == entry.bytes[name]
        split = name.removesuffix(".txt").removesuffix("2id")
        if split in entry.splits and "inference.txt" not in files:  # counted without the library
            lines = content.count(b"\n") + (not content.endswith(b"\n"))
            assert lines - name.endswith("2id.txt") == entry.splits[split]
    graph = load(folder)
    assert (len(graph.entities), len(graph.relations)) == (entry.entities, entry.relations)
    assert {split: len(triples) for split, triples in graph.splits.items()} == entry.splits
    assert graph.hash == entry.hash
    registry.check(entry, graph, folder)
    seen = graph.drop_unseen()
    facts = np.concatenate([seen.splits["test"], *(seen.times[s] for s in seen.times if s == "test")], 1)
    assert entry.duplicates == len(facts) - len(np.unique(facts, axis=0))


@shared.needs("datasets", "benchmarks")
def test_every_shared_data_set_is_known():
    folders = {f.parent for root in ("datasets", "benchmarks") for f in shared.path(root).rglob("*.gz")}
    derived = {"fb15k-valid-test-only", "nell995-query2box", "dbp15k-zh-en"}  # no files to download
    assert {shared_folder(entry) for entry in LOCAL if entry.hash} == {
        folder for folder in folders if folder.name not in derived
    }
    assert all(registry.lookup(folder.name) for folder in folders)


def test_entries_are_well_formed():
    keys = [key for entry in ENTRIES.values() for key in {*map(registry.key, entry.names)}]
    assert len(keys) == len(set(keys))  # no two benchmarks share a name
    for name, entry in ENTRIES.items():
        assert entry.name == name
        assert entry.source.startswith("https://")
        assert entry.counts
        assert re.search(r", .+ \d{4}$", entry.reference)
        assert entry.entities > 1
        assert entry.relations > 0
        assert "train" in entry.splits
        assert bool(entry.files) == bool(entry.mirrors) == bool(entry.layout)
        assert bool(entry.files) or not entry.hash  # of graphs that were not counted
        assert entry.bytes.keys() == entry.files.keys()
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in entry.files.values())
        assert all(mirror.startswith("https://") for mirror in entry.mirrors)
        assert all(
            len(set(map(mirror.format_map, [{"file": f} for f in entry.files]))) > 1
            for mirror in entry.mirrors
        )
        assert not any("#" in mirror for mirror in entry.mirrors[:1])  # one can be had without unpacking


def test_the_documentation_names_the_source_of_every_data_set():
    text = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
    for entry in ENTRIES.values():
        row = f"| {entry.name} | {entry.title} | {entry.counts} | <{entry.source}> | {entry.reference} |"
        assert row in text


def test_entries_cannot_be_changed():
    with pytest.raises(TypeError):
        ENTRIES["mine"] = ENTRIES["nations"]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("FB15k-237", "fb15k237"),
        ("FB15K_237", "fb15k237"),
        ("fb15k237", "fb15k237"),
        ("WN18RR", "wn18rr"),
        ("wn18-openke", "wn18"),
        ("CoDEx-S", "codexsmall"),
        ("CoDEx (medium)", "codexmedium"),
        ("Kinship", "kinships"),
        ("inductive/WN18RR_v1", "wn18rr-v1"),
        ("WN18RR_v1_ind", "wn18rr-v1-ind"),
        ("fb15k237_v1_ind", "fb237-v1-ind"),
        ("NELL_v1", "nell-v1"),
        ("YAGO3-10", "yago310"),
        ("WikiKG90Mv2", "wikikg90m-v2"),
    ],
)
def test_names_in_any_common_spelling(name, canonical):
    assert registry.find(name) is ENTRIES[canonical]


def test_unknown_names():
    with raises(r"^no such data set; got 'fb15k273'; did you mean fb15k237 or .*\?$"):
        registry.find("fb15k273")
    with raises("^no such data set; got 'zzz'; see `evenrank data list`$"):
        registry.find("zzz")
    with raises("no such folder or benchmark; got 'wn18r'; .*; did you mean wn18rr or wn18"):
        load("wn18r")
    with raises("no such folder or benchmark; got 'fb15k237'"):
        load(Path("fb15k237"))  # a path is not a name
    assert registry.lookup("zzz") is None
    for odd in ("a" * 5000, "~nobody-of-that-name/x", "a\0b"):
        with raises("no such folder or benchmark"):
            load(odd)
    for path in ("", "./wn18rr", "wn18rr/", "/wn18rr", "~/wn18rr", "data/wn18rr"):
        with raises(f"no such folder or benchmark; got '{path}'"):
            load(path)


# A benchmark of our own, and a server that misbehaves on request ----------------------------

TEXT = {
    "train.txt": "".join(f"entity{i}\tr{i % 3}\tentity{i * 7 % 500}\n" for i in range(5000)).encode(),
    "valid.txt": b"entity1\tr0\tentity2\n",
    "test.txt": b"entity2\tr1\tentity3\nentity4\tr1\tunseen\n",
}
HALF = 8 * _fetch.BLOCK  # about half of train.txt


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def entry(*mirrors: str) -> registry.Entry:
    return registry.Entry(
        "toy",
        "Toy (small)",
        entities=5001,
        relations=3,
        splits={"train": 5000, "valid": 1, "test": 2},
        counts="counted in the files",
        source="https://example.org/toy",
        reference="Nobody, Nothing, 2026",
        aliases=("inductive/Toy_v1",),
        files={name: digest(content) for name, content in TEXT.items()},
        mirrors=mirrors,
    )


@dataclass
class Server:
    """Files by path; how many bytes of each are sent before the line goes dead, answer by answer."""

    files: dict[str, bytes]
    drops: dict[str, list[int]] = field(default_factory=dict)
    ranges: bool = True
    pause: float = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)


@pytest.fixture
def server():
    state = Server({f"/good/{name}": content for name, content in TEXT.items()})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            asked = self.headers.get("Range")
            state.asked.append((self.path, asked))
            content = state.files.get(self.path)
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and state.ranges else 0
            if content is None or 0 < start >= len(content):
                self.send_response(404 if content is None else 416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            drops = state.drops.get(self.path)
            stop = drops.pop(0) if drops else len(body)
            self.wfile.write(body[: stop // 2])
            state.over.wait(state.pause)
            self.wfile.write(body[stop // 2 : stop])
            if stop < len(body):
                self.close_connection = True

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        http.handle_error = lambda *_: None  # a client that was killed
        yield state
        state.over.set()
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENRANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EVENRANK_DATA", raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "toy"


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder but for what the next download may use: locks and parts."""
    hidden = (".lock", ".part")
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith(hidden)}


def parts(folder: Path) -> list[int]:
    return [file.stat().st_size for file in folder.glob(".*.part")]


# Downloads ----------------------------------------------------------------------------------


def test_a_download_is_kept_and_used_again(server, cache, capfd):
    toy = entry(f"{server.url}/good/{{file}}")
    assert not _fetch.cached(toy)
    assert _fetch.fetch(toy) == cache
    assert contents(cache) == TEXT
    assert parts(cache) == []
    assert _fetch.cached(toy)
    assert [path for path, _ in server.asked] == ["/good/train.txt", "/good/valid.txt", "/good/test.txt"]
    _fetch.fetch(toy)
    assert len(server.asked) == 3
    (cache / "valid.txt").write_bytes(b"entity1\tr0\tentity3\n")  # of the same length, and wrong
    assert not _fetch.cached(toy)
    _fetch.fetch(toy)
    assert contents(cache) == TEXT
    assert server.asked[3:] == [("/good/valid.txt", None)]
    umask = os.umask(0)
    os.umask(umask)
    assert {file.stat().st_mode & 0o777 for file in cache.iterdir()} == {0o666 & ~umask}
    assert capfd.readouterr() == ("", "")


def archive(kind: str) -> bytes:
    pack = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in TEXT.items():
                archive.writestr(f"Release/{name}", content)
    else:
        with tarfile.open(fileobj=pack, mode="w:gz") as archive:
            folder = tarfile.TarInfo("./Release")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            for name, content in TEXT.items():
                about = tarfile.TarInfo(f"./Release/{name}")
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
    return pack.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_archives_are_downloaded_once_and_unpacked(kind, server, cache):
    server.files = {f"/toy.{kind}": archive(kind)}
    _fetch.fetch(entry(f"{server.url}/toy.{kind}#Release/{{file}}"))
    assert contents(cache) == TEXT
    assert parts(cache) == []
    size = len(server.files[f"/toy.{kind}"])
    assert [asked for _, asked in server.asked] == [None, f"bytes={size}-", f"bytes={size}-"]


def test_gzipped_files_are_unpacked(server, cache):
    server.files = {f"/{name}.gz": gzip.compress(content) for name, content in TEXT.items()}
    _fetch.fetch(entry(f"{server.url}/{{file}}.gz"))
    assert contents(cache) == TEXT


@pytest.mark.parametrize(
    ("mirror", "damage"),
    [
        ("/{file}.gz", lambda: gzip.compress(TEXT["train.txt"])[:-100]),
        ("/{file}.gz", lambda: TEXT["train.txt"]),
        ("/{file}.gz", lambda: gzip.compress(TEXT["train.txt"])[:500] + bytes(99)),
        ("/toy.zip#Release/{file}", lambda: archive("zip")[:-100]),
        ("/toy.zip#Other/{file}", lambda: archive("zip")),
        ("/toy.tgz#Release/{file}", lambda: archive("tar.gz")[:3000]),
        ("/toy.tgz#Other/{file}", lambda: archive("tar.gz")),
        ("/toy.tgz#Release", lambda: archive("tar.gz")),
    ],
)
def test_damaged_archives(mirror, damage, server, cache):
    server.files = {mirror.partition("#")[0].format(file="train.txt"): damage()}
    with raises(
        r"the downloaded train.txt is not the published one, .*got a damaged archive \(.+\) from "
    ):
        _fetch.fetch(entry(f"{server.url}{mirror}"))
    assert contents(cache) == {}
    assert parts(cache) == []


@pytest.mark.parametrize("wrong", [bytes(len(TEXT["train.txt"])), TEXT["train.txt"][:-20], b""])
def test_a_wrong_download_is_discarded_and_the_old_file_is_kept(wrong, server, cache):
    server.files["/good/train.txt"] = wrong
    cache.mkdir(parents=True)
    (cache / "train.txt").write_bytes(b"old\n")
    toy = entry(f"{server.url}/good/{{file}}")
    with raises("is not the published one") as caught:
        _fetch.fetch(toy)
    assert str(caught.value).startswith(
        "Toy (small): the downloaded train.txt is not the published one, and was discarded; "
        f"got sha256 {digest(wrong)} from {server.url}/good/train.txt; "
        f"allowed: sha256 {digest(TEXT['train.txt'])}; load your own files by the path of their folder, "
    )
    assert "\n" not in str(caught.value)
    assert contents(cache) == {"train.txt": b"old\n"}
    assert parts(cache) == []
    server.files["/good/train.txt"] = TEXT["train.txt"]
    _fetch.fetch(toy)
    assert contents(cache) == TEXT


def test_the_next_mirror_is_tried(server, cache):
    server.files["/bad/valid.txt"] = b"wrong"  # and no other file: 404
    _fetch.fetch(entry(f"{server.url}/bad/{{file}}", f"{server.url}/good/{{file}}"))
    assert contents(cache) == TEXT
    assert parts(cache) == []
    assert [path for path, _ in server.asked[:2]] == ["/bad/train.txt", "/good/train.txt"]


def test_a_broken_connection_is_resumed(server, cache):
    server.drops["/good/train.txt"] = [HALF, _fetch.BLOCK]
    _fetch.fetch(entry(f"{server.url}/good/{{file}}"))
    assert contents(cache) == TEXT
    asked = [asked for path, asked in server.asked if path == "/good/train.txt"]
    assert asked == [None, f"bytes={HALF}-", f"bytes={HALF + _fetch.BLOCK}-"]


def test_an_aborted_download_is_resumed_by_the_next_call(server, cache):
    server.drops["/good/train.txt"] = [HALF, 0, 0, 0]
    toy = entry(f"{server.url}/good/{{file}}")
    with raises("cannot download train.txt; got (ChunkedEncoding|Connection)Error from 127.0.0.1"):
        _fetch.fetch(toy)
    assert contents(cache) == {}  # nothing that could be taken for the file
    assert parts(cache) == [HALF]
    assert not _fetch.cached(toy)
    server.drops.clear()
    server.asked.clear()
    _fetch.fetch(toy)
    assert server.asked[0] == ("/good/train.txt", f"bytes={HALF}-")
    assert contents(cache) == TEXT


def test_without_range_requests_a_download_starts_again(server, cache):
    server.ranges = False
    server.drops["/good/train.txt"] = [HALF]
    _fetch.fetch(entry(f"{server.url}/good/{{file}}"))
    assert contents(cache) == TEXT
    assert server.count("/good/train.txt") == 2


@pytest.mark.parametrize("size", [100, HALF, len(TEXT["train.txt"]), 2 * len(TEXT["train.txt"])])
def test_a_partial_download_of_another_file_is_detected(size, server, cache):
    server.drops["/good/train.txt"] = [HALF, 0, 0, 0]
    toy = entry(f"{server.url}/good/{{file}}")
    with raises("cannot download"):
        _fetch.fetch(toy)
    next(cache.glob(".*.part")).write_bytes(bytes(size))
    server.drops.clear()
    server.asked.clear()
    _fetch.fetch(toy)
    assert contents(cache) == TEXT
    assert [asked for path, asked in server.asked if "train" in path] == [f"bytes={size}-", None]


def test_an_error_if_no_mirror_answers(server, cache):
    dead = "http://127.0.0.1:9"
    with raises("cannot download") as caught:
        _fetch.fetch(entry(f"{dead}/{{file}}", f"{server.url}/nowhere/{{file}}"))
    assert str(caught.value) == (
        "Toy (small): cannot download train.txt; got ConnectionError from 127.0.0.1:9, HTTP 404 from "
        f"{server.url.removeprefix('http://')}; load your own files by the path of their folder, "
        "path/to/toy, or set EVENRANK_DATA to a folder that contains a folder toy, or "
        f"download {dead}/{{train.txt,valid.txt,test.txt}} on another machine into {cache}"
    )
    assert contents(cache) == {}


def test_a_server_that_does_not_respond_times_out(server, cache, monkeypatch):
    monkeypatch.setattr(_fetch, "SECONDS", 0.05)
    server.pause = 0.5
    with raises("cannot download train.txt; got (ReadTimeout|ConnectionError) from 127.0.0.1"):
        _fetch.fetch(entry(f"{server.url}/good/{{file}}"))
    assert contents(cache) == {}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_that_is_larger_than_published_is_not_kept(zipped, server, cache, monkeypatch):
    monkeypatch.setattr(_fetch, "HEADERS", 0)
    path = "/bad/train.txt.gz" if zipped else "/bad/train.txt"
    bomb = bytes(10**8)  # zipped, it is smaller than the file that was asked for
    server.files[path] = gzip.compress(bomb) if zipped else bomb[: 10**6]
    toy = entry(server.url + ("/bad/{file}.gz" if zipped else "/bad/{file}"))
    toy = replace(toy, bytes={name: len(content) for name, content in TEXT.items()})
    size = len(TEXT["train.txt"])
    with raises(f"train.txt is not the published one.*got more than {size:,} bytes from"):
        _fetch.fetch(toy)
    assert contents(cache) == {}
    assert parts(cache) == []


def test_a_server_that_sends_too_slowly_is_left(server, cache, monkeypatch):
    monkeypatch.setattr(_fetch, "LONGEST", 0)
    with raises("cannot download train.txt; got Timeout from 127.0.0.1"):
        _fetch.fetch(entry(f"{server.url}/good/{{file}}"))
    assert contents(cache) == {}
    assert 0 < sum(parts(cache)) < len(TEXT["train.txt"])  # to be resumed by the next call


def test_what_a_killed_process_was_unpacking_is_removed(server, cache):
    cache.mkdir(parents=True)
    (cache / "tmpabcd1234").write_bytes(b"half")
    (cache / "notes.txt").write_bytes(b"mine")
    _fetch.fetch(entry(f"{server.url}/good/{{file}}"))
    assert contents(cache) == {**TEXT, "notes.txt": b"mine"}


def test_files_brought_from_another_machine(cache):
    cache.mkdir(parents=True)
    for name, content in TEXT.items():
        (cache / name).write_bytes(content)
    assert _fetch.fetch(entry("http://127.0.0.1:9/{file}")) == cache


def test_a_cache_that_cannot_be_written(server, cache, monkeypatch, tmp_path):
    toy = entry(f"{server.url}/good/{{file}}")
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVENRANK_CACHE", str(tmp_path / "file"))
    with raises(
        r"^cannot write to the cache folder .*/file/toy; got Not a directory; set EVENRANK_CACHE to a "
        "folder that can be written, or load your own files .*path/to/toy.*EVENRANK_DATA"
    ):
        _fetch.fetch(toy)
    monkeypatch.setenv("EVENRANK_CACHE", str(tmp_path / "cache"))

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(cache))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)  # root may write anywhere
        with raises(
            "cannot write to the cache folder .*/cache/toy; got Permission denied; set EVENRANK_"
        ):
            _fetch.fetch(toy)
    assert server.asked == []
    _fetch.fetch(toy)
    with monkeypatch.context() as patch:  # what is there can be used all the same
        patch.setattr(Path, "mkdir", refuse)
        assert _fetch.fetch(toy) == cache


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache(server, cache):
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    with raises("cannot write to the cache folder .*; got Permission denied"):
        _fetch.fetch(entry(f"{server.url}/good/{{file}}"))
    cache.chmod(0o700)


def test_a_full_disk(server, cache, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_fetch, "_copied", full)
    with raises("cannot write to the cache folder .*; got No space left on device"):
        _fetch.fetch(entry(f"{server.url}/good/{{file}}"))
    assert contents(cache) == {}


# another process; what it is told comes as JSON, since a registry entry is all it needs
SCRIPT = """
import json, sys
from evenrank.graphs.download import fetch
from evenrank.graphs.registry import Entry
fetch(Entry(**json.loads(sys.argv[1])))
"""


def process(toy: registry.Entry) -> subprocess.Popen:
    fields = {name: getattr(toy, name) for name in toy.__slots__}
    return subprocess.Popen([sys.executable, "-c", SCRIPT, json.dumps(fields)])


def test_processes_wait_for_each_other(server, cache):
    server.pause = 0.2
    running = [process(entry(f"{server.url}/good/{{file}}")) for _ in range(3)]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert contents(cache) == TEXT
    assert [server.count(f"/good/{name}") for name in TEXT] == [1, 1, 1]


def test_a_killed_process_leaves_no_incomplete_files(server, cache):
    server.pause = 30
    toy = entry(f"{server.url}/good/{{file}}")
    running = process(toy)
    deadline = time.monotonic() + 30
    while not any(parts(cache) if cache.exists() else []) and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    assert running.wait(30) == -signal.SIGKILL
    server.pause = 0
    assert not _fetch.cached(toy)
    assert not TEXT.keys() & contents(cache).keys()
    [there] = parts(cache)
    assert 0 < there < len(TEXT["train.txt"])
    server.asked.clear()
    _fetch.fetch(toy)
    assert server.asked[0] == ("/good/train.txt", f"bytes={there}-")
    assert TEXT.items() <= contents(cache).items()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_terminals_only(server, cache, monkeypatch):
    for show in (True, False):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        _fetch.fetch(entry(f"{server.url}/good/{{file}}"), progress=show)
        assert ("train.txt" in terminal.getvalue()) == show
        (cache / "train.txt").unlink()


# Places ------------------------------------------------------------


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def toy(server, monkeypatch, tmp_path):
    """Make the toy a benchmark, published by the server."""
    put(tmp_path / "published", TEXT)
    counted = load(tmp_path / "published")
    made = replace(
        entry(f"{server.url}/good/{{file}}"), entities=len(counted.entities), hash=counted.hash
    )
    known = {"toy": made, "nations": ENTRIES["nations"]}
    monkeypatch.setattr(registry, "entries", lambda: MappingProxyType(known))
    registry._keys.cache_clear()
    yield made
    registry._keys.cache_clear()


def test_places_are_searched_in_order(toy, server, cache, monkeypatch, tmp_path):
    assert where(toy) == "download"
    graph = load("Toy")
    assert (graph.name, graph.hash) == ("toy", toy.hash)
    assert len(server.asked) == 3
    assert where(toy) == "cache"
    assert load("toy", name="mine").name == "mine"
    assert len(load("toy", unseen="drop").splits["test"]) == 1
    assert len(server.asked) == 3
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path / "own"))
    put(tmp_path / "own" / "TOY", {"train.txt": TEXT["valid.txt"]})
    assert where(toy) == "EVENRANK_DATA"  # the user's own folder comes before the cache
    with raises("is not Toy"):
        load("toy")
    (tmp_path / "own" / "TOY").rename(tmp_path / "own" / "nations")
    assert where(toy) == "cache"
    assert where(ENTRIES["nations"]) == "bundled"
    assert load("nations").hash == ENTRIES["nations"].hash
    put(tmp_path / "here" / "toy", {"train.txt": TEXT["valid.txt"]})
    monkeypatch.chdir(tmp_path / "here")
    assert len(load("toy").splits["train"]) == 1  # a path that exists is a path


@pytest.mark.parametrize("name", ["toy", "Toy_(small)", "TOY", "inductive/Toy_v1"])
def test_folders_of_the_user(name, toy, server, monkeypatch, tmp_path):
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path / "own"))
    put(tmp_path / "own" / name, TEXT)
    assert load("toy").name == "toy"
    assert load("toy", unseen="drop").unseen == "drop"
    assert len(load("toy", unseen="drop").splits["test"]) == 1
    with raises("unseen"):
        load("toy", unseen="perhaps")
    assert server.asked == []


def test_other_forms_of_the_same_graph_are_the_same(toy, monkeypatch, tmp_path):
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path))
    windows = {name: content.replace(b"\n", b"\r\n") for name, content in TEXT.items()}
    windows["train.txt"] = b"".join(reversed(windows["train.txt"].splitlines(keepends=True)))
    put(tmp_path / "toy", windows)
    assert load("toy").hash == toy.hash
    (tmp_path / "toy" / "train.txt").unlink()
    put(tmp_path / "toy", {"train.tsv.gz": gzip.compress(TEXT["train.txt"])})
    assert load("toy").hash == toy.hash


def test_folders_that_are_something_else(toy, monkeypatch, tmp_path):
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path / "own"))
    with raises("^EVENRANK_DATA must name a folder; got '.*own'$"):
        load("toy")
    folder = put(tmp_path / "own" / "toy", TEXT | {"test.txt": TEXT["valid.txt"]})
    (folder / "valid.txt").unlink()
    with raises(
        r"^.*own/toy is not Toy \(small\) as published; got entities 5,000, valid 0, test 1; allowed: "
        r"entities 5,001, relations 3, train 5,000, valid 1, test 2; put the files of "
        r"https://example.org/toy there, or load it as another graph by its path$"
    ):
        load("toy")
    put(folder, TEXT | {"valid.txt": b"entity1\tr0\tentity3\n"})
    with raises(f"got other triples in valid.txt; allowed: hash {toy.hash}; put the files"):
        load("toy")
    (folder / "valid.txt").unlink()
    put(folder, {"valid.txt.gz": gzip.compress(b"entity1\tr0\tentity3\n")})
    with raises("got other triples in valid.txt; "):
        load("toy")
    (folder / "valid.txt.gz").rename(folder / "valid.tsv.gz")
    with raises("got other triples in it; "):
        load("toy")
    put(tmp_path / "own" / "Toy (small)", TEXT)
    with raises(r"own: several folders for Toy \(small\); got Toy \(small\) and toy; keep one of them"):
        load("toy")
    assert load(folder).name == "toy"  # by its path, any graph is welcome


BY_NAME = (
    ["WN18RR", "wn18", "wd50k", "NELL_v1_ind", "Countries S2"]
    if shared.PRESENT
    else ["MADE", "made-openke", "Graph made commas", "MADE_v1_ind", "inductive/made_v1"]
)


@pytest.mark.parametrize("name", BY_NAME)
def test_shared_data_by_name(name, known, monkeypatch):
    monkeypatch.setenv("EVENRANK_DATA", str(shared.path("datasets")))
    graph = load(name)
    entry = registry.find(name)
    assert (graph.name, graph.hash) == (entry.name, entry.hash)
    assert {split: len(triples) for split, triples in graph.splits.items()} == entry.splits


def test_the_paper_counts_without_unseen_entities(known, monkeypatch):
    monkeypatch.setenv("EVENRANK_DATA", str(shared.path("datasets")))
    if not shared.PRESENT:
        graph, about = er.load("made", unseen="drop"), substitute.facts("made")
        assert (len(graph.entities), len(graph.relations)) == (
            len(about.kept_entities),
            len(about.kept_relations),
        )
        assert {split: len(triples) for split, triples in graph.splits.items()} == about.kept_counts
        assert about.kept_counts["test"] < about.counts["test"]
        return
    graph = er.load("WN18RR", unseen="drop")
    assert (len(graph.entities), len(graph.relations), len(graph.splits["train"])) == (
        40_559,
        11,
        86_835,
    )


def test_numbers_only(monkeypatch, tmp_path):
    message = (
        r"^WikiKG90Mv2 cannot be downloaded; only its sizes are known; get its files from "
        r"https://ogb.stanford.edu/docs/lsc/wikikg90mv2/, then load your own files by the path of their "
        r"folder, path/to/wikikg90m-v2, or set EVENRANK_DATA to a folder that contains a folder "
        r"wikikg90m-v2$"
    )
    with raises(message):
        load("WikiKG90Mv2")
    put(tmp_path / "YAGO3-10", TEXT)
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path))
    with raises(r"is not YAGO3-10 as published; got .*train 5,000.*; allowed: .*train 1,079,040"):
        load("yago310")


# The shell ----------------------------------------------------------------------------------


def test_data_list(monkeypatch, tmp_path):
    put(tmp_path / "WN18RR", TEXT)
    monkeypatch.setenv("EVENRANK_DATA", str(tmp_path))
    text = run("data", "list")
    rows = [re.split(r"  +", line) for line in text.splitlines()]
    assert rows[0] == ["data", "where", "entities", "relations", "train", "valid", "test"]
    assert ["fb15k237", "download", "14,541", "237", "272,115", "17,535", "20,466"] in rows
    assert ["wikikg90m-v2", "numbers only", "91,230,610", "1,387", "601,062,811", "–", "–"] in rows
    listed = {row["data"]: row for row in json.loads(run("data", "list", "--format", "json"))}
    assert list(listed) == list(ENTRIES)
    assert {listed[name]["where"] for name in ("nations", "kinships", "umls")} == {"bundled"}
    assert listed["wn18rr"]["where"] == "EVENRANK_DATA"
    assert listed["codexsmall"]["licence"] == "MIT"
    assert listed["fb15k237"]["source"] == ENTRIES["fb15k237"].source
    assert run("data", "list", "--format", "markdown").startswith("| data ")
    assert run("data", "list", "--format", "csv").startswith("data,where,entities,")


def test_data_show_by_name():
    assert "where      bundled" in run("data", "show", "Nations")
    assert "aliases    kinship, alyawarra" in run("data", "show", "kinships")
    shown = run("data", "show", "FB15k-237")  # not here: what is published, and no download
    assert shown.startswith("fb15k237\n  entities   14,541\n  relations  237\n  train      272,115\n")
    assert "where      download" in shown
    content = json.loads(run("data", "show", "ogbl-biokg", "--format", "json"))
    assert content["splits"] == {"train": 4_762_678, "valid": 162_886, "test": 162_870}
    assert content["where"] == "numbers only"


def test_data_fetch(monkeypatch, cache, tmp_path):
    assert run("data", "fetch", "nations", "UMLS") == "nations: bundled\numls: bundled\n"
    assert json.loads(run("data", "fetch", "nations", "--format", "json")) == {"nations": "bundled"}
    assert "no such data set; got 'wn18r'" in run("data", "fetch", "nations", "wn18r", code=2)
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no server
    line = run("data", "fetch", "wn18rr", "--quiet", code=2)
    assert line.startswith(
        "WN18RR: cannot download train.txt; got ProxyError from raw.githubusercontent"
    )
    assert "path/to/wn18rr" in line
    assert "EVENRANK_DATA" in line
    assert (
        f"/wn18rr/{{train.txt,valid.txt,test.txt}} on another machine into {cache.parent}/wn18rr" in line
    )


def test_a_benchmark_in_the_cache_is_loaded_from_there(cache, known):
    entry = ENTRIES["countries-s1"] if shared.PRESENT else known["made-openke"]
    folder, place = shared_folder(entry), cache.parent / entry.name
    files = {name: gzip.decompress((folder / f"{name}.gz").read_bytes()) for name in entry.files}
    put(place, files)
    assert _fetch.fetch(entry) == place
    assert where(entry) == "cache"
    assert load(entry.title).hash == entry.hash
    name = next(iter(files))
    (place / name).write_bytes(files[name] + b"\n")
    assert where(entry) != "cache"


@shared.needs("datasets/countries-s1")
def test_data_fetch_finds_what_is_there(cache):
    entry = ENTRIES["countries-s1"]
    folder = shared_folder(entry)
    put(
        cache.parent / entry.name,
        {name: gzip.decompress((folder / f"{name}.gz").read_bytes()) for name in entry.files},
    )
    assert run("data", "fetch", "Countries") == f"countries-s1: {cache.parent / 'countries-s1'}\n"
    assert "where      cache" in run("data", "show", "countries")
    assert load("countries").hash == entry.hash
