"""Pickles that were made to break a reader, by what they try; and one as the authors of CIFAR-10 wrote theirs."""

from __future__ import annotations

import pickle
import struct

import numpy as np

PROTO = b"\x80\x02"
#: An array that has no content yet.
EMPTY = b"cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
MANY = 200_000


def original(rows: np.ndarray, labels: list[int]) -> bytes:
    """The opcodes of data_batch_1: Python 2's cPickle, protocol 2, where bytes are strings."""
    listed = b"".join(b"K" + bytes([label]) for label in labels)
    names = b"".join(b"U\x05%05dr" % k + struct.pack("<I", 300 + k) for k in range(len(labels)))
    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09(K\x01"
    array += b"M" + struct.pack("<H", len(rows)) + b"M\x00\x0c\x86" + DTYPE + b"\x89T" + struct.pack("<i", rows.size)
    array += rows.tobytes() + b"tb"
    batch = (
        b"U\x0bbatch_labelq\x02U\x16testing batch 1 of 1  q\x03U\x06labelsq\x04]q\x05(" + listed + b"eU\x04dataq\x06"
    )
    return PROTO + b"}q\x01(" + batch + array + b"U\x09filenamesq\x0e]q\x0f(" + names + b"eu."


DTYPE = b"cnumpy\ndtype\nq\x0aU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"

#: The array of the memory corruption: of eight bytes without a type, whose dtype then gets a field that is an object.
_VOID = EMPTY + b"(K\x01K\x01\x85cnumpy\ndtype\nU\x02V8K\x00K\x01\x87Rq\x01\x89U\x0812345678tb"
_FIELD = b"h\x01(K\x03U\x01|NU\x01a\x85}U\x01acnumpy\ndtype\nU\x02O8K\x00K\x01\x87RK\x00\x86sK\x08K\x01K\x10tb0"


def in_data(value: bytes, labels: bytes = b"]K\x01a") -> bytes:
    """A value where the pictures belong."""
    return PROTO + b"}(U\x04data" + value + b"U\x06labels" + labels + b"u."


def _state(state: bytes) -> bytes:
    """An array of bytes that is built from another state."""
    return in_data(EMPTY + state + b"b")


def _reduced(name: bytes, arguments: bytes = b"U\x06echo 1\x85") -> bytes:
    return in_data(b"c" + name.replace(b".", b"\n", 1) + b"\n" + arguments + b"R")


LONG_TEXT = b"X" + struct.pack("<I", 10**6) + b"a" * 10**6

HOSTILE: dict[str, bytes] = {
    "a program": _reduced(b"os.system"),
    "a program of posix": _reduced(b"posix.system"),
    "eval": _reduced(b"builtins.eval"),
    "numpy.load": _reduced(b"numpy.load"),
    "the unpickler of NumPy": _reduced(b"numpy._core.numeric._frombuffer"),
    "a name with dots": in_data(b"\x8c\x05numpy\x8c\x14ndarray.__subclasses_\x93"),
    "an array whose dtype gets objects": in_data(_VOID)[:-1] + _FIELD + b".",
    "an array whose dtype gets objects, inside": in_data(_VOID + _FIELD),
    "a dtype of objects": in_data(b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R"),
    "a dtype of fields": in_data(DTYPE.replace(b"NNNJ", b"NU\x01a\x85}J", 1)),
    "a dtype with a size": in_data(DTYPE.replace(b"J\xff\xff\xff\xff", b"J\xff\xff\xff\x7f")),
    "an array of a list": in_data(b"cnumpy._core.multiarray\n_reconstruct\nc__builtin__\nlist\nK\x00\x85U\x01b\x87R"),
    "a shape beyond its bytes": _state(b"(K\x01J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86" + DTYPE + b"\x89U\x01at"),
    "a negative shape": _state(b"(K\x01J\xff\xff\xff\xffJ\xff\xff\xff\xff\x86" + DTYPE + b"\x89U\x01at"),
    "a shape of nothing": _state(b"(K\x01K\x00K\x00\x86" + DTYPE + b"\x89U\x00t"),
    "an array that is built twice": _state(
        b"(K\x01K\x01K\x01\x86" + DTYPE + b"\x89U\x01atb(K\x01K\x01K\x01\x86h\x0b\x89U\x01at"
    ),
    "an array of text": _state(b"(K\x01K\x01K\x01\x86" + DTYPE + b"\x89X\x01\x00\x00\x00at"),
    "an array by columns": _state(b"(K\x01K\x01K\x01\x86" + DTYPE + b"\x88U\x01at"),
    "a state that is no tuple": _state(b"]"),
    "an array without a state": in_data(EMPTY),
    "a class that is built": in_data(b"cnumpy\nndarray\n}b"),
    "an instance": in_data(b"(icnumpy\nndarray\n"),
    "an object": in_data(b"(cos\nsystem\no"),
    "a new object": in_data(b"cnumpy\nndarray\n)\x81"),
    "a new object with names": in_data(b"cnumpy\nndarray\n)}\x92"),
    "an extension": in_data(b"\x82\x01"),
    "a persistent name": in_data(b"Pa\n"),
    "a persistent value": in_data(b"U\x01aQ"),
    "a buffer": in_data(b"\x97\x98"),
    "a list that holds itself": in_data(b"]q\x01h\x01a", b"]q\x02h\x02a"),
    "a dictionary that holds itself": PROTO + b"}q\x01(U\x04datah\x01U\x06labelsh\x01u.",
    "labels that are lists": in_data(b"]", b"]]a"),
    "labels that are True": in_data(b"]", b"]\x88a"),
    "a key that is a list": PROTO + b"}]]s.",
    "a key that is a deep tuple": PROTO + b"})" + b"\x85" * MANY + b"Ns.",
    "keys without values": PROTO + b"}(U\x01au.",
    "a deep list": PROTO + b"]" * MANY + b"a" * (MANY - 1) + b".",
    "a deep tuple": PROTO + b")" + b"\x85" * MANY + b".",
    "lists of lists of lists": PROTO
    + b"]q\x00"
    + b"".join(b"](" + b"h\x00" * 10 + b"eq\x00" for _ in range(200))
    + b".",
    "the same text as bytes, a thousand times": in_data(
        b"c_codecs\nencode\nq\x01" + LONG_TEXT + b"U\x06latin1\x86q\x02R" + b"](" + b"h\x01h\x02R" * 1000 + b"e"
    ),
    "text as bytes of another kind": in_data(b"c_codecs\nencode\nX\x01\x00\x00\x00aU\x03zip\x86R"),
    "text beyond bytes": in_data(b"c_codecs\nencode\nX\x03\x00\x00\x00\xe2\x82\xacU\x06latin1\x86R"),
    "two million numbers": in_data(b"](" + b"K\x01" * 2_000_000 + b"e"),
    "a string of two gigabytes": in_data(b"T\xff\xff\xff\x7f"),
    "a string of less than nothing": in_data(b"T\xff\xff\xff\xff"),
    "bytes of four gigabytes": in_data(b"B\xff\xff\xff\xff"),
    "bytes of 2^63": in_data(b"\x8e" + b"\xff" * 8),
    "a long number": in_data(b"\x8b\xff\xff\xff\x7f"),
    "a number in letters": in_data(b"I" + b"9" * 5000 + b"\n"),
    "a kept value far away": in_data(b"]r\xff\xff\xff\xffj\xff\xff\xff\xfe"),
    "a mark that is recalled": PROTO + b"(q\x00h\x00.",
    "nothing": b"",
    "an end alone": b".",
    "too many ends": PROTO + b"}uuuu.",
    "a value below a mark": PROTO + b"}(a.",
    "text that is no UTF-8": in_data(b"X\x01\x00\x00\x00\xff"),
    "a name without an end": in_data(b"c" + b"a" * 100_000),
    "a version to come": b"\x80\x09}.",
    "protocol 0": pickle.dumps({b"data": 1}, protocol=0),
    "protocol 5": pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [1]}, protocol=5),
}
