"""The manifest of a package: from its text to Android's binary form, and back.

A package without a table of resources needs Android's own alone: attributes by their names, and references such as
`@android:style/Theme.Material` or `@0x01030224` (see attributes.py).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element
from xml.parsers import expat
from xml.sax.saxutils import escape

from edgemem.android import binary_xml
from edgemem.android.attributes import (
    ATTRIBUTES,
    BOOLEAN,
    COLOR,
    ENUMERATION,
    FLAGS,
    FLOAT,
    INTEGER,
    NAMES,
    RESOURCES,
    STRING,
    Known,
)
from edgemem.android.binary_xml import ANDROID, MOST_DEPTH, Attribute, Node, Value
from edgemem.errors import ApkError
from edgemem.system.text import short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ANDROID", "decode", "encode", "quoted"]

# Types of Android's Res_value.
_NULL, _REFERENCE, _THEME, _TEXT, _FLOAT, _DECIMAL, _HEX, _BOOLEAN = 0x00, 0x01, 0x02, 0x03, 0x04, 0x10, 0x11, 0x12
_COLORS: Final = {8: 0x1C, 6: 0x1D, 4: 0x1E, 3: 0x1F}  # by the number of hexadecimal digits
_TRUE: Final = 0xFFFFFFFF
_ANY: Final = Known(0, STRING | INTEGER | BOOLEAN)  # of an attribute that is not Android's
_TEXTS: Final = ("package", "split")  # such attributes that are text, whatever it looks like
_SPECIAL: Final = ("@", "?", "#", "\\")  # text that begins with one of them has a `\` before it
_SEPARATOR: Final = "\n"  # of a namespace and a name; neither has it


def encode(xml: str) -> bytes:
    """The binary form of a manifest's text.

    A value gets the type that its attribute has: text, boolean, number, one or several of its names, color, reference
    (see `quoted` for text that looks like another type). Raises ApkError, with the line, for text that is no XML or has
    more than elements and attributes, and for an attribute or value that edgemem or Android does not know.
    """
    parser = expat.ParserCreate("utf-8", _SEPARATOR)
    tree = _Tree(parser)
    try:
        parser.Parse(xml.encode("utf-8"), True)
    except expat.ExpatError as e:
        raise ApkError(f"the manifest is no XML: {expat.ErrorString(e.code)} in line {e.lineno}") from None
    except UnicodeEncodeError:
        raise ApkError("the manifest is no Unicode text") from None
    return binary_xml.write(tree.root())


def quoted(text: str) -> str:
    """The text as it stands between quotation marks in what `encode` takes, where it becomes a value that is text."""
    is_special = text[:1] in _SPECIAL
    return escape(f"\\{text}" if is_special else text, {'"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def decode(axml: bytes) -> Element:
    """The elements of a binary manifest; Android's attributes are `{http://schemas.android.com/apk/res/android}name`.

    Values are text as `encode` takes it: a value with names is a number, and a reference is `@0x` and eight digits.
    Raises ApkError if it is damaged, or has a value of a type that manifests do not have.
    """
    return _element(binary_xml.read(axml))


class _Tree:
    """The nodes of a text while it is parsed."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self._root: Node | None = None
        self._open: list[Node] = []
        parser.ordered_attributes = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._document_type

    def root(self) -> Node:
        assert self._root is not None  # the parser takes no text without an element
        return self._root

    def _error(self, why: str) -> ApkError:
        return ApkError(f"the manifest's line {self._parser.CurrentLineNumber} {why}")

    def _start(self, name: str, pairs: Sequence[str]) -> None:
        if _SEPARATOR in name:
            raise self._error(f"has an element of the namespace {short_repr(name.rpartition(_SEPARATOR)[0])}")
        if len(self._open) == MOST_DEPTH:
            raise self._error(f"has elements nested more than {MOST_DEPTH} deep")
        attributes = tuple(self._attribute(*pair) for pair in zip(pairs[::2], pairs[1::2], strict=True))
        node = Node(name, attributes, [], self._parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(node)
        self._root = self._root or node
        self._open.append(node)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if text.strip():
            raise self._error(f"has text that is in no attribute: {short_repr(text.strip())}")

    def _document_type(self, *_: object) -> None:
        raise self._error("declares a document type, which a manifest does not have")

    def _attribute(self, full: str, text: str) -> Attribute:
        space, _, name = full.rpartition(_SEPARATOR)
        if space not in ("", ANDROID):
            raise self._error(
                f"has the attribute {short_repr(name)} of the namespace {short_repr(space)}; only Android's are known"
            )
        known = ATTRIBUTES.get(name) if space else _ANY
        if known is None:
            raise self._error(f"has the attribute {short_repr('android:' + name)}, which edgemem does not know")
        value = Value(_TEXT, 0, text) if not space and name in _TEXTS else _value(text, known)
        if value is None:
            names = f"; it is one of {', '.join(known.names)}" if known.names else ""
            raise self._error(f"gives {short_repr(name)} the value {short_repr(text)}, which it cannot have{names}")
        return Attribute(name, value, known.number or None, bool(space))


def _value(text: str, known: Known) -> Value | None:
    """The typed value of an attribute's text; None if the attribute cannot have it."""
    form = known.format
    if text[:1] == "@":
        return _reference(text)
    if text[:1] == "?":
        return _numbered(_THEME, text[1:])
    if form & COLOR and text[:1] == "#":
        return _color(text[1:])
    if form & BOOLEAN and text in ("true", "false"):
        return Value(_BOOLEAN, _TRUE if text == "true" else 0)
    if form & (ENUMERATION | FLAGS) and (named := _named(text, known)):
        return named
    if form & (INTEGER | ENUMERATION | FLAGS) and (number := _integer(text)):
        return number
    if form & FLOAT and re.fullmatch(r"-?\d+(\.\d+)?(e-?\d\d?)?", text, re.ASCII):
        return Value(_FLOAT, *struct.unpack("<I", struct.pack("<f", float(text)))) if abs(float(text)) < 3e38 else None
    if form & STRING:
        return Value(_TEXT, 0, text[1:] if text[:1] == "\\" and text[1:2] in _SPECIAL else text)
    return None


def _reference(text: str) -> Value | None:
    if text == "@null":
        return Value(_NULL)
    if text.startswith("@android:"):
        number = RESOURCES.get(text.removeprefix("@android:"))
        return Value(_REFERENCE, number) if number is not None else None
    return _numbered(_REFERENCE, text[1:])


def _numbered(kind: int, text: str) -> Value | None:
    """A reference by its number, of eight hexadecimal digits."""
    return Value(kind, int(text, 16)) if re.fullmatch(r"0x[0-9a-fA-F]{8}", text) else None


def _color(digits: str) -> Value | None:
    kind = _COLORS.get(len(digits))
    if kind is None or not re.fullmatch(r"[0-9a-fA-F]+", digits):
        return None
    full = digits if len(digits) > 4 else "".join(2 * d for d in digits)
    return Value(kind, int(full.rjust(8, "f"), 16))


def _named(text: str, known: Known) -> Value | None:
    """The value of one of the attribute's names, or of several with `|` between them where they are flags."""
    parts = [part.strip() for part in text.split("|")] if known.format & FLAGS else [text]
    if not all(part in known.names for part in parts):
        return None
    value = 0
    for part in parts:
        value |= known.names[part] & 0xFFFFFFFF
    return Value(_HEX if known.format & FLAGS else _DECIMAL, value)


def _integer(text: str) -> Value | None:
    """A number of 32 bits, with or without a sign; `0x` before hexadecimal digits."""
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}", text):
        return Value(_HEX, int(text, 16))
    if re.fullmatch(r"-?\d{1,10}", text, re.ASCII) and -(1 << 31) <= int(text) < 1 << 31:
        return Value(_DECIMAL, int(text) & 0xFFFFFFFF)
    return None


def _element(node: Node) -> Element:
    attributes = {}
    for a in node.attributes:
        known = NAMES.get(a.number or 0, a.name)
        if known != a.name or (a.is_android and a.name in ATTRIBUTES and ATTRIBUTES[a.name].number != a.number):
            raise ApkError(f"the manifest is damaged: the attribute {short_repr(a.name)} has another one's number")
        is_text = not a.is_android and a.name in _TEXTS
        attributes[f"{{{ANDROID}}}{a.name}" if a.is_android else a.name] = _shown(a.value, a.name, is_text=is_text)
    element = Element(node.name, attributes)
    element.extend([_element(child) for child in node.children])
    return element


def _shown(value: Value, name: str, *, is_text: bool) -> str:
    """A value as the text that `encode` takes."""
    kind, data = value.kind, value.data
    if value.text is not None:
        return f"\\{value.text}" if value.text[:1] in _SPECIAL and not is_text else value.text
    if kind == _NULL and data == 0:
        return "@null"
    if kind in (_REFERENCE, _THEME):
        return f"{'@' if kind == _REFERENCE else '?'}0x{data:08x}"
    if kind == _FLOAT:
        return repr(struct.unpack("<f", struct.pack("<I", data))[0])
    if kind == _DECIMAL:
        return str(data - (data >> 31 << 32))
    if kind == _HEX:
        return f"0x{data:x}"
    if kind == _BOOLEAN:
        return "true" if data else "false"
    if kind in _COLORS.values():
        return f"#{data:08x}"
    raise ApkError(f"the attribute {short_repr(name)} of the manifest has a value of an unknown type {kind:#04x}")
