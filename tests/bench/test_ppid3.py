"""The cipher that vertical ID3 is compared with does the same, in a group that is one."""

import numpy as np
import pytest
from nacl.bindings import crypto_scalarmult_ed25519_base_noclamp

from bench.__main__ import names
from bench.ppid3 import modp
from bench.ppid3 import proof as exponent
from bench.ppid3.modp import ModpCipher, P, Q
from hedgerow.crypto.commutative import CipherKey
from hedgerow.errors import Code, HedgerowError


def is_probable_prime(n: int) -> bool:
    return all(pow(base, n - 1, n) == 1 for base in (2, 3, 5))


def test_the_group_is_that_of_a_safe_prime() -> None:
    assert P.bit_length() == 2048
    assert is_probable_prime(P)
    assert is_probable_prime(Q)


@pytest.mark.parametrize("bits", [2048, 256])
def test_it_commutes_and_comes_undone(bits: int) -> None:
    cipher = ModpCipher(bits)
    elements = cipher.hash([b"a", b"b", b"c"], "test")
    a, b = cipher.new_key(), cipher.new_key()
    both = cipher.encrypt(a, cipher.encrypt(b, elements))
    assert np.array_equal(both, cipher.encrypt(b, cipher.encrypt(a, elements)))
    back = CipherKey(pow(a.secret * b.secret, -1, Q))
    assert np.array_equal(cipher.encrypt(back, both), elements)
    assert a.secret < 1 << bits
    cipher.check(both, "nobody")


def test_what_is_no_square_is_refused() -> None:
    # P is 7 modulo 8 and -1 no square.
    for x in (0, 1, P - 1, P, P - 4):
        with pytest.raises(HedgerowError, match="site 2") as caught:
            ModpCipher().check(modp._rows([x]), "site 2")
        assert caught.value.code is Code.BAD_ELEMENT


def test_pow_takes_the_place_of_gmpy2(monkeypatch: pytest.MonkeyPatch) -> None:
    cipher = ModpCipher(64)
    elements, key = cipher.hash([b"a", b"b"], "test"), cipher.new_key()
    expected = cipher.encrypt(key, elements)
    monkeypatch.setattr(modp, "gmpy2", None)
    assert np.array_equal(cipher.encrypt(key, elements), expected)
    cipher.check(elements, "nobody")


def test_a_proof_of_one_exponent_holds_and_one_of_two_does_not() -> None:
    key, before = exponent.new_scalar(), exponent.points(5)
    public = crypto_scalarmult_ed25519_base_noclamp(key)
    after = exponent.encrypt(key, before)
    proof = exponent.prove(key, before, after)
    assert exponent.holds(proof, public, before, after)
    mixed = [*after[:4], *exponent.encrypt(exponent.new_scalar(), before[4:])]
    forged = exponent.prove(key, before, mixed)
    assert not exponent.holds(forged, public, before, mixed)
    assert not exponent.holds(proof, public, before, mixed)
    # The proof pairs elements with elements: a shuffle needs another one.
    assert not exponent.holds(proof, public, before, after[::-1])


def test_the_benchmark_is_listed_and_its_parts_are_not() -> None:
    assert "ppid3" in names()
    assert not {"modp", "proof"} & set(names())
