"""Tables to files: pieces become one file that reads back as it was."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.writing import check_new, write_pieces

TABLE = pa.table({"row": [1, 2, 3], "class": ["no", 'a "b", c', None], "p": [0.5, 0.25, 1.0]})
READERS = {".csv": pa.csv.read_csv, ".parquet": pa.parquet.read_table}


@pytest.mark.parametrize("ending", READERS)
def test_pieces_become_one_file(ending: str) -> None:
    file = io.BytesIO()
    assert write_pieces([TABLE.slice(0, 2), TABLE.slice(2)], file, ending) == 3
    again = READERS[ending](io.BytesIO(file.getvalue())).to_pydict()
    # CSV has no null of its own for text.
    assert again["class"][2] in (None, "")
    assert {**again, "class": again["class"][:2]} == {
        **TABLE.to_pydict(),
        "class": ["no", 'a "b", c'],
    }


def test_other_endings_are_refused() -> None:
    check_new(Path("a.CSV"))
    with pytest.raises(HedgerowError) as caught:
        check_new(Path("answers.xlsx"))
    assert caught.value.code is Code.UNREADABLE_FILE
