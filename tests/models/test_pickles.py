"""Pickles of a kilobyte that describe objects without end are refused at once."""

import io
import pickle
import pickletools
import zipfile
from unittest import mock

import pytest

from evenrank.errors import InputError
from evenrank.models.readers import _pickles
from evenrank.models.readers._pickles import check_pickle
from evenrank.models.readers.checkpoint import BEFORE_ARCHIVES, torch_file
from evenrank.models.readers.pykeen._records import records

MANY = 60  # times doubled: more than anybody can count


def doubled(make, thing):
    for _ in range(MANY):
        thing = make(thing)
    return thing


class Unhashed:
    """A pickle whose dictionary has a key that was never hashed here."""

    @staticmethod
    def dump(opcode):
        """A tuple doubled again and again, as a key or as a member."""
        grown = (
            b")"
            + b"\x94h\x00h\x00\x86"
            + b"".join(b"\x94h" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(1, MANY))
        )
        return {
            "SETITEM": b"\x80\x04}" + shifted(grown) + b"K\x01s.",
            "SETITEMS": b"\x80\x04}(" + shifted(grown) + b"K\x01u.",
            "DICT": b"\x80\x04(" + shifted(grown) + b"K\x01d.",
            "ADDITEMS": b"\x80\x04\x8f(" + shifted(grown) + b"\x90.",
            "FROZENSET": b"\x80\x04(" + shifted(grown) + b"\x91.",
        }[opcode]


def shifted(content):
    return content


def archive(path, content):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", content)
        file.writestr("archive/byteorder", b"little")
        file.writestr("archive/version", b"3\n")
    return path


def old(path, content):
    """A file as torch before 1.6 wrote it: several pickles, one after the other."""
    parts = [BEFORE_ARCHIVES, pickle.dumps(1001, 2), pickle.dumps({}, 2), content, pickle.dumps([], 2)]
    path.write_bytes(b"".join(parts))
    return path


NESTED = {
    "lists": doubled(lambda one: [one, one], []),
    "tuples": doubled(lambda one: (one, one), ()),
    "dictionaries": doubled(lambda one: {"a": one, "b": one}, {}),
    "a mixture": doubled(lambda one: ({"a": [one, one]}, one), ""),
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("write", [archive, old])
def test_nested_objects_without_end(kind, write, tmp_path):
    path = write(tmp_path / "model.pt", pickle.dumps(NESTED[kind], 4))
    with pytest.raises(
        InputError, match=r"model.pt: a pickle (that describes more than 100,000,000|of ob)"
    ):
        check_pickle(path)


@pytest.mark.parametrize("opcode", ["SETITEM", "SETITEMS", "DICT", "ADDITEMS", "FROZENSET"])
@pytest.mark.parametrize("write", [archive, old])
def test_keys_whose_hash_would_not_end(opcode, write, tmp_path):
    content = Unhashed.dump(opcode)
    assert opcode in {code.name for code, *_ in pickletools.genops(content)}
    path = write(tmp_path / "model.pt", content)
    with pytest.raises(InputError, match=r"cannot read .*model.pt: a pickle with nested keys"):
        check_pickle(path)


@pytest.mark.parametrize("read", [records, lambda path: torch_file(path, trust_pickle=False)])
def test_readers_refuse_them(read, tmp_path):
    if read is not records:
        pytest.importorskip("torch")
    for content in (Unhashed.dump("SETITEM"), pickle.dumps(NESTED["lists"], 2)):
        with pytest.raises(InputError, match=r"cannot read .*: a pickle"):
            read(archive(tmp_path / "model.pt", content))


def test_objects_deep_inside_each_other(tmp_path):
    for opening, closing in ((b"](", b"e"), (b"(", b"t"), (b"}(K\x00", b"u")):
        content = b"\x80\x02" + opening * 1000 + b"N" + closing * 1000 + b"."
        with pytest.raises(InputError, match="more than 200 deep inside each other"):
            check_pickle(archive(tmp_path / "model.pt", content))


def test_numbers_that_are_too_long(tmp_path):
    for number in (1 << 600, -(1 << 4000)):
        with pytest.raises(InputError, match="a whole number of more than 64 bytes"):
            check_pickle(archive(tmp_path / "model.pt", pickle.dumps([number])))


def test_more_objects_than_there_is_memory_for(tmp_path):
    path = archive(tmp_path / "model.pt", b"\x80\x02(" + b"]" * 10_000 + b"t.")
    check_pickle(path)
    with (
        mock.patch.object(_pickles, "available_memory", return_value=1_000_000),
        pytest.raises(InputError, match="of more than 2,500 objects"),
    ):
        check_pickle(path)


def test_objects_that_contain_themselves_are_finite(tmp_path):
    loop = [1]
    loop.append({"loop": loop, "tuple": (loop, loop)})
    check_pickle(archive(tmp_path / "model.pt", pickle.dumps(loop)))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_ordinary_objects_of_every_protocol(protocol, tmp_path):
    thing = {
        "weights": [1, 2.5, -(1 << 80), True, None, "ä", b"\x00"],
        ("a", 1): {3, 4},
        "complex": frozenset([("x", "y")]),
        "object": io.StringIO,
        "again": [{"k": str(i)} for i in range(100)],
    }
    check_pickle(archive(tmp_path / "model.pt", pickle.dumps(thing, protocol)))


def test_files_of_torch(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 2))
    state = {"model": model.state_dict(), "epoch": 3, "optimizer": torch.optim.Adam(model.parameters())}
    state["optimizer"] = state["optimizer"].state_dict()
    for new in (True, False):
        path = tmp_path / f"{new}.pt"
        torch.save(state, path, _use_new_zipfile_serialization=new)
        check_pickle(path)
        assert torch_file(path, trust_pickle=False)["epoch"] == 3


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x02.", b"\x80\x02h\x05.", b"\x80\x02]a.", b"\x80\x02t.", b"("]
)
def test_damaged_pickles(content, tmp_path):
    with pytest.raises((ValueError, EOFError)) as caught:
        check_pickle(archive(tmp_path / "model.pt", content))
    assert not isinstance(caught.value, InputError)
