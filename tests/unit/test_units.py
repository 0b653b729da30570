import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlake.errors import ConfigError
from memlake.units import LARGEST_SIZE, format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("size", "nbytes"),
    [
        (0, 0),
        (4096, 4096),
        (np.int64(7), 7),
        ("0", 0),
        ("4096", 4096),
        ("4GiB", 4 * 2**30),
        ("4 gib", 4 * 2**30),
        ("4G", 4 * 2**30),
        ("512MB", 512 * 10**6),
        ("512MiB", 512 * 2**20),
        ("1.5KiB", 1536),
        (" 2 TB ", 2 * 10**12),
        ("+1B", 1),
        ("24e9", 24 * 10**9),
        ("1.5E+3", 1500),
        ("2e3KiB", 2000 * 2**10),
        (LARGEST_SIZE, LARGEST_SIZE),
        (str(LARGEST_SIZE), LARGEST_SIZE),
    ],
)
def test_sizes_are_numbers_or_words(size, nbytes):
    assert parse_bytes(size) == nbytes


@pytest.mark.parametrize(
    ("size", "nbytes"), [("23.65GiB", 25393994137), ("79.15GiB", 84986665369), ("0.3B", 0), ("1.5KiB", 1536)]
)
def test_sizes_as_pytorch_prints_them_are_rounded_down_where_that_is_allowed(size, nbytes):
    assert parse_bytes(size, round_down=True) == nbytes


@pytest.mark.parametrize(("share", "nbytes"), [("50%", 512), ("100%", 1024), ("0%", 0), ("12.5 %", 128)])
def test_a_share_is_taken_from_the_whole(share, nbytes):
    assert parse_bytes(share, of=1024) == nbytes


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ("", "is not a size"),
        ("GiB", "is not a size"),
        ("4 4GiB", "is not a size"),
        ("1e", "unknown unit 'e'"),
        ("1e999", "is not a size"),
        ("1e-3", "is not a size"),
        ("nan", "is not a size"),
        ("٣GiB", "is not a size"),
        ("4GiBs", "unknown unit 'gibs'"),
        ("1.5", "not a whole number of bytes"),
        ("0.3KiB", "not a whole number of bytes"),
        ("50%", "no whole"),
        ("9" * 100, "is not a size"),
        (-1, "must not be negative"),
        ("-4GiB", "must not be negative"),
        (2**63, "larger than any memory"),
        ("9000PiB", "larger than any memory"),
        (10**400, "larger than any memory"),
        (True, "of type bool"),
        (4.0, "of type float"),
        (float("nan"), "of type float"),
        (None, "of type NoneType"),
        (b"4GiB", "of type bytes"),
    ],
)
def test_what_is_no_size_is_refused_with_the_reason(size, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        parse_bytes(size, what="memory")
    assert str(caught.value).startswith("memory ")
    assert len(str(caught.value)) < 300


def test_more_than_the_whole_is_refused():
    with pytest.raises(ConfigError, match="more than the whole"):
        parse_bytes("101%", of=1024)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (640 * 2**20, "640 MiB"),
        (10 * 2**30, "10 GiB"),
        (3 * 2**60, "3072 PiB"),
        (-(2**20), "-1 MiB"),
    ],
)
def test_bytes_are_formatted_for_people(nbytes, text):
    assert format_bytes(nbytes) == text


@given(st.integers(0, LARGEST_SIZE))
def test_what_is_written_in_bytes_is_read_back(nbytes):
    assert parse_bytes(str(nbytes)) == parse_bytes(f"{nbytes}B") == nbytes


@given(st.integers(0, 1023), st.sampled_from(["B", "KiB", "MiB", "GiB", "TiB", "PiB"]))
def test_formatting_and_parsing_agree(number, unit):
    assert parse_bytes(format_bytes(parse_bytes(f"{number}{unit}"))) == parse_bytes(f"{number}{unit}")
