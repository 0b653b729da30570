import pytest

import memlake
from helpers.torch_snapshots import MIB, TorchJob, scattered_job
from memlake import ConfigError
from memlake.policies import CachingOptions, ExpandableOptions, LakeOptions
from memlake.trace import JobSettings, TorchVersions, caveats_of


def small_job(torch=(2, 13)):
    job = TorchJob(torch=torch)
    job.free(job.alloc(40))
    return job


@pytest.mark.parametrize(
    ("torch", "first", "last"),
    [
        ((2, 1), None, "2.1"),
        ((2, 2), "2.2", "2.2"),
        ((2, 4), "2.3", "2.5"),
        ((2, 6), "2.6", "2.7"),
        ((2, 8), "2.8", "2.9"),
        ((2, 10), "2.10", "2.11"),
        ((2, 13), "2.12", None),
    ],
)
def test_the_form_of_a_snapshot_tells_the_version(load, torch, first, last):
    settings = load(small_job(torch).snapshot()).settings
    assert settings.torch.to_json() == [first, last]
    name = "PYTORCH_ALLOC_CONF" if torch >= (2, 10) else "PYTORCH_CUDA_ALLOC_CONF"
    assert settings.line_for(ExpandableOptions()) == f"{name}=expandable_segments:True"
    # Between 2.8 and 2.9 it is not known whether the new name is read.
    assert ("PYTORCH_ALLOC_CONF" in settings.note_for(ExpandableOptions())) == (torch == (2, 8))


def test_blocks_of_torch_2_0_have_a_history(load):
    snapshot = small_job((2, 0)).snapshot()
    for block in snapshot["segments"][0]["blocks"]:
        block["history"] = []
    settings = load(snapshot).settings
    assert str(settings.torch) == "2.0"
    assert settings.note_for(ExpandableOptions()) == "in torch 2.1 or later"


def test_an_unknown_version_gets_the_name_that_all_versions_read(load):
    for settings in (JobSettings(), load(small_job().snapshot()["segments"]).settings):
        assert str(settings.torch) == "unknown"
        assert settings.line_for(CachingOptions()) == "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"
        assert "PYTORCH_ALLOC_CONF" in settings.note_for(CachingOptions())
    with pytest.raises(ConfigError, match="no allocator lake"):
        JobSettings().line_for(LakeOptions())


def test_keys_that_contradict_each_other_tell_nothing():
    raw = {"device_traces": [[{"action": "alloc", "user_metadata": ""}]]}
    assert TorchVersions.of_snapshot(raw, False) == TorchVersions()


def test_the_settings_of_the_job_become_its_policy(load):
    job = small_job()
    job.settings |= {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,per_process_memory_fraction:0.8,large_segment_size_mb:32",
        "max_split_size": 64 * MIB,
        "garbage_collection_threshold": 0.6,
    }
    assert load(job.snapshot()).settings.policy == CachingOptions(
        max_split_size=64 * MIB, garbage_collection_threshold=0.6, memory_fraction=0.8, large_segment_size=32 * MIB
    )
    job.settings["PYTORCH_CUDA_ALLOC_CONF"] = "a_key_of_tomorrow:1"
    assert load(job.snapshot()).settings.policy.memory_fraction == 1
    job.settings["expandable_segments"] = True
    assert load(job.snapshot()).settings.policy.is_expandable


def test_expandable_segments_show_themselves_without_settings(load):
    job = small_job((2, 1))
    snapshot = job.snapshot()
    snapshot["segments"][0]["is_expandable"] = True
    assert load(snapshot).settings.policy == ExpandableOptions()


def test_settings_that_pytorch_would_refuse_are_named(load):
    job = small_job()
    job.settings["max_split_size"] = 3
    trace = load(job.snapshot())
    assert trace.settings.policy == CachingOptions()
    assert "max_split_size must be" in trace.settings.trouble
    assert any("defaults were assumed" in text for text in caveats_of(trace))


def npu_snapshot(padding):
    sizes = [512, 1024, 2048]
    blocks, at = [], 2**40
    for size in sizes:
        nbytes = -(-(size + padding) // 512) * 512
        blocks.append({"address": at, "size": nbytes, "requested_size": size, "state": "active_allocated"})
        at += nbytes
    blocks.append({"address": at, "size": 2**40 + 2 * MIB - at, "requested_size": 0, "state": "inactive"})
    segment = {"device": 0, "address": 2**40, "total_size": 2 * MIB, "stream": 0, "segment_type": "small"}
    return {"segments": [segment | {"blocks": blocks}], "device_traces": []}


def test_a_snapshot_of_torch_npu_is_recognised_by_its_padding(load):
    assert load(npu_snapshot(0)).settings.accelerator == "cuda"
    trace = load(npu_snapshot(32))
    assert trace.settings.accelerator == "npu"
    assert any("The snapshot is of torch_npu, not of CUDA" in text for text in caveats_of(trace))
    named = npu_snapshot(0) | {"allocator_settings": {"PYTORCH_NPU_ALLOC_CONF": ""}}
    assert load(named).settings.accelerator == "npu"


def test_torch_npu_is_told_its_own_variable_and_only_options_that_it_documents():
    npu = JobSettings(CachingOptions(), accelerator="npu")
    assert npu.line_for(ExpandableOptions()) == "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True"
    line = npu.line_for(CachingOptions(max_split_size="64MiB"))
    assert line == "PYTORCH_NPU_ALLOC_CONF=expandable_segments:False,max_split_size_mb:64"
    assert "Ascend HDK 23.0.0" in npu.note_for(ExpandableOptions())
    assert "estimate" in npu.note_for(CachingOptions())
    for options in (ExpandableOptions(max_split_size="64MiB"), CachingOptions(roundup_power2_divisions=4)):
        assert JobSettings().can_set(options)
        assert not npu.can_set(options)
        with pytest.raises(ConfigError, match="torch_npu does not document"):
            npu.line_for(options)


def test_a_comparison_of_a_torch_npu_snapshot_names_no_variable_of_cuda(load):
    trace = load(scattered_job().snapshot() | {"allocator_settings": {"PYTORCH_NPU_ALLOC_CONF": ""}})
    found = memlake.compare(trace, policies=["caching", "expandable"])
    assert [result.outcome for result in found] == ["oom", "ok"]
    assert "set PYTORCH_NPU_ALLOC_CONF=expandable_segments:True (Ascend HDK 23.0.0 or later" in found.sentence
    assert "CUDA_ALLOC_CONF" not in str(found)
    divided = memlake.compare(trace, policies=["caching", "expandable_segments:True,max_split_size_mb:2000"])
    assert "torch_npu documents no variable that sets their options" in divided.sentence


def test_private_pools_and_other_devices_are_named(load):
    job = small_job()
    job.alloc(30, pool=(0, 1))
    snapshot = job.snapshot()
    snapshot["device_traces"].append([])
    other = dict(snapshot["segments"][0], device=3, address=2**41, blocks=[])
    snapshot["segments"].append(other)
    texts = " ".join(caveats_of(load(snapshot)))
    assert "30 MiB are held in 1 private pool ((0,1): CUDA graphs or MemPool)" in texts
    assert "This is device 0 of the snapshot; it also has device 3 (40 MiB held)" in texts


def test_a_file_that_contradicts_itself_is_said_to_do_so(load):
    job = small_job()
    job.events.append(job.events[1] | {"addr": 7, "size": 2**40})
    assert any("The file contradicts itself" in text for text in caveats_of(load(job.snapshot())))
