"""Protocols: text and back, what two share, and fingerprints that stay what they were."""

import hashlib
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenrank as er
from evenrank.ranks import Protocol
from evenrank.ranks.protocol import (
    MIXED,
    All,
    Described,
    Listed,
    Sampled,
    Typed,
    read_candidates,
    shared,
)

names = st.text("abcdefghij", min_size=1, max_size=8)
texts = st.text(min_size=1, max_size=12)
digests = st.none() | st.text("0123456789abcdef", min_size=8, max_size=8)
splits = st.lists(names.filter(lambda name: name != "none"), max_size=3, unique=True).map(tuple)
candidates = st.one_of(
    st.builds(All),
    st.builds(Typed, splits.filter(len).map(", ".join), st.none(), st.booleans()),
    st.builds(Typed, names.map("{}.txt".format), digests.filter(bool), st.booleans()),
    st.builds(Sampled, st.integers(1, 10**6), st.integers(0, 2**40), st.booleans()),
    st.builds(Listed, digests, st.booleans()),
    names.map("those of {}".format).map(Described),
    names.map("sampled by {}".format).map(lambda words: Described(words, sampled=True)),
    st.just(MIXED),
)
FIELDS = {*Protocol.__dataclass_fields__} | {"protocol"}
protocols = st.builds(
    Protocol,
    **dict.fromkeys(
        ("data", "content", "split", "unseen", "preset", "model", "scores", "average", "ties"),
        st.none() | texts,
    ),
    sides=st.none()
    | st.lists(st.sampled_from(["tail", "head", "relation", "pair", "answer"]), unique=True, min_size=1),
    filter=st.none() | splits,
    candidates=st.none() | candidates,
    extra=st.dictionaries(texts.filter(lambda name: name not in FIELDS), texts, max_size=2),
)


def former_fingerprint(protocol):
    """The algorithm of version 0.1.0, with its name for a preset."""
    entries = {
        "protocol" if name == "preset" else name: text for name, text in protocol.to_dict().items()
    }
    words = json.dumps(dict(sorted(entries.items())), ensure_ascii=False)
    return hashlib.sha256(words.encode()).hexdigest()[:8]


@given(candidates)
def test_candidates_are_read_as_they_are_written(kind):
    again = read_candidates(str(kind))
    assert (again, again.sampled) == (kind, kind.sampled)


@given(protocols)
def test_protocols_are_read_as_they_are_written(protocol):
    entries = protocol.to_dict()
    assert all(isinstance(text, str) for pair in entries.items() for text in pair)
    again = Protocol.from_dict(json.loads(json.dumps(entries)))
    assert again == protocol == pickle.loads(pickle.dumps(protocol))
    assert (again.to_dict(), again.fingerprint, again.sampled) == (
        entries,
        protocol.fingerprint,
        protocol.sampled,
    )
    assert hash(again) == hash(protocol)
    assert protocol.fingerprint == former_fingerprint(protocol)
    assert str(protocol).endswith(f"[{protocol.fingerprint}]")


def test_fingerprints_are_those_of_earlier_versions():
    """Known values, so that the algorithm above cannot change along with the code."""
    assert Protocol().fingerprint == hashlib.sha256(b"{}").hexdigest()[:8] == "44136fa3"
    protocol = Protocol(data="wn18rr", sides=("head", "tail"), candidates=All(), preset="libkge")
    text = '{"candidates": "all", "data": "wn18rr", "protocol": "libkge", "sides": "tail, head"}'
    assert protocol.fingerprint == hashlib.sha256(text.encode()).hexdigest()[:8]
    assert (
        Protocol(extra={"n": "ü"}).fingerprint == hashlib.sha256('{"n": "ü"}'.encode()).hexdigest()[:8]
    )


def test_the_order_of_sides_does_not_matter():
    one, two = Protocol(sides=("head", "tail")), Protocol(sides=["tail", "head"])
    assert one == two
    assert one.fingerprint == two.fingerprint
    assert one.sides == ("tail", "head")
    assert Protocol(sides=("zeta", "alpha", "pair")).sides == ("pair", "alpha", "zeta")
    assert Protocol(filter=("train", "test")) != Protocol(filter=("test", "train"))


def test_entries_of_older_files_are_read():
    old = {
        "data": "nations",
        "sides": "head, tail",
        "filter": "none",
        "candidates": "5 sampled per query, seed 3",
        "protocol": "libkge",
        "learning rate": "0.1",
    }
    protocol = Protocol.from_dict(old)
    assert (protocol.preset, protocol.sides, protocol.filter) == ("libkge", ("tail", "head"), ())
    assert protocol.candidates == Sampled(5, seed=3)
    assert dict(protocol.extra) == {"learning rate": "0.1"}
    assert "protocol" not in protocol.to_dict()


@given(protocols, protocols)
def test_two_protocols_share_what_is_equal(a, b):
    both = a & b
    mine, others = a.to_dict(), b.to_dict()
    wanted = {name: text for name, text in mine.items() if others.get(name) == text}
    if a.candidates != b.candidates and (a.sampled or b.sampled):
        wanted["candidates"] = str(MIXED)
    assert both.to_dict() == wanted
    assert both == b & a == shared([a, b])
    assert both.sampled == (a.sampled or b.sampled)
    assert a & a == a == shared([a])
    assert shared([]) == Protocol()


@given(protocols)
def test_entries_are_changed_and_chosen(protocol):
    changed = protocol.updated({"model": "B", "data": None, "seed": 3})
    assert (changed.model, changed.data, changed.extra["seed"]) == ("B", None, "3")
    assert changed.updated({"model": protocol.model, "data": protocol.data}).only(
        protocol.to_dict()
    ) == protocol.only(protocol.to_dict())
    assert [*protocol.only(["split"]).to_dict()] in ([], ["split"])


def test_the_line_has_what_differs_from_the_usual():
    usual = Protocol(
        split="test", sides=("tail", "head"), filter=("train", "valid", "test"), candidates=All()
    )
    assert str(usual) == f"usual protocol [{usual.fingerprint}]"
    nothing = Protocol(ties="expected", average="micro")
    assert str(nothing) == f"no protocol recorded [{nothing.fingerprint}]"
    other = usual.updated({"data": "toy", "content": "abc", "split": "valid"})
    assert str(other) == f"data: toy; split: valid [{other.fingerprint}]"
    assert other.line(full=True).startswith("data: toy; content: abc; split: valid; sides: tail, head; ")


@pytest.mark.parametrize("bad", ["libkge", 3, [1], [("data", "x")], b"x", 1.5])
def test_a_protocol_must_be_a_mapping_of_entries(bad):
    for take in (
        Protocol.of,
        Protocol.from_dict,
        Protocol().updated,
        lambda given: er.Ranks.of([1], protocol=given),
        er.Ranks.of([1]).with_protocol,
    ):
        with pytest.raises(er.errors.InputError, match="a protocol must be a mapping of entries; got"):
            take(bad)


@pytest.mark.parametrize("name", ["data", "sides", "preset", "protocol"])
def test_extra_entries_are_no_fields(name):
    with pytest.raises(
        er.errors.InputError, match=f"an extra entry has the name of a field; got '{name}'"
    ):
        Protocol(extra={name: "x"})


@pytest.mark.parametrize(
    "odd",
    [
        Protocol(data=5),
        Protocol(sides=("tail", "x,y")),
        Protocol(filter=("none",)),
        Protocol(model="a,b"),
    ],
)
def test_odd_entries_are_read_as_they_are_written(odd):
    again = Protocol.from_dict(odd.to_dict())
    assert (again, hash(again), again.fingerprint) == (odd, hash(odd), odd.fingerprint)


def test_only_protocols_share_entries():
    with pytest.raises(TypeError, match="unsupported operand"):
        Protocol() & "wn18rr"
