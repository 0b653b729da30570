import shutil

import report_assets


def test_the_committed_library_is_the_one_of_npm():
    assert report_assets.differing(report_assets.ASSETS) == []


def test_a_changed_or_missing_file_is_found(tmp_path):
    for name in report_assets.FILES:
        shutil.copy(report_assets.ASSETS / name, tmp_path / name)
    (tmp_path / "uPlot.min.css").unlink()
    script = tmp_path / "uPlot.iife.min.js"
    script.write_bytes(script.read_bytes() + b"\n")
    assert report_assets.differing(tmp_path) == ["uPlot.iife.min.js", "uPlot.min.css"]
