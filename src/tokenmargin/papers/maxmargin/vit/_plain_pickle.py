"""Pickles read as data: numbers, strings, lists, dictionaries and arrays of bytes, by an interpreter of our own.

Python's `pickle` builds whatever a file asks for, and even one that is held to a few names of NumPy can be made to
write to memory that is not its own. Nothing is called here on behalf of a file: `pickletools` tells the opcodes apart,
the few of them below make plain values, three names of NumPy and one of Python have stand-ins that do nothing, and all
else is refused in words.
"""

from __future__ import annotations

from enum import Enum
from pickletools import genops
from typing import Any

import numpy as np

from tokenmargin.errors import InvalidInputError

#: Most bytes of a file; the largest of CIFAR-10's has 31,035,704.
MOST_BYTES = 2**27
#: Most opcodes, and so most values; a file of CIFAR-10 has about 60,000.
MOST_STEPS = 300_000


class _Name(Enum):
    """Names that a pickled array mentions; none of them is looked up."""

    RECONSTRUCT = "numpy._core.multiarray _reconstruct"
    NDARRAY = "numpy ndarray"
    DTYPE = "numpy dtype"
    ENCODE = "_codecs encode"


class _Bytes:
    """Stands for NumPy's dtype of bytes."""


class _Array:
    """Stands for an array until the end, when `value` is one: of bytes, two axes, rows one after the other."""

    value: np.ndarray | None = None


#: State that BUILD gives a dtype of bytes: the format's version, no byte order, no fields, no size of its own.
_STATE_OF_BYTES = (3, "|", None, None, None, -1, -1, 0)


def plain_values(raw: bytes) -> Any:
    """Read one pickle; what cannot be data of bytes and numbers is refused with InvalidInputError.

    Bytes and text stay what the file says; an array has dtype uint8 and two axes, and shares the memory of the file.
    """
    if len(raw) > MOST_BYTES:
        raise InvalidInputError(f"it has more than {MOST_BYTES:,} bytes, and every file of CIFAR-10 fewer")
    found = _Reading().result(raw)
    if isinstance(found, dict):  # arrays belong there, and nowhere deeper
        return {name: value.value if isinstance(value, _Array) else value for name, value in found.items()}
    return found.value if isinstance(found, _Array) else found


class _Reading:
    """One pass over the opcodes: a stack, the marks on it, and what was kept under a number."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.kept: dict[int, Any] = {}
        self.encoded = 0  #: bytes that were made of text: each call copies, and one text can be named many times

    def result(self, raw: bytes) -> Any:
        """Follow the opcodes to the last."""
        opcodes = enumerate(genops(raw))
        while True:
            try:
                count, (opcode, given, at) = next(opcodes)
            except ValueError:  # from the reader of an argument, or where the bytes end
                raise InvalidInputError("it was cut short or has text that is none: no whole pickle") from None
            if opcode.name == "STOP":
                return self.pop()
            if count == MOST_STEPS:
                raise InvalidInputError(f"it has more than {MOST_STEPS:,} opcodes, which no file of CIFAR-10 has")
            if not self.follow(opcode.name, given):
                code = opcode.code.encode("latin1")
                raise InvalidInputError(f"it has the opcode {code!r} at byte {at:,}, which CIFAR-10 has no use for")

    def follow(self, opcode: str, given: Any) -> bool:
        """Follow one opcode with what it is given; False where CIFAR-10 has no use for it."""
        match opcode:
            case "PROTO" if not 2 <= given <= 4:
                raise InvalidInputError(f"it has the version {given} of the format, and CIFAR-10 has 2")
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                self.marks.append(len(self.stack))
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE" | "NONE" | "NEWTRUE" | "NEWFALSE":
                plain = {"EMPTY_DICT": {}, "EMPTY_LIST": [], "EMPTY_TUPLE": (), "NEWTRUE": True, "NEWFALSE": False}
                self.stack.append(plain.get(opcode))
            case "BININT" | "BININT1" | "BININT2" | "BINUNICODE" | "SHORT_BINUNICODE" | "BINBYTES" | "SHORT_BINBYTES":
                self.stack.append(given)
            case "BINSTRING" | "SHORT_BINSTRING":  # Python 2's strings, which are bytes
                self.stack.append(given.encode("latin1"))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                self.stack.append(tuple([self.pop() for _ in range(int(opcode[-1]))][::-1]))
            case "TUPLE":
                self.stack.append(tuple(self.since_mark()))
            case "APPEND" | "APPENDS":
                values = [self.pop()] if opcode == "APPEND" else self.since_mark()
                self.top(list).extend(values)
            case "SETITEM" | "SETITEMS":
                self.set_items([self.pop(), self.pop()][::-1] if opcode == "SETITEM" else self.since_mark())
            case "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                self.keep(len(self.kept) if opcode == "MEMOIZE" else given)
            case "BINGET" | "LONG_BINGET":
                self.recall(given)
            case "GLOBAL":
                self.name(given)
            case "STACK_GLOBAL":
                self.stack_name()
            case "REDUCE":
                self.call()
            case "BUILD":
                self.build()
            case _:
                return False
        return True

    def pop(self) -> Any:
        """The value on top, which no mark covers."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise InvalidInputError("it takes a value where there is none: no whole pickle")
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        """The values above the last mark, which goes with them."""
        if not self.marks:
            raise InvalidInputError("it has an end without a beginning: no whole pickle")
        begin = self.marks.pop()
        values = self.stack[begin:]
        del self.stack[begin:]
        return values

    def top(self, kind: type) -> Any:
        """The value on top, which stays there and is of a kind."""
        value = self.pop()
        if type(value) is not kind:
            raise InvalidInputError(f"it fills a {kind.__name__} that is none: no whole pickle")
        self.stack.append(value)
        return value

    def keep(self, number: int) -> None:
        """Remember the value on top under a number."""
        value = self.pop()
        self.kept[number] = value
        self.stack.append(value)

    def recall(self, number: int) -> None:
        """Put a remembered value on top."""
        if number not in self.kept:
            raise InvalidInputError("it recalls what it did not keep: no whole pickle")
        self.stack.append(self.kept[number])

    def set_items(self, pairs: list[Any]) -> None:
        """Names and values, in turn, into the dictionary on top."""
        into = self.top(dict)
        if len(pairs) % 2 or not all(type(name) in (bytes, str, int) for name in pairs[::2]):
            raise InvalidInputError("it has a dictionary whose keys are no words")
        into.update(zip(pairs[::2], pairs[1::2], strict=True))

    def name(self, words: str) -> None:
        """A module and a name in it, with a blank between them, as the stand-in of a name of NumPy."""
        try:
            found = _Name(words.replace("numpy.core", "numpy._core"))
        except ValueError:
            raise InvalidInputError(
                f"it asks for {words.replace(' ', '.')}"[:120]
                + ", which CIFAR-10 has no use for and which could run a program: "
                "it was not loaded"
            ) from None
        self.stack.append(found)

    def stack_name(self) -> None:
        """The same, with both words on the stack."""
        name, module = self.pop(), self.pop()
        if type(name) is not str or type(module) is not str or len(name) + len(module) > 200:
            raise InvalidInputError("it has a name that is no text: no whole pickle")
        self.name(f"{module} {name}")

    def call(self) -> None:
        """The beginning of an array, a dtype of bytes, or text that is turned into bytes; nothing is called."""
        given, what = self.pop(), self.pop()
        arguments = given if type(given) is tuple else ()
        if what is _Name.RECONSTRUCT and len(arguments) == 3 and arguments[0] is _Name.NDARRAY:
            self.stack.append(_Array())
        elif what is _Name.DTYPE and len(arguments) == 3 and _word(arguments[0]) == "u1":
            self.stack.append(_Bytes())
        elif what is _Name.ENCODE and len(arguments) == 2 and type(arguments[0]) is str:
            self.stack.append(self.latin(arguments[0], _word(arguments[1])))
        else:
            raise InvalidInputError("it has an array of another kind than bytes, or calls something: it was not loaded")

    def latin(self, text: str, encoding: object) -> bytes:
        """Bytes that Python 3 wrote as text for Python 2."""
        self.encoded += len(text)
        if encoding != "latin1" or self.encoded > MOST_BYTES:
            raise InvalidInputError("it turns text into bytes in another way than a pickled array does")
        try:
            return text.encode("latin1")
        except UnicodeEncodeError:
            raise InvalidInputError("it has bytes beyond 255: no whole pickle") from None

    def build(self) -> None:
        """The content of an array, or of the dtype of bytes, which has none of its own."""
        state, what = self.pop(), self.pop()
        if type(what) is _Bytes and type(state) is tuple and tuple(map(_word, state)) == _STATE_OF_BYTES:
            pass
        elif type(what) is _Array and type(state) is tuple and len(state) == 5 and what.value is None:
            what.value = _rows(*state[1:])
        else:
            raise InvalidInputError("it changes something that is no array of bytes: it was not loaded")
        self.stack.append(what)


def _rows(shape: Any, dtype: Any, is_fortran: Any, raw: Any) -> np.ndarray:
    """An array of bytes over those of the file, whose number is that of its shape."""
    right = type(shape) is tuple and len(shape) == 2 and all(type(n) is int and 0 <= n <= MOST_BYTES for n in shape)
    if not right or type(dtype) is not _Bytes or type(raw) is not bytes or is_fortran is not False:
        raise InvalidInputError("it has an array that is not of bytes, with two axes, row by row")
    if shape[0] * shape[1] != len(raw):
        raise InvalidInputError(f"it has an array of shape {shape} with {len(raw):,} bytes: no whole pickle")
    return np.frombuffer(raw, np.uint8).reshape(shape)


def _word(value: Any) -> Any:
    """Bytes, which are Python 2's strings, as text; what is no single value is nothing that we know."""
    if type(value) is bytes:
        return value.decode("ascii", "replace") if len(value) < 20 else "long"
    return value if value is None or type(value) in (str, int) else "another"
