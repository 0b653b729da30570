"""What `advise` recommends, what it rules out, and what it does not claim."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import memlake
from helpers.torch_snapshots import MIB, TorchJob, late_job, scattered_job
from memlake.analysis.needs import NEEDS, chosen_needs
from memlake.policies import CachingOptions, ExpandableOptions
from memlake.trace import load_example

OFFLOAD = "train_opt-13b_lora_offload"


@pytest.fixture(scope="module")
def offload():
    return load_example(OFFLOAD)


def test_a_job_that_died_of_scattered_memory_gets_a_line_that_makes_it_fit(file_of):
    path = file_of(scattered_job())
    advice = memlake.advise(path)
    assert advice.own.options == CachingOptions()
    assert (advice.own.outcome, advice.outcome) == ("oom", "ok")
    assert advice.recommendation.sentence in advice.sentence
    settings = (advice.recommendation, *advice.alternatives)
    assert "PYTORCH_ALLOC_CONF=expandable_segments:True" in [setting.line for setting in settings]
    for setting in settings:
        assert setting.saved is None
        assert "fits, where caching runs out of memory" in setting.gain
        # The line is what a replay takes, and there it fits.
        assert memlake.replay(path, setting.line).fits


def test_every_recommended_line_does_what_is_claimed(offload):
    advice = memlake.advise(offload, "64GiB")
    settings = [advice.recommendation, *advice.alternatives]
    assert 2 <= len(settings) <= 4
    for setting in settings:
        result = memlake.replay(offload, setting.line, "64GiB")
        assert result.fits
        assert result.peak_held == setting.result.peak_held
        assert setting.result.policy in ("caching", "expandable")
        assert f"{result.modelled_driver_ms / len(offload.steps):.1f} ms in the driver per step" in setting.price
    assert len({setting.line for setting in settings}) == len(settings)


def test_the_search_is_bounded_deterministic_and_each_setting_is_tried_once(offload):
    first, second = (memlake.advise(offload, "64GiB") for _ in range(2))
    assert first.to_json().keys() == second.to_json().keys()
    assert [result.options for result in first.tried] == [result.options for result in second.tried]
    assert first.recommendation == second.recommendation
    assert first.alternatives == second.alternatives
    assert 20 < len(first.tried) < 60
    assert len({result.options for result in first.tried}) == len(first.tried)
    names = {part.split(":")[0] for result in first.tried for part in result.options.to_text().split(",") if part}
    assert names == {"max_split_size_mb", "roundup_power2_divisions", "large_segment_size_mb"}


@pytest.mark.parametrize("need", NEEDS)
def test_a_need_rules_out_expandable_segments(offload, need):
    advice = memlake.advise(offload, "64GiB", needs=need)
    assert {result.policy for result in advice.tried} == {"caching"}
    assert "expandable_segments:False" in advice.recommendation.line
    (rule,) = advice.to_json()["needs"]
    assert rule["sentence"].startswith(f"{need} rules out expandable_segments:True: ")
    policies = {entry["policy"]: entry["ruled_out_by"] for entry in advice.to_json()["policies"]}
    assert policies == {"lake": [], "caching": [], "expandable": [need]}


def test_a_job_whose_own_setting_is_ruled_out_is_told_so(file_of):
    job = scattered_job()
    job.settings["expandable_segments"] = True
    path = file_of(job)
    advice = memlake.advise(path, "4GiB", needs=["wsl", "ipc", "wsl"])
    assert advice.own.options == ExpandableOptions()
    assert advice.is_ruled_out
    assert [need.name for need in advice.needs] == ["wsl", "ipc"]
    assert advice.recommendation.line.startswith("PYTORCH_ALLOC_CONF=expandable_segments:False")
    assert not memlake.advise(path, "4GiB").is_ruled_out


def test_lake_is_named_where_no_setting_of_pytorch_suffices_with_what_is_not_known_of_it(offload):
    advice = memlake.advise(offload, "59.2GiB", needs="ipc")
    assert (advice.outcome, advice.recommendation) == ("oom", None)
    assert "memlake.torch.install() makes PyTorch use it, which was not tried on a GPU yet; whether" in advice.sentence
    assert advice.sentence.endswith("whether it serves ipc is not known.")
    assert replace(advice, needs=()).sentence.endswith("which was not tried on a GPU yet.")


def test_memlake_is_named_where_it_stalls_less_often_than_the_best_setting(offload):
    advice = memlake.advise(offload, capacity="64GiB")
    setting = advice.with_memlake

    assert setting.line == "import memlake.torch; memlake.torch.install()"
    assert setting.result.policy == "lake"
    assert setting.result.stalls < advice.recommendation.result.stalls
    assert "not tried on a GPU" in setting.note
    assert setting.line in str(advice)
    assert advice.to_json()["with_memlake"]["line"] == setting.line


def test_memlake_is_not_named_where_it_is_no_better_or_not_known_to_serve(offload):
    assert memlake.advise(offload, capacity="200GiB").with_memlake is None
    assert memlake.advise(offload, capacity="64GiB", needs=["cuda-graphs"]).with_memlake is None


def test_a_job_that_fits_well_keeps_its_settings(file_of):
    job = TorchJob(4096)
    for _ in range(3):
        job.alloc(256)
    advice = memlake.advise(file_of(job), "4GiB")
    assert (advice.outcome, advice.recommendation, advice.alternatives) == ("ok", None, ())
    assert advice.sentence.startswith("Keep caching: it fits on a device of 4 GiB and holds 768 MiB.")
    assert advice.overhead == {"rounding": 0, "unused": 0, "private_pools": 0}


def test_the_overhead_and_the_distances_add_up(offload):
    advice = memlake.advise(offload, "80GiB")
    assert advice.own.ran
    overhead = advice.overhead
    assert advice.lower_bound + overhead["rounding"] + overhead["unused"] == advice.own.peak_held
    assert overhead["unused"] > 0
    for entry, result in zip(advice.to_json()["policies"], advice.comparison, strict=True):
        assert entry["over_live"] == result.peak_held - offload.peak_live > 0


def test_a_live_peak_that_does_not_fit_comes_first_with_its_call_sites(offload):
    advice = memlake.advise(offload, "50GiB")
    assert (advice.outcome, advice.tried, advice.recommendation) == ("oom", (), None)
    assert advice.sentence.startswith(
        "The job cannot fit on a device of 50 GiB under any allocator: 58.98 GiB are live at once, 8.98 GiB too much."
    )
    assert len(advice.sites) == 5
    sizes = [site.nbytes for site in advice.sites]
    assert sizes == sorted(sizes, reverse=True)
    assert "with a limit of 1 GiB" in memlake.advise(offload, "80GiB", limit="1GiB").sentence


def test_a_file_without_history_decides_nothing(file_of):
    job = TorchJob(1024)
    job.alloc(100)
    job.is_recording = False
    job.events.clear()
    advice = memlake.advise(file_of(job), "1GiB")
    assert advice.comparison.history.kind == "state"
    assert (advice.outcome, advice.tried, advice.recommendation) == ("unknown", (), None)
    assert "it cannot be known whether the job fits" in advice.sentence
    text = json.loads(json.dumps(advice.to_json()))
    assert (text["recommendation"], text["overhead"], text["tried"]) == (None, None, [])
    # That what was live does not fit is certain all the same.
    assert memlake.advise(file_of(job), "64MiB").outcome == "oom"


def test_a_history_that_begins_late_decides_nothing_about_smaller_devices(file_of):
    job = late_job()
    path = file_of(job)
    assert memlake.advise(path, "400MiB").outcome == "unknown"
    assert memlake.advise(path, "600MiB").outcome == "ok"
    # Without a capacity the answer is for what PyTorch held.
    advice = memlake.advise(path)
    assert (advice.comparison.capacity, advice.outcome) == (500 * MIB, "ok")
    assert "the most that PyTorch held in it" in advice.comparison.origin


def test_settings_that_the_jobs_pytorch_may_not_know_are_not_recommended(file_of):
    old = scattered_job()
    old.torch = (2, 5)
    advice = memlake.advise(file_of(old))
    assert all("large_segment_size_mb" not in result.options.to_text() for result in advice.tried)
    assert "Left out: large_segment_size_mb" in advice.search
    assert advice.recommendation.line.startswith("PYTORCH_CUDA_ALLOC_CONF=")
    # The version of a trace that is no snapshot is not known.
    advice = memlake.advise(load_example("train_moe"))
    assert "large_segment_size_mb" not in advice.recommendation.line
    for setting in advice.alternatives:
        assert ("large_segment_size_mb" in setting.line) == ("an older one may refuse it" in setting.note)


def test_the_threshold_of_the_garbage_collection_is_tried_only_where_it_acts(file_of):
    job = scattered_job()
    job.settings["PYTORCH_CUDA_ALLOC_CONF"] = "per_process_memory_fraction:0.9"
    advice = memlake.advise(file_of(job), "2GiB")
    assert any("garbage_collection_threshold" in result.options.to_text() for result in advice.tried)
    assert all("per_process_memory_fraction:0.9" in result.options.to_text() for result in advice.tried)


@pytest.mark.parametrize(
    "settings",
    [
        "max_split_size_mb:64",
        "max_split_size_mb:64,max_non_split_rounding_mb:64",
        "expandable_segments:True,large_segment_size_mb:64",
        "roundup_power2_divisions:4,max_split_size_mb:512",
        "large_segment_size_mb:256,max_split_size_mb:256,per_process_memory_fraction:0.5",
    ],
)
def test_the_search_starts_from_the_settings_of_the_job(file_of, settings):
    job = scattered_job()
    own = memlake.policy(settings)
    job.settings |= {"PYTORCH_CUDA_ALLOC_CONF": settings, "expandable_segments": "expandable" in settings}
    job.settings["max_split_size"] = own.max_split_size or -1
    divisions = zip(job.settings["roundup_power2_divisions"], own.roundup_power2_divisions, strict=True)
    job.settings["roundup_power2_divisions"] = dict(divisions)
    advice = memlake.advise(file_of(job), "4GiB")
    assert advice.own.options == own
    assert own in [result.options for result in advice.tried]
    if "fraction" in settings:
        assert all("per_process_memory_fraction:0.5" in result.options.to_text() for result in advice.tried)


def test_nothing_is_recommended_to_a_job_on_another_accelerator(file_of):
    trace = memlake.Trace.load(file_of(scattered_job()))
    metadata = trace.metadata | {"accelerator": "npu"}
    other = memlake.Trace(trace.op, trace.id, trace.bytes, trace.stream, metadata=metadata)
    advice = memlake.advise(other, "4GiB")
    assert (advice.outcome, advice.tried, advice.recommendation) == ("unknown", (), None)
    assert "torch_npu" in advice.sentence


def test_an_empty_trace_needs_nothing():
    advice = memlake.advise(memlake.Trace([], [], []))
    assert (advice.outcome, advice.recommendation, advice.lower_bound) == ("ok", None, 0)


def test_an_unknown_need_is_refused_with_a_suggestion(offload):
    with pytest.raises(memlake.ConfigError, match=r"there is no need 'cuda-graph'; did you mean cuda-graphs\?"):
        memlake.advise(offload, "64GiB", needs=["cuda-graph"])


def test_the_table_of_needs_in_the_documentation_is_that_of_the_code():
    page = Path(__file__).parents[3].joinpath("docs/reference/capacities.md").read_text()
    for need in chosen_needs(list(NEEDS)):
        links = [f"[{one}](https://github.com/{one.replace('#', '/issues/')})" for one in need.sources]
        assert f"| `{need.name}` | {need.reason} | {', '.join(links)} |" in page
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", source) for source in need.sources)
