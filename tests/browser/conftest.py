"""Chromium for the tests of pages. A user without it gets a skip; continuous integration must have it."""

import os

import pytest

from browser import Browser, missing_programs


@pytest.fixture(scope="module")
def chromium():
    """One browser for all tests of a file. Each test opens its own page."""
    missing = missing_programs()
    if missing:
        reason = f"{' and '.join(missing)} not installed; on Debian: apt-get install chromium chromium-driver"
        if os.environ.get("CI") == "true":
            pytest.fail(f"continuous integration must test the pages: {reason}")
        pytest.skip(reason)
    with Browser() as browser:
        yield browser


@pytest.fixture
def opened(chromium):
    """Opens a report and waits until it has drawn everything. The page must leave the console empty."""

    def open_report(path):
        chromium.open(path)
        chromium.wait_for("document.documentElement.dataset.ready")
        return chromium

    chromium.console()
    yield open_report
    assert chromium.console() == []
