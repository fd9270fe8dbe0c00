"""The digits of a ratio: as many as its interval supports."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.wording import Interval, listed, number, one_in, wrapped


@pytest.mark.parametrize(
    ("ratio", "low", "high", "written"),
    [
        (1.03, 0.99, 1.13, "1.03x [0.99, 1.13]"),
        (47.2, 45.1, 49.0, "47.2x [45.1, 49.0]"),
        (1.002, 0.998, 1.006, "1.002x [0.998, 1.006]"),
        (0.0212, 0.0204, 0.0222, "0.0212x [0.0204, 0.0222]"),
        (20.0, 18.0, 22.0, "20x [18, 22]"),
        (1_234.0, 1_100.0, 1_500.0, "1,234x [1,100, 1,500]"),
        # An end stays on its side of 1, with a digit of its own.
        (1.2, 1.004, 1.5, "1.200x [1.004, 1.500]"),
        (1.0, 0.3, 9.0, "1.0x [0.3, 9.0]"),
        # At most four digits, even if an end then becomes 0 or 1.
        (1.2, 1e-5, 1.5e5, "1.200x [0.000, 150,000.000]"),
        (1.0004, 1.0001, 1.0007, "1.000x [1.000, 1.001]"),
        (1.0, 1.0, 1.0, "1.000x [1.000, 1.000]"),
        (0.123456, 0.123455, 0.123457, "0.1235x [0.1235, 0.1235]"),
    ],
)
def test_a_ratio_has_as_many_digits_as_its_interval_carries(
    ratio: float, low: float, high: float, written: str
) -> None:
    assert str(Interval(ratio, low, high)) == written


@pytest.mark.parametrize(
    ("bound", "written", "inverse"),
    [
        ("exact", "2.00x [1.90, 2.20]", "0.50x [0.45, 0.53]"),
        ("at least", "≥ 2.00x [1.90, 2.20]", "≤ 0.50x [0.45, 0.53]"),
        ("at most", "≤ 2.00x [1.90, 2.20]", "≥ 0.50x [0.45, 0.53]"),
    ],
)
def test_a_bound_keeps_its_sign_and_turns_with_the_ratio(bound: str, written: str, inverse: str) -> None:
    found = Interval(2.0, 1.9, 2.2, bound)  # type: ignore[arg-type]
    assert (str(found), str(found.inverse)) == (written, inverse)


sizes = st.floats(0.01, 100)


@given(sizes, st.floats(1.001, 3), st.floats(1.001, 3))
def test_rounding_moves_no_end_by_more_than_an_eighth_of_the_interval(ratio: float, below: float, above: float) -> None:
    found = Interval(ratio, ratio / below, ratio * above)
    step = 10.0**-found.decimals
    is_exact = found.decimals >= 3 - math.floor(math.log10(ratio))
    assert is_exact or step / 2 <= (found.high - found.low) / 8 + 1e-9
    assert float(found.ends.strip("[]").split(", ")[0].replace(",", "")) > 0 or is_exact


def test_a_line_never_ends_within_a_figure() -> None:
    line = "io_uring serves ≥ 1.03x [0.99, 1.13] the requests of epoll"
    for width in range(22, 60):
        lines = wrapped(line, width).splitlines()
        assert " ".join(lines) == line
        assert sum("≥ 1.03x [0.99, 1.13]" in each for each in lines) == 1
        assert max(map(len, lines)) <= width


def test_names_are_listed() -> None:
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("value", "digits", "written"),
    [
        (0, 2, "0"),
        (0.0000123, 2, "0.000012"),
        (0.0000001, 2, "0"),
        (-0.0000001, 2, "0"),
        (3.0, 2, "3"),
        (0.866, 2, "0.87"),
        (-0.866, 2, "-0.87"),
        (99.6, 2, "100"),
        (1_300.0, 2, "1,300"),
        # No digit before the point is lost.
        (12_345.6, 2, "12,346"),
        (999.4, 3, "999"),
        (999.6, 3, "1,000"),
        (1_234_567.0, 6, "1,234,567"),
        (1_500_000.0, 6, "1,500,000"),
        (1e20, 3, "100,000,000,000,000,000,000"),
        (math.inf, 3, "inf"),
        (math.nan, 3, "NaN"),
    ],
)
def test_a_figure_never_has_an_exponent(value: float, digits: int, written: str) -> None:
    assert number(value, digits) == written


def test_a_slope_may_be_smaller_than_a_share() -> None:
    assert number(2.5e-8) == "0"
    assert number(2.5e-8, least=1e-12) == "0.000000025"
    assert number(0.0, least=0) == "0"


@pytest.mark.parametrize(
    ("share", "written"), [(1.0, "100 %"), (0.123, "12 %"), (0.005, "1 in 200"), (2.2e-9, "1 in 454,545,455")]
)
def test_a_share_of_failures_is_written_as_one_in_so_many(share: float, written: str) -> None:
    assert one_in(share) == written
