"""Arrays of files: read if they fit, and checked for changes if they are mapped."""

import os

import numpy as np
import pytest

import evenrank as er
from evenrank._internal import mapped
from evenrank._internal.mapped import check_unchanged, load_array, mapped_array
from evenrank.errors import InputError
from evenrank.ranks.task import Task

changed = pytest.raises(InputError, match=r"table.npy was changed while it was in use; rank a copy")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "table.npy"
    np.save(path, np.random.default_rng(0).normal(size=(50, 4)))
    return path


def overwrite(path):
    """Write other numbers into the same file, as training does that goes on."""
    table = np.load(path, mmap_mode="r+")
    table += 1
    table.flush()
    os.utime(path)


def test_small_arrays_are_read(file):
    array = load_array(file)
    assert mapped_array(array) is None
    before = array.copy()
    overwrite(file)
    assert (array == before).all()
    check_unchanged(array)


def test_large_arrays_are_mapped_and_their_files_are_watched(file, monkeypatch):
    monkeypatch.setattr(mapped, "available_memory", lambda: 1000)
    array = load_array(file)
    assert mapped_array(array) is not None
    check_unchanged(array, array[3:, ::2], np.ones(3), None)
    overwrite(file)
    for part in (array, array[3:, ::2].T):
        with changed:
            check_unchanged(part)


def test_files_that_are_shortened_or_removed_are_noticed(file, monkeypatch):
    monkeypatch.setattr(mapped, "available_memory", lambda: 1000)
    array = load_array(file)
    os.truncate(file, 1000)
    with changed:
        check_unchanged(array)
    file.unlink()
    with changed:
        check_unchanged(array)


def test_a_file_that_is_written_while_it_is_read_is_an_error(file, monkeypatch):
    load = np.load

    def slow(stream, **options):
        array = load(stream, **options)
        os.truncate(file, 1000)
        return array

    monkeypatch.setattr(np, "load", slow)
    with changed:
        load_array(file)


def ranked(table, during):
    """Rank by a table, with something happening meanwhile."""

    def queries(ids):
        during()
        return np.ones((len(ids), table.shape[1]))

    task = Task.of([[0], [1]], targets=[2, 0], size=len(table))
    return er.rank(er.Factored("dot", table, queries), task, progress=False)


def test_ranking_stops_if_the_file_of_a_mapped_table_changes(file):
    table = np.load(file, mmap_mode="r")  # mapped by the user
    before = ranked(table, lambda: None)
    with changed:
        ranked(table, lambda: overwrite(file))
    again = ranked(np.load(file, mmap_mode="r"), lambda: None)
    assert again.better.tolist() == before.better.tolist()


def test_ranking_stops_if_a_file_changed_since_it_was_mapped(tmp_path):
    graph = er.load("nations")
    er.models.save(er.models.load("nations/transe"), tmp_path / "model.safetensors")
    model = er.models.load(tmp_path / "model.safetensors", mapped=True)
    task = graph.task("test")
    er.rank(model, task, progress=False)
    os.utime(tmp_path / "model.safetensors", (0, 0))
    with pytest.raises(InputError, match=r"model.safetensors was changed while it was in use"):
        er.rank(model, task, progress=False)
