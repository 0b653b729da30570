"""Names that do not push figures off a terminal."""

import pytest

from memlake.tables.names import shorten_site, shorten_to_fit
from memlake.wording import shorten_middle


@pytest.mark.parametrize("longest", range(24, 61))
def test_a_call_site_keeps_its_line(longest):
    for text in (
        "a_very_long_file_name_of_a_model.py:1234 a_very_long_function_name_that_goes_on",
        "net.py:1234 a_very_long_function_name_that_goes_on_and_on_and_on_and_on",
        "a_very_long_file_name_of_a_model_of_somebody.py:1234 f",
        "a_very_long_file_name_of_a_model.py:1200>1234 a_very_long_function_name_that_goes_on",
    ):
        short = shorten_site(text, longest)
        assert len(short) <= longest
        assert ":1234 " in short or ":1200>1234 " in short


def test_a_short_name_stays():
    assert shorten_site("net.py:12 forward", 24) == "net.py:12 forward"
    assert shorten_middle("abc", 3) == "abc"


def test_a_text_is_cut_in_its_middle():
    assert shorten_middle("x" * 50 + "y" * 50, 11) == "xxxx...yyyy"


def test_a_table_fits_on_80_columns():
    headers = ("call site", "growth", "A", "B", "# A", "# B")
    rows = [("m" * 70 + ".py:12 " + "f" * 90, "+1023.99 MiB", "1023.99 MiB", "1023.99 MiB", "1,234", "1,234")]
    (fitted,) = shorten_to_fit(headers, rows)
    assert sum(map(len, fitted)) + 2 * 5 <= 80
    assert fitted[1:] == rows[0][1:]
