"""Tensors of torch that NumPy cannot hold, and those that claim more memory than their file has."""

import pytest

from evenrank._internal.arrays import array
from evenrank.errors import InputError
from evenrank.models.readers.checkpoint import torch_file

torch = pytest.importorskip("torch")


def quantised():
    return torch.quantize_per_tensor(torch.zeros(2, 2), 0.1, 0, torch.qint8)


def nested():
    return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


@pytest.mark.filterwarnings("ignore")  # torch warns that some of these are experimental
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: torch.zeros(2, 2).to(torch.float8_e4m3fn),
            r"got float8_e4m3fn; convert it with .float\(\)",
        ),
        (lambda: torch.zeros(2, dtype=torch.complex32), "got complex32; convert it"),
        (quantised, r"got qint8; convert it with .dequantize\(\)"),
        (nested, "got a nested tensor; pad it with"),
        (lambda: torch.zeros(2, 2).to_sparse(), r"got torch.sparse_coo on device cpu; .*to_dense\(\)"),
        (lambda: torch.zeros(2, device="meta"), "got torch.strided on device meta"),
    ],
)
def test_tensors_that_numpy_cannot_hold(make, message):
    with pytest.raises(InputError, match=f"the table must .*{message}|the table has numbers.*{message}"):
        array("the table", make())


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int8, torch.bool, torch.uint16])
def test_other_types_become_floats(kind):
    assert array("the table", torch.ones(2, dtype=kind)).tolist() == [1, 1]


@pytest.mark.parametrize("zipped", [True, False])
def test_a_tensor_that_repeats_one_number_is_refused(zipped, tmp_path):
    path = tmp_path / "model.pt"
    for content in (torch.zeros(1).expand(10**6, 10**6), {"a": [torch.zeros(2).expand(9, 2)]}):
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(
            InputError, match=r"cannot read .*model.pt; got ValueError: a tensor of shape"
        ):
            torch_file(path, trust_pickle=False)


def test_transposed_and_sliced_tensors_are_read(tmp_path):
    table = torch.arange(12.0).reshape(3, 4)
    torch.save({"t": table.T, "part": table[1:, ::2], "row": table[0]}, tmp_path / "model.pt")
    found = torch_file(tmp_path / "model.pt", trust_pickle=False)
    assert (found["t"] == table.T).all()
    assert found["part"].tolist() == [[4, 6], [8, 10]]
