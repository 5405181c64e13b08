"""Pickles read as data: numbers, strings, lists, dictionaries and arrays of bytes, by an interpreter of our own.

Python's `pickle` builds whatever a file asks for, and even one that is held to a few names of NumPy can be made to
write to memory that is not its own. Nothing is called here on behalf of a file: the few opcodes below make plain
values, three names of NumPy and one of Python have stand-ins that do nothing, and all else is refused in words.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
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
    found = _Reading(raw).result()
    if isinstance(found, dict):  # arrays belong there, and nowhere deeper
        return {name: value.value if isinstance(value, _Array) else value for name, value in found.items()}
    return found.value if isinstance(found, _Array) else found


class _Reading:
    """One pass over the bytes: a stack, the marks on it, and what was kept under a number."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.kept: dict[int, Any] = {}
        self.encoded = 0  #: bytes that were made of text: each call copies, and one text can be named many times

    def result(self) -> Any:
        """Follow the opcodes to the last."""
        for _ in range(MOST_STEPS):
            code = self.take(1)
            if code == b".":
                return self.pop()
            step = _STEPS.get(code)
            if step is None:
                raise InvalidInputError(
                    f"it has the opcode {code!r} at byte {self.at - 1:,}, which CIFAR-10 has no use for"
                )
            step(self)
        raise InvalidInputError(f"it has more than {MOST_STEPS:,} opcodes, which no file of CIFAR-10 has")

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or count > len(self.raw) - self.at:
            raise InvalidInputError("it was cut short: no whole pickle")
        self.at += count
        return self.raw[self.at - count : self.at]

    def number(self, form: str) -> int:
        """The next bytes as a number of `struct`'s form."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def text(self, form: str) -> str:
        """Text after its length."""
        try:
            return self.take(self.number(form)).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise InvalidInputError("it has text that is not UTF-8: no whole pickle") from None

    def line(self) -> str:
        """Text up to the end of its line; a name has few letters."""
        end = self.raw.find(b"\n", self.at, self.at + 200)
        if end < 0:
            raise InvalidInputError("it has a name without an end: no whole pickle")
        line = self.take(end - self.at)
        self.at += 1
        return line.decode("ascii", "replace")

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

    def append(self, values: list[Any]) -> None:
        """Values to the end of the list on top."""
        self.top(list).extend(values)

    def set_items(self, pairs: list[Any]) -> None:
        """Names and values, in turn, into the dictionary on top."""
        into = self.top(dict)
        if len(pairs) % 2 or not all(type(name) in (bytes, str, int) for name in pairs[::2]):
            raise InvalidInputError("it has a dictionary whose keys are no words")
        into.update(zip(pairs[::2], pairs[1::2], strict=True))

    def name(self, module: str, name: str) -> None:
        """A name of NumPy, as its stand-in."""
        try:
            found = _Name(f"{module.replace('numpy.core', 'numpy._core')} {name}")
        except ValueError:
            raise InvalidInputError(
                f"it asks for {module}.{name}"[:120] + ", which CIFAR-10 has no use for and which could run a program: "
                "it was not loaded"
            ) from None
        self.stack.append(found)

    def stack_name(self) -> None:
        """The same, with both words on the stack."""
        name, module = self.pop(), self.pop()
        if type(name) is not str or type(module) is not str or len(name) + len(module) > 200:
            raise InvalidInputError("it has a name that is no text: no whole pickle")
        self.name(module, name)

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


def _pushing(value: Callable[[_Reading], Any]) -> Callable[[_Reading], None]:
    return lambda reading: reading.stack.append(value(reading))


def _tuple_of(count: int) -> Callable[[_Reading], Any]:
    return lambda reading: tuple([reading.pop() for _ in range(count)][::-1])


def _constant(value: Any) -> Callable[[_Reading], Any]:
    return lambda _: value


def _number(form: str) -> Callable[[_Reading], Any]:
    return lambda reading: reading.number(form)


def _bytes(form: str) -> Callable[[_Reading], Any]:
    return lambda reading: reading.take(reading.number(form))


def _text(form: str) -> Callable[[_Reading], Any]:
    return lambda reading: reading.text(form)


def _keeping(form: str) -> Callable[[_Reading], None]:
    return lambda reading: reading.keep(reading.number(form))


def _recalling(form: str) -> Callable[[_Reading], None]:
    return lambda reading: reading.recall(reading.number(form))


def _named(reading: _Reading) -> None:
    module = reading.line()
    reading.name(module, reading.line())


def _frame(reading: _Reading) -> None:
    """Read the number of bytes that follow, which is of no use here."""
    reading.take(8)


def _version(reading: _Reading) -> None:
    version = reading.number("<B")
    if not 2 <= version <= 4:
        raise InvalidInputError(f"it has the version {version} of the format, and CIFAR-10 has 2")


#: Every opcode that is followed, by its byte.
_STEPS: dict[bytes, Callable[[_Reading], None]] = {
    b"\x80": _version,
    b"\x95": _frame,
    b"(": lambda reading: reading.marks.append(len(reading.stack)),
    b"}": _pushing(lambda _: {}),
    b"]": _pushing(lambda _: []),
    b")": _pushing(_constant(())),
    b"N": _pushing(_constant(None)),
    b"\x88": _pushing(_constant(True)),
    b"\x89": _pushing(_constant(False)),
    b"K": _pushing(_number("<B")),
    b"M": _pushing(_number("<H")),
    b"J": _pushing(_number("<i")),
    b"U": _pushing(_bytes("<B")),
    b"T": _pushing(_bytes("<i")),
    b"C": _pushing(_bytes("<B")),
    b"B": _pushing(_bytes("<I")),
    b"X": _pushing(_text("<I")),
    b"\x8c": _pushing(_text("<B")),
    b"\x85": _pushing(_tuple_of(1)),
    b"\x86": _pushing(_tuple_of(2)),
    b"\x87": _pushing(_tuple_of(3)),
    b"t": _pushing(lambda reading: tuple(reading.since_mark())),
    b"a": lambda reading: reading.append([reading.pop()]),
    b"e": lambda reading: reading.append(reading.since_mark()),
    b"s": lambda reading: reading.set_items([reading.pop(), reading.pop()][::-1]),
    b"u": lambda reading: reading.set_items(reading.since_mark()),
    b"q": _keeping("<B"),
    b"r": _keeping("<I"),
    b"\x94": lambda reading: reading.keep(len(reading.kept)),
    b"h": _recalling("<B"),
    b"j": _recalling("<I"),
    b"c": _named,
    b"\x93": _Reading.stack_name,
    b"R": _Reading.call,
    b"b": _Reading.build,
}
