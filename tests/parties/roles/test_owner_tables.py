"""Tables at their owner: which columns, which slots."""

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.state_key import read_state_key
from hedgerow.parties.roles.owner_tables import check_public, encoded_part, make_align_key, placed
from hedgerow.tables import encode
from tests.parties.roles.upload_servers import DOMAIN, people, write_csv
from tests.parties.wire.parties_calls import refuses

KEY, OTHER = b"k" * 32, b"o" * 32


def test_whole_records_need_all_columns(tmp_path) -> None:
    path = write_csv(tmp_path / "people.csv", people())
    whole = encoded_part(path, DOMAIN, None, None)
    np.testing.assert_array_equal(whole.bins, encode(people(), DOMAIN, "ill").bins)
    less = write_csv(tmp_path / "less.csv", people().drop(["sex"]))
    refuses(Code.MISSING_COLUMN, lambda: encoded_part(less, DOMAIN, None, None))
    unlabelled = write_csv(tmp_path / "unlabelled.csv", people().drop(["ill"]))
    refuses(Code.MISSING_COLUMN, lambda: encoded_part(unlabelled, DOMAIN, None, None))


def test_parts_have_the_columns_that_are_there(tmp_path) -> None:
    path = write_csv(tmp_path / "part.csv", people().select(["sex", "id", "age"]))
    part = encoded_part(path, DOMAIN, None, "id")
    assert part.domain.names == ("age", "sex")
    assert part.target is None
    assert part.ids is not None
    both = write_csv(tmp_path / "both.csv", people().select(["ill", "id", "age"]))
    assert encoded_part(both, DOMAIN, None, "id").target is not None
    none = write_csv(tmp_path / "none.csv", people().select(["ill", "id"]))
    refuses(Code.MISSING_COLUMN, lambda: encoded_part(none, DOMAIN, None, "id"))
    refuses(Code.MISSING_COLUMN, lambda: encoded_part(both, DOMAIN, None, "name"))
    refuses(Code.MISSING_COLUMN, lambda: encoded_part(both, DOMAIN, "outcome", "id"))


def test_slots_follow_from_the_key_alone(tmp_path) -> None:
    table = people()
    turned = table.take(np.random.default_rng(1).permutation(len(table)))
    one, two = (encode(t, DOMAIN, "ill", ids="id") for t in (table, turned))
    (first, alignment), (second, same) = (placed(e, 100, KEY) for e in (one, two))
    assert alignment == same
    np.testing.assert_array_equal(first.ids, second.ids)
    np.testing.assert_array_equal(first.bins, second.bins)
    elsewhere, other = placed(one, 100, OTHER)
    assert other != alignment
    assert not np.array_equal(first.present, elsewhere.present)
    # Without a key every placement is new.
    drawn = [placed(one, 100, None)[0].present for _ in range(2)]
    assert not np.array_equal(*drawn)
    assert placed(one, 100, None)[1] == ""


def test_a_text_that_spells_a_number_is_that_id(tmp_path) -> None:
    def mark(ids) -> str:
        return placed(encode(people(), DOMAIN, "ill", ids=ids), 100, KEY)[1]

    numbers = mark(np.arange(60))
    assert mark([str(i) for i in range(60)]) == numbers
    assert mark([f"{i:02}" for i in range(60)]) != numbers


def test_repeated_ids_are_refused() -> None:
    refuses(Code.DUPLICATE_ID, lambda: encode(people(), DOMAIN, "ill", ids=np.zeros(60, int)))


@pytest.mark.parametrize("slots", [None, 7])
def test_slots_are_public(slots) -> None:
    assert check_public(DOMAIN, slots, None, None) == (slots or 100)


def test_keys_of_owners(tmp_path) -> None:
    path = tmp_path / "align.key"
    make_align_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_state_key(path)) == 32
    refuses(Code.BAD_STATE_KEY, lambda: make_align_key(path))
