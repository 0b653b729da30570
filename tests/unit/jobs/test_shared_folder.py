"""A folder with snapshots of real GPUs, which are of different jobs."""

import memlake


def test_a_folder_of_different_jobs_is_recognised(shared):
    folder = shared / "snapshots"
    found = memlake.ranks(folder).overview()
    assert len(found) == len(list(folder.glob("*.pickle")))
    assert not found.is_one_job
    assert any(what.startswith("versions of torch") for what in found.differences)
    assert any(what.startswith("programs") for what in found.differences)
    assert not found.unreadable


def test_snapshots_of_one_program_can_be_ranks_of_one_job(shared):
    job = memlake.ranks(str(shared / "snapshots" / "wedson_medium_*_training.pickle"))
    found = job.compare("24GiB")
    assert found.is_one_job
    assert [rank.label for rank in found] == [f"wedson_medium_{size}_training" for size in (256, 512, 1024)]
    assert found.worst.label == "wedson_medium_1024_training"
    for rank in found:
        assert [result.peak_held for result in rank.result] == [
            result.peak_held for result in memlake.compare(rank.file.path, "24GiB")
        ]
