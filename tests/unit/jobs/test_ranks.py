"""Answers for jobs of several ranks."""

import json
import pickle
import sys

import pytest

import memlake
from helpers.torch_snapshots import roomy_job, scattered_job, state_job
from memlake.analysis import overview
from memlake.errors import ConfigError, TraceError

MIB = 2**20

pytestmark = pytest.mark.usefixtures("without_workers")


def test_ranks_are_found_without_reading_them(tmp_path):
    for rank in (10, 9):
        (tmp_path / f"rank{rank}.pickle").write_text("not read")
    job = memlake.ranks(tmp_path)
    assert [file.number for file in job] == [9, 10]
    assert (len(job), job[0].title) == (2, "rank 9")


def test_an_overview_has_one_result_per_rank_and_names_the_worst(four_ranks):
    found = memlake.ranks(four_ranks).overview()
    assert [rank.label for rank in found] == ["0", "1", "2", "3"]
    assert found[1].result == overview(four_ranks / "rank_1.pickle")
    assert found["2"] is found.worst
    assert (found.live.least, found.live.median, found.live.most) == (860 * MIB, 880 * MIB, 960 * MIB)
    assert (found.held.least_rank, found.held.most_rank) == ("0", "2")
    assert found.sentence.startswith("1 of 4 ranks ran out of memory (2).")
    assert found.verification.startswith("Verified: all ")
    with pytest.raises(KeyError):
        found[7]


def test_a_policy_fits_only_if_it_fits_on_every_rank(four_ranks):
    found = memlake.ranks(four_ranks).compare()
    assert found.capacity == 1024 * MIB
    assert "rank 2" in found.origin
    outcomes = {policy.options.name: policy.outcome for policy in found.policies}
    assert outcomes == {"caching": "oom", "lake": "ok", "expandable": "ok", "stitch": "ok", "direct": "ok"}
    caching = found.policies[0]
    assert caching.failing == ("2",)
    assert caching.held.most == 900 * MIB
    assert found.outcome == "ok"
    assert found.worst.label == "2"
    assert "all 4 ranks fit under lake, expandable, stitch and direct" in found.sentence
    assert "caching runs out of memory on 1 of 4 ranks (2)" in found.sentence
    assert "expandable_segments:True on every rank" in found.sentence
    assert found[0].result == memlake.compare(four_ranks / "rank_0.pickle", "1GiB")


def test_a_device_that_is_too_small_for_one_rank_is_too_small_for_all(four_ranks):
    found = memlake.ranks(four_ranks).compare("900MiB")
    assert found.outcome == "oom"
    assert found[0].result.outcome == "ok"
    assert "no policy fits on all 4 ranks" in found.sentence


def test_a_rank_that_cannot_be_decided_makes_the_answer_unknown(folder):
    path = folder({"rank0.pickle": roomy_job(), "rank1.pickle": state_job()})
    job = memlake.ranks(path)
    found = job.compare("1GiB")
    assert found.outcome == "unknown"
    assert {policy.undecided for policy in found.policies} == {("1",)}
    assert {policy.held.most_rank for policy in found.policies} == {"0"}
    assert "it is not known for rank 1. The file has no history" in found.sentence
    fit = job.fit()
    assert not fit.is_decided
    assert fit.undecided == ("1",)
    assert {size.min_capacity for size in fit.policies} == {None}
    advice = job.advise("1GiB")
    assert advice.outcome == "unknown"
    assert advice.recommendation is None
    assert "1 of 2 ranks cannot be decided" in advice.sentence


def test_a_certain_shortage_outweighs_a_rank_that_cannot_be_decided(folder):
    path = folder({"rank0.pickle": roomy_job(), "rank1.pickle": state_job()})
    assert memlake.ranks(path).compare("600MiB").outcome == "oom"


def test_the_smallest_device_serves_every_rank(four_ranks):
    found = memlake.ranks(four_ranks).fit()
    by_name = {size.options.name: size for size in found.policies}
    assert by_name["caching"].sizes["0"] == found[0].result["caching"].min_capacity
    assert by_name["caching"].spread.most_rank == "2"
    assert found.worst.label == "2"
    for size in found.policies:
        assert size.min_capacity >= size.spread.most
        for rank in found:
            assert memlake.replay(rank.file.path, size.options, size.min_capacity).ran
    assert found.sentence.startswith("The smallest device that serves all 4 ranks: ")


def test_one_setting_is_recommended_that_holds_for_every_rank(four_ranks):
    advice = memlake.ranks(four_ranks).advise()
    chosen = advice.recommendation
    assert advice.outcome == "ok"
    assert chosen.line == "PYTORCH_ALLOC_CONF=expandable_segments:True"
    assert chosen.rescued == ("2",)
    assert chosen.saved is None
    for rank in advice:
        result = memlake.replay(rank.file.path, chosen.options, "1GiB")
        assert result.fits
        assert chosen.settings[rank.label].result.peak_held == result.peak_held <= 960 * MIB
    assert "all 4 fit (caching runs out of memory on 2); rank 2 holds the most, 960 MiB" in chosen.gain
    # The best setting of a rank alone need not be the one for all.
    assert memlake.advise(four_ranks / "rank_0.pickle", "1GiB").recommendation is None
    for other in advice.alternatives:
        assert all(memlake.replay(rank.file.path, other.options, "1GiB").fits for rank in advice)


def test_a_job_that_fits_keeps_its_settings(folder):
    path = folder({f"rank{rank}.pickle": roomy_job(800 + 20 * rank) for rank in range(3)})
    advice = memlake.ranks(path).advise("4GiB")
    assert advice.recommendation is None
    assert advice.some_fit
    assert advice.sentence.startswith("Keep caching: all 3 ranks fit on a device of 4 GiB")


def test_a_rank_with_too_much_live_decides_the_advice(four_ranks):
    advice = memlake.ranks(four_ranks).advise("900MiB")
    assert advice.outcome == "oom"
    assert advice.worst.label == "2"
    assert "1 of 4 ranks cannot fit" in advice.sentence
    assert "train.py:12 forward" in advice.sentence


def test_needs_rule_out_settings_for_all_ranks(four_ranks):
    advice = memlake.ranks(four_ranks).advise(needs="ipc")
    settings = [advice.recommendation, *advice.alternatives]
    assert all(setting.options.name == "caching" for setting in settings if setting is not None)


def test_files_of_different_jobs_are_answered_one_by_one(folder):
    path = folder({"rank0.pickle": scattered_job(), "rank1.pickle": scattered_job(torch=(2, 5))})
    job = memlake.ranks(path)
    found = job.compare()
    assert not found.is_one_job
    assert found.notes[0].startswith("These files are of different jobs")
    assert "2.12 or later: 0; 2.3 to 2.5: 1" in found.notes[0]
    assert (found.policies, found.outcome) == ((), "ok")
    advice = job.advise()
    assert advice.recommendation is None
    assert advice[0].result.recommendation is not None
    assert job.fit().policies == ()
    assert "PYTORCH" not in found.sentence + advice.sentence


def test_a_broken_file_is_named_and_the_others_are_answered(four_ranks):
    broken = four_ranks / "rank_1.pickle"
    broken.write_bytes(broken.read_bytes()[:1000])
    (four_ranks / "rank_4.pickle").write_bytes(b"")
    found = memlake.ranks(four_ranks).compare()
    assert [rank.label for rank in found] == ["0", "2", "3"]
    assert [bad.file.number for bad in found.unreadable] == [1, 4]
    assert "rank_1.pickle" in found.unreadable[0].reason
    assert "is empty" in found.unreadable[1].reason
    assert "The files that could not be read may need more." in found.sentence
    assert "2 files could not be read" in " ".join(found.notes)


def test_files_of_which_none_can_be_read_are_an_error(tmp_path):
    (tmp_path / "rank0.pickle").write_bytes(b"")
    with pytest.raises(TraceError, match="is empty"):
        memlake.ranks(tmp_path).overview()
    (tmp_path / "rank1.pickle").write_bytes(b"\x80\x04.")
    with pytest.raises(TraceError, match="none of the 2 files can be read; the first: "):
        memlake.ranks(tmp_path).overview()


def test_missing_and_repeated_ranks_are_named(folder):
    path = folder({f"rank{rank}_it_{it}.pickle": roomy_job() for rank, it in ((0, 1), (0, 2), (3, 1))})
    notes = " ".join(memlake.ranks(path).overview().notes)
    assert "Rank 0 has more than one file" in notes
    assert "There is no file of ranks 1, 2." in notes


def test_arguments_are_checked_before_files_are_read(tmp_path):
    (tmp_path / "rank0.pickle").write_bytes(b"")
    (tmp_path / "rank1.pickle").write_bytes(b"")
    job = memlake.ranks(tmp_path)
    for arguments in ({"capacity": "much"}, {"capacity": "1GiB", "limit": "x"}, {"events": "never"}, {"reserve": 1}):
        with pytest.raises(ConfigError):
            job.compare(**arguments)
        with pytest.raises(ConfigError):
            job.advise(**arguments)
    with pytest.raises(ConfigError):
        job.compare(policies="nix")
    with pytest.raises(ConfigError):
        job.fit(events="never")
    with pytest.raises(ConfigError):
        job.advise(needs="nix")
    with pytest.raises(ConfigError, match="files must be paths"):
        memlake.ranks([3])


def test_answers_are_equal_with_workers_and_without_and_are_json(four_ranks, without_workers, monkeypatch):
    job = memlake.ranks(four_ranks)
    for ask in (job.overview, job.compare, job.fit, job.advise):
        first = ask()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", without_workers)
            assert first == ask()
        assert pickle.loads(pickle.dumps(first)) == first
        text = json.loads(json.dumps(first.to_json(), allow_nan=False))
        assert [rank["label"] for rank in text["ranks"]] == ["0", "1", "2", "3"]
        assert text["worst"] == "2"
        assert text["is_one_job"] is True
        assert text["spread"]["peak_live"]["max_rank"] == "2"
