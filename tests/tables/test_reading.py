import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Attribute, Domain, Target, encode, read_batches, read_table

ROWS = 1000
TABLE = pa.table(
    {
        "x": np.arange(ROWS) / 8,
        "n": pa.array([None if i % 7 == 0 else i for i in range(ROWS)]),
        "c": pa.array([None if i % 5 == 0 else "abc"[i % 3] for i in range(ROWS)]),
    }
)
ENDINGS = ["csv", "parquet", "arrow", "feather", "ipc", "PARQUET"]


def write(path, table=TABLE, stream=False):
    kind = path.suffix.lower()
    if kind == ".csv":
        pa.csv.write_csv(table, path)
    elif kind == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=300)
    elif kind == ".feather":
        pa.feather.write_feather(table, path)
    else:
        opener = pa.ipc.new_stream if stream else pa.ipc.new_file
        with opener(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=300)
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_read_table(tmp_path, ending):
    assert read_table(write(tmp_path / f"t.{ending}")).equals(TABLE)
    assert read_table(str(tmp_path / f"t.{ending}")).num_rows == ROWS


def test_arrow_stream(tmp_path):
    path = write(tmp_path / "t.arrow", stream=True)
    assert read_table(path).equals(TABLE)
    assert pa.concat_tables(read_batches(path, rows=128)).equals(TABLE)


@pytest.mark.parametrize("rows", [1, 299, 300, 301, ROWS, 10 * ROWS])
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_read_batches(tmp_path, ending, rows):
    pieces = list(read_batches(write(tmp_path / f"t.{ending}"), rows=rows))
    assert [p.num_rows for p in pieces[:-1]] == [rows] * (len(pieces) - 1)
    assert 0 < pieces[-1].num_rows <= rows
    assert pa.concat_tables(pieces).equals(TABLE)


def test_empty_cells_are_null_and_na_is_a_string(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("country,x\nNA,1\n,2\nDE,\n")
    expected = {"country": ["NA", None, "DE"], "x": [1, 2, None]}
    assert read_table(path).to_pydict() == expected
    assert pa.concat_tables(read_batches(path)).to_pydict() == expected


DOMAIN = Domain(
    attributes=(
        Attribute(name="zip", kind="categorical", categories=("007", "010")),
        Attribute(name="x", kind="numeric", bounds=(0, 10), missing="own bin"),
        Attribute(name="day", kind="numeric", bounds=(0, 2e9)),
    ),
    target=Target(name="y", classes=("0", "1")),
)


def test_a_domain_gives_the_types_of_a_csv_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("zip,x,day,y\n007,1,2020-01-01,0\n010,,2020-01-02,1\n")
    assert read_table(path).column("zip").to_pylist() == [7, 10]
    for table in (read_table(path, domain=DOMAIN), next(read_batches(path, domain=DOMAIN))):
        encoded = encode(table, DOMAIN, "y")
        assert encoded.bins[:, 0].tolist() == [0, 1]
        assert encoded.bins[1, 1] == 32
        assert encoded.target.tolist() == [0, 1]


def long_csv(path, last):
    path.write_text("a\n" + "1\n" * 700_000 + last)
    return path


def test_types_that_change_far_down_a_csv_file(tmp_path):
    path = long_csv(tmp_path / "t.csv", "1.5\n")
    numeric = Domain(attributes=(Attribute(name="a", kind="numeric", bounds=(0, 2)),))
    assert sum(t.num_rows for t in read_batches(path, domain=numeric)) == 700_001
    with pytest.raises(HedgerowError, match="H115"):
        list(read_batches(path))
    regression = Domain(attributes=DOMAIN.attributes[:1], target=Target(name="a", bounds=(0, 2)))
    assert sum(t.num_rows for t in read_batches(path, domain=regression)) == 700_001


@pytest.mark.parametrize("read", [read_table, lambda path: list(read_batches(path))])
class TestRefused:
    @pytest.mark.parametrize("ending", ENDINGS)
    def test_no_such_file(self, tmp_path, read, ending):
        with pytest.raises(HedgerowError, match=r"H115.*not there"):
            read(tmp_path / f"t.{ending}")

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_empty_file(self, tmp_path, read, ending):
        path = tmp_path / f"t.{ending}"
        path.touch()
        with pytest.raises(HedgerowError, match=r"H115.*0 bytes"):
            read(path)

    @pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
    @pytest.mark.parametrize("content", [b"not a table", b"ARROW1\0\0garbage", b"PAR1....PAR1"])
    def test_corrupt_file(self, tmp_path, read, ending, content):
        path = tmp_path / f"t.{ending}"
        path.write_bytes(content)
        with pytest.raises(HedgerowError, match="H115"):
            read(path)

    @pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
    def test_truncated_file(self, tmp_path, read, ending):
        path = write(tmp_path / f"t.{ending}")
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(HedgerowError, match="H115"):
            read(path)

    def test_offsets_outside_the_file(self, tmp_path, read):
        path = write(tmp_path / "t.arrow", pa.table({"a": ["x" * 12_345, "y"]}))
        good = np.array([0, 12_345, 12_346], dtype=np.int32).tobytes()
        bad = np.array([0, 99_999, 12_346], dtype=np.int32).tobytes()
        content = path.read_bytes()
        assert content.count(good) == 1
        path.write_bytes(content.replace(good, bad))
        with pytest.raises(HedgerowError, match="H115"):
            read(path)

    def test_csv_with_a_short_line(self, tmp_path, read):
        path = tmp_path / "t.csv"
        path.write_text("a,b\n1,2\n3\n")
        with pytest.raises(HedgerowError, match="H115"):
            read(path)

    @pytest.mark.parametrize("content", [b"a\xff,b\n1,2\n", b"a,b\n\xff,2\n"])
    def test_csv_that_is_not_utf8(self, tmp_path, read, content):
        path = tmp_path / "t.csv"
        path.write_bytes(content)
        with pytest.raises(HedgerowError, match=r"H904.*--encoding latin-1"):
            read(path)

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_no_rows(self, tmp_path, read, ending):
        with pytest.raises(HedgerowError, match="H105"):
            read(write(tmp_path / f"t.{ending}", TABLE.slice(0, 0)))

    @pytest.mark.parametrize("name", ["t.xlsx", "t", "t.pkl"])
    def test_unknown_ending(self, tmp_path, read, name):
        (tmp_path / name).write_text("a\n1\n")
        with pytest.raises(HedgerowError, match=r"H115.*ending in .csv"):
            read(tmp_path / name)

    def test_folder(self, tmp_path, read):
        (tmp_path / "t.csv").mkdir()
        with pytest.raises(HedgerowError, match=r"H115.*not a file"):
            read(tmp_path / "t.csv")


def test_duplicate_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,a\n1,2\n")
    domain = Domain(attributes=(Attribute(name="a", kind="numeric", bounds=(0, 9)),))
    with pytest.raises(HedgerowError, match="H106"):
        encode(read_table(path), domain)


def test_rows_must_be_positive(tmp_path):
    with pytest.raises(HedgerowError, match="H501"):
        read_batches(write(tmp_path / "t.csv"), rows=0)


def test_a_cell_that_does_not_fit_its_column_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('c,"x, y"\na,1\nb,it\'s 2\n')
    domain = Domain(attributes=(Attribute(name="x, y", kind="numeric", bounds=(0, 9), bins=3),))
    with pytest.raises(HedgerowError, match="H115") as caught:
        list(read_batches(path, domain=domain))
    assert """the value "it's 2" in column 'x, y'""" in caught.value.found
    assert "check the column's kind" in caught.value.fix
    # Without a domain, by what the first block of the file looks like.
    path.write_text("a,x\n" + "1,2\n" * 400_000 + "1,z\n")
    with pytest.raises(HedgerowError, match=r"H115.*the value 'z' in column 'x'"):
        list(read_batches(path))


def test_a_line_of_another_length_is_said_to_be_that(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n1,2,3\n4,5\n")
    with pytest.raises(HedgerowError) as caught:
        read_table(path)
    assert caught.value.code is Code.UNREADABLE_FILE
    assert "3 cells in every line" in caught.value.expected
    assert "got 2" in caught.value.found
