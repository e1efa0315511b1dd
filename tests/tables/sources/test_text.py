"""No record of a file decides what becomes of another, wherever it stands and whatever it holds."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.tables import Attribute, Domain, Target, TextFormat, encode, read_batches, read_table
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.sources import text as text_module

DOMAIN = Domain(
    attributes=(Attribute(name="a", kind="numeric", bounds=(0, 120), bins=24),),
    target=Target(name="y", classes=("no", "yes")),
)
BLOCK = 1 << 20
HEADER, ROWS = b"a,y\n", b"31,no\n80,yes\n" * 50


def whole(path, **options):
    return read_table(path, domain=DOMAIN, absorbed=AbsorbedRows(), **options)


def in_batches(path, **options):
    batches = read_batches(path, domain=DOMAIN, absorbed=AbsorbedRows(), rows=700, **options)
    return pa.concat_tables(batches)


@pytest.fixture(params=[whole, in_batches])
def read(request):
    return request.param


@pytest.mark.parametrize("before", [40, 80, 119])
def test_lines_of_a_quoted_cell_on_a_border_of_blocks_take_no_other_record(tmp_path, read, before):
    path = tmp_path / "t.csv"
    filler = b"31,no,n\n"
    start = b"a,y,note\n"
    start += filler * ((BLOCK - before - len(start)) // len(filler))
    note = b'31,no,"' + b"q\n" * 60 + b'"\n'
    after = b"80,yes,n\n" * 900
    path.write_bytes(start + note + after)
    found = read(path)
    assert found.num_rows == start.count(b"\n") - 1 + 1 + 900
    assert found["y"].to_pylist().count("yes") == 900
    assert found["note"].to_pylist().count("q\n" * 60) == 1


NAMES = ["a", "y", "z"]


def written(cell, draw):
    if set(',"\r\n').intersection(cell) or draw.random() < 0.3:
        return '"' + cell.replace('"', '""') + '"'
    return cell


def random_cell(draw):
    return "".join(draw.choices('ab,"\n\r ;é', k=draw.randrange(6))) or "x"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 34, 89])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_pieces_of_any_size_give_the_records_that_were_written(
    tmp_path, monkeypatch, size, encoding
):
    draw = random.Random(size)
    rows = [[random_cell(draw) for _ in range(3)] for _ in range(60)]
    end = draw.choice(["\n", "\r\n", "\r"])
    text = "".join(",".join(written(cell, draw) for cell in row) + end for row in [NAMES, *rows])
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    monkeypatch.setattr(text_module, "_PIECE_BYTES", size)
    nothing = Domain(attributes=(Attribute(name="b", kind="numeric", bounds=(0, 1)),))
    found = read_table(path, domain=nothing, text=TextFormat(encoding=encoding))
    assert [list(row.values()) for row in found.to_pylist()] == rows


def test_a_quote_within_a_cell_opens_nothing(tmp_path, monkeypatch, read):
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,y,z\n31,no,5" pipe\n80,yes,"x" y "\n31,no,"say ""so"""\n' * 40)
    for size in (1, 7, 50, BLOCK):
        monkeypatch.setattr(text_module, "_PIECE_BYTES", size)
        found = read(path)["z"].to_pylist()
        assert found[:3] == ['5" pipe', 'x y "', 'say "so"']
        assert len(found) == 40 * 4 - 1


ODD = {
    "a long cell": (b"31," + b"x" * (5 * BLOCK // 2) + b"\n", "utf-8"),
    "a long number": (b"31" + b" " * (5 * BLOCK // 2) + b",no\n", "utf-8"),
    "zeros": (b"\0" * 30 + b",no\n", "utf-8"),
    "letters of two bytes": (b"1\0" * 20 + b",no\n", "utf-8"),
    "no character of cp1252": (b"31,\x81\n", "cp1252"),
    "no character of ASCII": (b"31,\xe9\n", "ascii"),
    "no character of UTF-8": (b"31,\xe9\n", "utf-8"),
    "zeros where lines end in a return": (b"\0" * 9000 + b",no\r", "utf-8"),
}
# As `ODD`, but with more or fewer cells than names: such a line is left out.
BROKEN = [b"31,\xe9,no\n", b"\xe9\n", b"31,no,\xc3\n", b"\xff,,,,\n", b'"\xe9"\n']


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("odd", ODD)
def test_no_record_refuses_a_file(tmp_path, read, odd, place):
    line, encoding = ODD[odd]
    before = {"first": b"", "middle": ROWS, "last": ROWS + ROWS}[place]
    after = {"first": ROWS + ROWS, "middle": ROWS, "last": b""}[place]
    path = tmp_path / "t.csv"
    content = HEADER + before + line + after
    path.write_bytes(content.replace(b"\n", b"\r") if b"\r" in line else content)
    found = read(path, text=TextFormat(encoding=encoding))
    at = before.count(b"\n")
    assert found.num_rows == 201
    others = [*range(at), *range(at + 1, 201)]
    encoded = encode(found, DOMAIN, "y", absorbed=AbsorbedRows())
    assert encoded.bins[others, 0].tolist() == [6, 15] * 100
    assert encoded.target[others].tolist() == [0, 1] * 100
    assert encoded.present[others].all()


@pytest.mark.parametrize("odd", BROKEN)
def test_a_broken_line_that_is_not_utf8_refuses_no_file(tmp_path, read, odd, capfd):
    path, absorbed = tmp_path / "t.csv", AbsorbedRows()
    for before, after in ((b"", ROWS), (ROWS, b""), (ROWS * 6000, ROWS)):
        path.write_bytes(HEADER + before + odd + after)
        assert read(path).num_rows == (before + after).count(b"\n")
    read_table(path, domain=DOMAIN, absorbed=absorbed)
    assert absorbed.broken_lines == 1
    # What it holds is nobody's business either.
    assert capfd.readouterr() == ("", "")


BYTES = rb"""\ "" "x" "a""b" a"b ' # ; , ,, - 5 no 1e999 nan 2020-13-01 0001-01-01T00:00:00+23:59"""
PIECES = [b" ", b"\t", b"\0", b"\r", b"\x0b", b"\x1a", b"9" * 400, b'"l\ni"', *BYTES.split(b" ")]
PIECES += [b"\xff", b"\xc3", b"\x85", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028\U0001f600".encode()]
PIECES.append(b'"' + b"\xe9" * 80 + b'"')


def test_no_bytes_of_a_line_change_another_record(tmp_path, monkeypatch, read):
    """Whatever is between its ends, as long as a cell that it opens is closed."""
    path, draw = tmp_path / "t.csv", random.Random(20)
    lines = [b"31,no", b'"80","yes"', b"5,no", b"6,"]

    def records(lines, encoding):
        path.write_bytes(b"\n".join([b"a,y", *lines, b""]))
        found = read(path, text=TextFormat(encoding=encoding))
        return Counter(zip(found["a"].to_pylist(), found["y"].to_pylist(), strict=True))

    for _ in range(600):
        odd = b"".join(draw.choices(PIECES, k=draw.randint(0, 8)))
        if odd.count(b'"') % 2:
            continue
        encoding = draw.choice(["utf-8", "utf-8", "latin-1", "cp1252", "shift_jis"])
        monkeypatch.setattr(text_module, "_PIECE_BYTES", draw.choice([1, 7, 40, BLOCK]))
        place = draw.randint(0, len(lines))
        more = records([*lines[:place], odd, *lines[place:]], encoding)
        assert not records(lines, encoding) - more


def test_half_a_character_of_utf16_costs_its_own_cell(tmp_path, read):
    path = tmp_path / "t.csv"
    half = "31,".encode("utf-16-le") + b"\x00\xd8" + "\n".encode("utf-16-le")
    rows = (HEADER + ROWS).decode().encode("utf-16")
    path.write_bytes(rows + half + ROWS.decode().encode("utf-16-le"))
    found = read(path, text=TextFormat(encoding="utf-16"))
    assert found.num_rows == 201
    assert found["y"].to_pylist().count("no") == 100


def test_the_names_alone_say_which_encoding_and_delimiter_a_file_has(tmp_path, read):
    path = tmp_path / "t.csv"
    for encoding in ("utf-16-le", "utf-16-be"):
        path.write_bytes((HEADER + ROWS).decode().encode(encoding))
        with pytest.raises(HedgerowError, match=f"H904.*--encoding {encoding}"):
            read(path)
    path.write_text("a;y\n31,no\n")
    with pytest.raises(HedgerowError, match="H903"):
        read(path)
    for rows in (b"31,no,1\n", b"31\n"):
        path.write_bytes(b"a,y,\xe9\n" + rows)
        with pytest.raises(HedgerowError, match=r"H904.*--encoding latin-1"):
            read(path)
    height = Domain(attributes=(Attribute(name="height | cm", kind="numeric", bounds=(0, 300)),))
    path.write_text("height | cm\n170 | 180\n180\n")
    found = read_table(path, domain=height, absorbed=AbsorbedRows())
    assert found["height | cm"].to_pylist() == [None, 180.0]


def feather(table, path):
    pyarrow.feather.write_feather(table, path, compression="uncompressed")
    return path


def parquet(table, path):
    pa.parquet.write_table(table, path)
    return path


def of_bytes(values):
    """Strings, whatever the bytes are."""
    column = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), column.buffers())


@pytest.mark.parametrize("as_dictionary", [False, True])
@pytest.mark.parametrize(("write", "ending"), [(feather, "arrow"), (parquet, "parquet")])
def test_a_label_that_is_not_utf8_refuses_no_file(tmp_path, read, write, ending, as_dictionary):
    labels = of_bytes([b"no", b"yes", b"\xff\xfe", b"no"])
    if as_dictionary:
        labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), labels)
    table = pa.table({"a": [31.0, 80.0, 3.0, 50.0], "y": labels})
    found = read(write(table, tmp_path / f"t.{ending}"))
    encoded = encode(found, DOMAIN, "y", absorbed=AbsorbedRows())
    assert encoded.present.tolist() == [True, True, False, True]
    assert encoded.target[encoded.present].tolist() == [0, 1, 0]
    if ending == "arrow":
        with pytest.raises(HedgerowError, match="H115"):
            read_table(tmp_path / "t.arrow")


def test_offsets_and_indices_outside_the_file_are_refused(tmp_path, read):
    path = feather(pa.table({"a": ["x" * 12_345, "y"]}), tmp_path / "t.arrow")
    good, bad = (np.array([0, n, 12_346], np.int32).tobytes() for n in (12_345, 99_999))
    content = path.read_bytes()
    assert content.count(good) == 1
    path.write_bytes(content.replace(good, bad))
    with pytest.raises(HedgerowError, match="H115"):
        read(path)
    labels = pa.DictionaryArray.from_arrays(
        pa.array([0, 77, 1]), pa.array(["no", "yes"]), safe=False
    )
    with pytest.raises(HedgerowError, match="H115"):
        read(feather(pa.table({"y": labels}), path))


def test_the_row_of_a_broken_line_is_counted_in_the_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER + b"31,no\n" * 200_000 + b"31\n")
    with pytest.raises(HedgerowError, match=r"H115.*Row #200002: Expected 2 columns, got 1"):
        read_table(path, domain=DOMAIN)
