"""Bounds what reading a pickle takes, before it is read.

A pickle can name an object many times, so a file of a kilobyte can describe a tuple that contains itself
2^60 times over: whoever hashes it, as the key of a dictionary, or writes it out, in a message, does not
come to an end. Such a file runs no foreign code, so unpicklers that refuse to run code accept it. Here
its opcodes are followed without building any object, in time and memory proportional to the file.
"""

from __future__ import annotations

import pickletools
import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from evenrank._internal.limits import available_memory
from evenrank.errors import InputError

LARGEST = 10**8  # objects, each counted as often as it occurs in others
DEEPEST = 200  # objects inside each other
DIGITS = 64  # bytes of a whole number
EACH = 400  # bytes that an opcode may take here, about
PICKLES = 5  # with which a file of torch before 1.6 begins; the numbers of tensors come after them
PLAIN = {"bool", "bytes", "float", "int", "int_or_bool", "None", "str", "bytes_or_str"}
GET = {"GET", "BINGET", "LONG_BINGET"}
PUT = {"PUT", "BINPUT", "LONG_BINPUT"}
# how many of the topmost objects an opcode adds to the one below them, and which of these are keys
ADDS = {"APPEND": None, "APPENDS": None, "BUILD": None, "SETITEM": 2, "SETITEMS": 2, "ADDITEMS": 1}
KEYED = {"DICT": 2, "FROZENSET": 1}


class Node(list["Node"]):
    """An object that a pickle describes: the objects that it contains.

    Numbers, texts and tuples of these are plain: they take little to hash.
    """

    def __init__(self, parts: Iterable[Node] = (), *, plain: bool = False) -> None:
        super().__init__(parts)
        self.plain = plain


ONE = Node(plain=True)  # stands for every number and every text


def check_pickle(path: Path) -> None:
    """Check that a file of torch takes no more time and memory to read than its size suggests.

    Parameters
    ----------
    path : Path
        A file that `torch.save` wrote.

    Raises
    ------
    InputError
        If it does.
    ValueError, EOFError
        If its pickle is damaged.
    """
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                for _ in range(PICKLES):
                    _check(file)
            return
        with zipfile.ZipFile(path) as archive:
            # torch does not compress
            if sum(part.file_size for part in archive.infolist()) > path.stat().st_size:
                raise InputError("an archive that unpacks to more than its own size")
            for name in archive.namelist():
                if name.endswith("data.pkl"):
                    with archive.open(name) as file:
                        _check(file)
    except InputError as error:
        raise error.at(f"cannot read {path}") from None
    except (KeyError, IndexError, struct.error) as error:
        raise ValueError(f"a damaged pickle ({type(error).__name__})") from None


def _check(file: IO[bytes]) -> None:
    """Check one pickle, and stop behind its end."""
    made: list[Node] = []
    stack: list[Node | None] = []  # None is a mark
    memo: dict[Any, Node] = {}
    most = available_memory() // EACH
    for opcode, argument, _ in pickletools.genops(file):
        name, taken = opcode.name, list[Node]()
        if name in GET:
            stack.append(memo[argument])
            continue
        if name in PUT or name == "MEMOIZE":
            memo[len(memo) if argument is None else int(argument)] = _top(stack)
            continue
        if name == "DUP":
            stack.append(_top(stack))
            continue
        if name == "MARK":
            stack.append(None)
            continue
        before = opcode.stack_before
        if pickletools.markobject in before:
            mark = len(stack) - 1 - stack[::-1].index(None)
            taken = [node for node in stack[mark + 1 :] if node is not None]
            del stack[mark:]
            left = before.index(pickletools.markobject)
        else:
            left = len(before)
        taken = [_pop(stack) for _ in range(left)][::-1] + taken
        if name in ADDS:
            owner, *taken = taken
            _check_keys(taken, ADDS[name])
            owner += taken
            stack.append(owner)
            continue
        _check_keys(taken, KEYED.get(name))
        if isinstance(argument, int) and argument.bit_length() > 8 * DIGITS:
            raise InputError(f"a whole number of more than {DIGITS} bytes")
        for kind in opcode.stack_after:
            node = _node(kind.name, taken)
            stack.append(node)
            if node is not ONE:
                made.append(node)
        if len(made) > most:
            raise InputError(f"a pickle of more than {most:,} objects, for which there is no memory")
    _check_sizes(made)


def _top(stack: list[Node | None]) -> Node:
    node = stack[-1]
    if node is None:
        raise ValueError("a mark instead of an object")
    return node


def _pop(stack: list[Node | None]) -> Node:
    node = _top(stack)
    stack.pop()
    return node


def _node(kind: str, taken: list[Node]) -> Node:
    """Describe a new object."""
    if kind in PLAIN:
        return ONE
    return Node(taken, plain=kind == "tuple" and all(part is ONE for part in taken))


def _check_keys(taken: list[Node], every: int | None) -> None:
    """Check that keys of dictionaries and members of sets are numbers, texts or tuples of these."""
    if every is not None and not all(node.plain for node in taken[::every]):
        raise InputError("a pickle with nested keys, whose hash could take any time")


def _check_sizes(made: list[Node]) -> None:
    """Check how large the objects are when each is counted as often as it occurs, and how deep."""
    sizes: dict[int, tuple[int, int]] = {}  # and depths; an object in itself counts once
    for root in made:
        if id(root) in sizes:
            continue
        pending = [(root, iter(root))]
        sizes[id(root)] = 1, 1
        while pending:
            node, rest = pending[-1]
            inner = next((part for part in rest if id(part) not in sizes), None)
            if inner is not None:
                sizes[id(inner)] = 1, 1
                pending.append((inner, iter(inner)))
                continue
            pending.pop()
            size = 1 + sum(sizes[id(part)][0] for part in node)
            depth = 1 + max((sizes[id(part)][1] for part in node), default=0)
            if size > LARGEST:
                raise InputError(f"a pickle that describes more than {LARGEST:,} objects")
            if depth > DEEPEST:
                raise InputError(f"a pickle of objects more than {DEEPEST} deep inside each other")
            sizes[id(node)] = size, depth
