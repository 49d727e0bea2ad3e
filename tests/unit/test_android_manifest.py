"""Binary manifests: what is encoded is decoded again, and damaged ones and texts that mean nothing are refused."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemem.android import binary_xml
from edgemem.android.attributes import ATTRIBUTES, BOOLEAN, ENUMERATION, FLAGS, INTEGER, RESOURCES, STRING
from edgemem.android.binary_xml import Attribute, Node, Value
from edgemem.android.manifest import ANDROID, decode, encode, quoted
from edgemem.errors import ApkError
from tests.android_packages import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cn"), exclude_characters="\ufffe\uffff"), max_size=200
)
_WORD = st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True)
_INTEGER = st.integers(-(1 << 31), (1 << 31) - 1).map(str)


def _value_of(name: str) -> st.SearchStrategy[str]:
    """Values that an attribute of Android may have, as `decode` shows them."""
    form = ATTRIBUTES[name].format
    kinds = [st.integers(0, (1 << 32) - 1).map("@0x{:08x}".format), st.just("@null")]
    if form & (INTEGER | ENUMERATION | FLAGS):
        kinds += [_INTEGER, st.integers(0, (1 << 32) - 1).map("0x{:x}".format)]
    if form & BOOLEAN:
        kinds += [st.sampled_from(("true", "false"))]
    if form == STRING:
        kinds += [_TEXT.map(lambda t: f"\\{t}" if t[:1] in tuple("@?#\\") else t)]
    return st.one_of(kinds)


@st.composite
def _elements(draw: st.DrawFn) -> Element:
    """An element as `decode` gives it."""
    names = draw(st.lists(st.sampled_from(sorted(ATTRIBUTES)), unique=True, max_size=4))
    attributes = {f"{{{ANDROID}}}{name}": draw(_value_of(name)) for name in names}
    if draw(st.booleans()):
        attributes["package"] = draw(_TEXT)
    element = Element(draw(_WORD), attributes)
    element.extend(draw(st.lists(_elements(), max_size=2)) if draw(st.integers(0, 2)) == 0 else [])
    return element


def _escaped(text: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else f"&#{ord(c)};" for c in text)


def _written(element: Element, *, is_outer: bool = True) -> str:
    """The element as text; Android's prefix is not `android`."""
    pairs = [(name.replace(f"{{{ANDROID}}}", "a:"), value) for name, value in element.attrib.items()]
    inside = "".join(_written(child, is_outer=False) for child in element)
    space = f' xmlns:a="{ANDROID}"' if is_outer else ""
    attributes = " ".join(f'{n}="{_escaped(v)}"' for n, v in pairs)
    return f"<{element.tag}{space} {attributes}>\n{inside}</{element.tag}>"


def _same(one: Element, other: Element) -> bool:
    pairs = zip(one, other, strict=True) if len(one) == len(other) else None
    return one.tag == other.tag and one.attrib == other.attrib and pairs is not None and all(_same(*p) for p in pairs)


@pytest.mark.full
@given(_elements())
def test_what_is_encoded_is_decoded_again(element: Element) -> None:
    data = encode(_written(element))
    assert _same(decode(data), element)
    assert encode(_written(element)) == data
    assert encode(_written(decode(data))) == data


def test_the_manifest_of_an_app_is_what_its_text_says() -> None:
    found = decode(encode(MANIFEST))
    expected = fromstring(MANIFEST)
    assert [e.tag for e in found.iter()] == [e.tag for e in expected.iter()]
    changed = {
        "@android:style/Theme.Material.Light.NoActionBar": "@0x01030241",
        "portrait": "1",
        "orientation|screenSize": "0x480",
    }
    for ours, given_ in zip(found.iter(), expected.iter(), strict=True):
        assert ours.attrib == {name: changed.get(value, value) for name, value in given_.attrib.items()}


def _attribute(text: str, element: str = "activity") -> Value:
    """The value that `android:...` gets."""
    node = binary_xml.read(encode(f'<{element} xmlns:android="{ANDROID}" {text}/>'))
    (attribute,) = node.attributes
    return attribute.value


@pytest.mark.parametrize(
    ("text", "kind", "data"),
    [
        ('android:exported="true"', 0x12, 0xFFFFFFFF),
        ('android:exported="false"', 0x12, 0),
        ('android:versionCode="12"', 0x10, 12),
        ('android:versionCode="-1"', 0x10, 0xFFFFFFFF),
        ('android:versionCode="0x1F"', 0x11, 31),
        ('android:glEsVersion="0x00030001"', 0x11, 0x30001),
        ('android:screenOrientation="landscape"', 0x10, 0),
        ('android:screenOrientation="unspecified"', 0x10, 0xFFFFFFFF),
        ('android:launchMode="singleInstance"', 0x10, 3),
        ('android:configChanges="keyboard|keyboardHidden"', 0x11, 0x30),
        ('android:configChanges="fontScale"', 0x11, 0x40000000),
        ('android:theme="@0x01030237"', 0x01, 0x01030237),
        ('android:theme="@android:style/Theme.Material.Light"', 0x01, 0x01030237),
        ('android:theme="@null"', 0x00, 0),
        ('android:theme="?0x01010030"', 0x02, 0x01010030),
        ('android:maxAspectRatio="2.5"', 0x04, 0x40200000),
        ('android:value="#123"', 0x1F, 0xFF112233),
        ('android:value="#4123"', 0x1E, 0x44112233),
        ('android:value="#123456"', 0x1D, 0xFF123456),
        ('android:value="#12345678"', 0x1C, 0x12345678),
        ('android:value="1"', 0x10, 1),
        ('android:value="1.0"', 0x04, 0x3F800000),
        ('android:value="true"', 0x12, 0xFFFFFFFF),
    ],
)
def test_values_have_the_types_of_their_attributes(text: str, kind: int, data: int) -> None:
    assert _attribute(text) == Value(kind, data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('android:versionName="12"', "12"),
        ('android:label="true"', "true"),
        ('android:label="\\@home"', "@home"),
        ('android:label="\\\\@home"', "\\@home"),
        ('android:label="\\n"', "\\n"),
        ('android:label=""', ""),
        ('package="12"', "12"),
        ('package="@x"', "@x"),
        ('android:value="1.x"', "1.x"),
    ],
)
def test_text_stays_text(text: str, expected: str) -> None:
    assert _attribute(text) == Value(0x03, 0, expected)


@given(_TEXT | st.sampled_from(("@a", "\\", "\\@", "#1", "?", '"<&>', "a\nb\tc\r", "\U0001f600" * 90)))
def test_quoted_text_is_the_label(text: str) -> None:
    assert _attribute(f'android:label="{quoted(text)}"').text == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<manifest", "is no XML: unclosed token in line 1"),
        ("", "is no XML: no element found"),
        ("<a></b>", "mismatched tag"),
        ("<a/><b/>", "junk after document element"),
        ('<a x="1" x="1"/>', "duplicate attribute"),
        ("<a>\n  text</a>", "text that is in no attribute: 'text'"),
        ('<a b:c="1"/>', "unbound prefix"),
        (f'<b:a xmlns:b="{ANDROID}"/>', "line 1 has an element of the namespace"),
        ('<a xmlns:tools="http://schemas.android.com/tools" tools:x="1"/>', "only Android's are known"),
        (f'<a xmlns:android="{ANDROID}" android:lable="x"/>', "'android:lable', which edgemem does not know"),
        (f'<a xmlns:android="{ANDROID}"\n android:exported="yes"/>', "gives 'exported' the value 'yes'"),
        (f'<a xmlns:android="{ANDROID}" android:exported="1"/>', "gives 'exported' the value '1'"),
        (f'<a xmlns:android="{ANDROID}" android:launchMode="single"/>', "it is one of standard, singleTop, singleTask"),
        (f'<a xmlns:android="{ANDROID}" android:configChanges="mcc|all"/>', "it is one of mcc, mnc"),
        (f'<a xmlns:android="{ANDROID}" android:versionCode="2147483648"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:versionCode="\u0661"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:versionCode="1.5"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:theme="@style/Own"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:theme="@android:style/None"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:theme="Theme"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:label="@home"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:value="#12"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:maxAspectRatio="1e99"/>', "which it cannot have"),
        (f'<a xmlns:android="{ANDROID}" android:label="{"x" * 32768}"/>', "more than 32,767 bytes"),
        ("<a>" * 33 + "</a>" * 33, "nested more than 32 deep"),
        ('<!DOCTYPE a [<!ENTITY b "bbbb">]><a/>', "declares a document type"),
        ("<a>\ud800</a>", "no Unicode"),
        ("<a" + " " * 10 + "b='" + "\x01" + "'/>", "not well-formed"),
    ],
)
def test_a_text_that_is_no_manifest_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ApkError, match=why) as error:
        encode(text)
    assert "\n" not in str(error.value)


def test_a_manifest_has_a_limit() -> None:
    children = "".join(f'<c android:name="{n:0200}"/>' for n in range(5000))
    with pytest.raises(ApkError, match="more than 1,048,576 bytes"):
        encode(f'<a xmlns:android="{ANDROID}">{children}</a>')
    with pytest.raises(ApkError, match="the most that is read is 1,048,576"):
        decode(bytes((1 << 20) + 1))


def test_names_with_numbers_come_first_and_are_not_those_without() -> None:
    """`name` is Android's attribute with a number, a plain attribute without one, and the name of an element."""
    data = encode(
        f'<name xmlns:android="{ANDROID}" name="x" android:name="y" android:label="name" android:theme="@null"/>'
    )
    node = binary_xml.read(data)
    assert node.name == "name"
    assert [(a.name, a.number, a.is_android, a.value.text) for a in node.attributes] == [
        ("theme", 0x01010000, True, None),
        ("label", 0x01010001, True, "name"),
        ("name", 0x01010003, True, "y"),
        ("name", None, False, "x"),
    ]
    at = data.index(struct.pack("<HHI", 0x0180, 8, 8 + 3 * 4))
    assert struct.unpack_from("<3I", data, at + 8) == (0x01010000, 0x01010001, 0x01010003)


def test_the_longest_texts_are_kept() -> None:
    for text in ("x" * 127, "x" * 128, "x" * 255, "x" * 32767, "\u00e4" * 16383, "\U0001f600" * 8191):
        assert _attribute(f'android:label="{text}"').text == text


def _utf16(root: Node) -> bytes:
    """The binary form with a pool of UTF-16, as aapt writes it."""
    data = binary_xml.write(root)
    kind, header, size, count, _, _, begin, _ = struct.unpack_from("<HHIIIIII", data, 8)
    assert (kind, header) == (1, 28)
    strings = binary_xml._Strings(data[8 : 8 + size], header)
    texts, offsets = b"", []
    for text in strings._strings:
        units = text.encode("utf-16-le")
        offsets.append(len(texts))
        n = len(units) // 2
        texts += (
            (struct.pack("<H", n) if n < 0x8000 else struct.pack("<HH", 0x8000 | n >> 16, n & 0xFFFF)) + units + b"\0\0"
        )
    texts += bytes(-len(texts) % 4)
    pool = struct.pack("<HHIIIIII", 1, 28, begin + len(texts), count, 0, 0, begin, 0)
    rest = pool + struct.pack(f"<{count}I", *offsets) + texts + data[8 + size :]
    return struct.pack("<HHI", 3, 8, 8 + len(rest)) + rest


def test_strings_of_utf16_are_read() -> None:
    long = Attribute("label", Value(3, 0, "\U0001f600y" * 5), 0x01010001, is_android=True)
    for root in (binary_xml.read(encode(MANIFEST)), Node("a", (long,), []), Node("b", (), [])):
        assert binary_xml.read(_utf16(root)) == root


def test_every_shorter_file_is_refused_and_every_longer_one() -> None:
    data = encode(MANIFEST)
    for end in range(len(data)):
        with pytest.raises(ApkError):
            decode(data[:end])
    for more in (b"\0", b"\0" * 4, b"more", data):
        with pytest.raises(ApkError):
            decode(data + more)


def _numbers(data: bytes) -> Iterator[int]:
    """Where the sizes, counts, offsets and places of strings are, each in four bytes."""
    yield from (0, 4)  # type and size of the header, size
    at = 8
    while at < len(data):
        kind, header, size = struct.unpack_from("<HHI", data, at)
        yield from (at, at + 4)
        if kind == 0x0001:
            (count,) = struct.unpack_from("<I", data, at + 8)
            yield from range(at + 8, at + 24, 4)
            yield from range(at + header, at + header + 4 * count, 4)
        elif kind == 0x0102:
            yield from range(at + 16, at + 32, 4)
            (count,) = struct.unpack_from("<H", data, at + 28)
            for attribute in range(at + 36, at + 36 + 20 * count, 20):
                yield from (attribute, attribute + 4, attribute + 8, attribute + 12)
        elif kind != 0x0180:
            yield at + 20
        at += size


def test_sizes_and_places_that_cannot_be_are_refused() -> None:
    data = encode(MANIFEST)
    places = list(_numbers(data))
    assert len(places) > 100
    for at in places:
        for value in (b"\xfe\xff\xff\x7f", b"\xfe\xff\xff\xff"):
            with pytest.raises(ApkError):
                decode(data[:at] + value + data[at + 4 :])


@given(st.data())
def test_hostile_bytes_raise_nothing_else(data: st.DataObject) -> None:
    content = bytearray(encode(MANIFEST))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        value = data.draw(
            st.sampled_from((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\1", b"\x80", b"\xff\x7f")) | st.binary(max_size=4)
        )
        content[at : at + len(value)] = value
    with suppress(ApkError):
        decode(bytes(content))


def _all(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _all(child)


def test_an_attribute_with_another_ones_number_is_refused() -> None:
    """Android goes by the number, and tools that show a manifest by the name."""
    wrong = Attribute("label", Value(0x12, 0xFFFFFFFF), ATTRIBUTES["debuggable"].number, is_android=True)
    with pytest.raises(ApkError, match="has another one's number"):
        decode(binary_xml.write(Node("a", (wrong,), [])))
    for number in (None, ATTRIBUTES["debuggable"].number + 0x4000):
        with pytest.raises(ApkError, match="has another one's number"):
            decode(binary_xml.write(Node("a", (Attribute("label", wrong.value, number, is_android=True),), [])))
    unknown = Attribute("unheardOf", Value(0x10, 1), 0x0101FFFF, is_android=True)
    assert decode(binary_xml.write(Node("a", (unknown,), []))).attrib == {f"{{{ANDROID}}}unheardOf": "1"}


def test_values_of_other_types_are_refused() -> None:
    for kind in (0x05, 0x06, 0x07, 0x08, 0x13, 0xFF):
        strange = Attribute("label", Value(kind, 1), ATTRIBUTES["label"].number, is_android=True)
        with pytest.raises(ApkError, match="which none has"):
            decode(binary_xml.write(Node("a", (strange,), [])))


def test_deep_nesting_is_refused() -> None:
    node = Node("a", (), [])
    for _ in range(31):
        node = Node("a", (), [node])
    assert len(list(_all(binary_xml.read(binary_xml.write(node))))) == 32
    with pytest.raises(ApkError, match="nested more than 32 deep"):
        binary_xml.read(binary_xml.write(Node("a", (), [node])))


def test_every_attribute_and_resource_can_be_named() -> None:
    numbers = [known.number for known in ATTRIBUTES.values()]
    assert len(set(numbers)) == len(numbers)
    assert all(0x01010000 <= number < 0x01020000 for number in numbers)
    for name, known in ATTRIBUTES.items():
        for value, number in known.names.items():
            assert _attribute(f'android:{name}="{value}"').data == number & 0xFFFFFFFF
    for name, number in RESOURCES.items():
        assert _attribute(f'android:icon="@android:{name}"') == Value(0x01, number)
