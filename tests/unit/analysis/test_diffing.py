"""What grew between two snapshots, or between two steps of one."""

import json
import pickle

import pytest

import memlake
from helpers.torch_snapshots import MIB, TorchJob, late_job
from memlake import ConfigError, Trace
from memlake.trace import Op, load_example

NET = "/home/a/job/net.py:{} forward"


def job_of(parts, **options):
    """A job that keeps what its parts allocate: {call site: [MiB, ...]}."""
    job = TorchJob(4096, **options)
    for place, sizes in parts.items():
        for mib in sizes:
            job.alloc_at(place, mib)
    return job


@pytest.fixture
def trace_of(tmp_path):
    def load(job, name="snapshot.pickle", **options):
        return Trace.load(job.save(tmp_path / name, **options))

    return load


def rows(growth):
    """The rows as name: (MiB in A, MiB in B, count in A, count in B, match)."""
    return {
        row.name: (row.bytes_a / MIB, row.bytes_b / MIB, row.count_a, row.count_b, row.match) for row in growth.rows
    }


def test_what_grew_comes_first_and_what_shrank_last(trace_of):
    a = trace_of(job_of({NET.format(10): [20], NET.format(20): [40, 40], "/home/a/job/net.py:5 init": [30]}))
    b = trace_of(job_of({NET.format(10): [20, 60], NET.format(20): [40], "/home/a/job/net.py:7 init": [30]}))
    found = memlake.diff(a, b)
    assert [row.growth // MIB for row in found.end] == [60, 0, -40]
    assert rows(found.end) == {
        "net.py:10 forward": (20, 80, 1, 2, "same"),
        "net.py:7 init": (30, 30, 1, 1, "moved"),
        "net.py:20 forward": (80, 40, 2, 1, "same"),
    }
    assert (found.end.growth, found.a.end_live, found.b.end_live) == (20 * MIB, 130 * MIB, 150 * MIB)
    assert found.end.rows == found.peak.rows
    assert found.scope == "job"
    assert repr(found) == "<memlake.Diff: peak +20 MiB, end +20 MiB>"


def test_the_peak_and_the_end_are_compared_apart(trace_of):
    first, second = job_of({NET.format(10): [50]}), job_of({NET.format(10): [50]})
    second.free(second.alloc_at(NET.format(90), 200))
    found = memlake.diff(trace_of(first), trace_of(second))
    assert found.peak.growth == 200 * MIB
    assert found.end.growth == 0
    assert "Live at the end: 50 MiB in A, 50 MiB in B: the same." in found.sentence
    assert rows(found.peak)["net.py:90 forward"] == (0, 200, 0, 1, "only in B")


def test_a_peak_in_another_part_of_the_program_is_said_to_be_one(trace_of):
    a = trace_of(job_of({NET.format(10): [50], "/home/a/job/opt.py:3 step": [20]}))
    b = trace_of(job_of({"/home/a/job/opt.py:3 step": [20], NET.format(10): [60]}))
    found = memlake.diff(a, b)
    assert not found.peak.is_reached_alike
    assert "The peak was reached by opt.py:3 step in A and by net.py:10 forward in B" in str(found)
    assert memlake.diff(a, a).peak.is_reached_alike


def test_a_program_in_another_folder_is_compared_and_the_folders_are_named(trace_of):
    a = trace_of(job_of({NET.format(10): [20]}))
    b = trace_of(job_of({"/srv/b/job/net.py:14 forward": [50]}))
    found = memlake.diff(a, b)
    assert rows(found.end) == {"net.py:14 forward": (20, 50, 1, 1, "moved")}
    assert found.folders == (("/home/a", "/srv/b"),)
    assert "/home/a in A is taken for /srv/b in B." in found.notes
    assert "net.py:10>14 forward" in str(found)


def test_a_site_that_has_nothing_live_in_one_file_is_not_new_there(trace_of):
    first = job_of({NET.format(20): [50]})
    first.free(first.alloc_at(NET.format(10), 20))
    found = memlake.diff(trace_of(first), trace_of(job_of({NET.format(10): [20], NET.format(20): [50]})))
    assert rows(found.end)["net.py:10 forward"] == (0, 20, 0, 1, "same")


def test_the_same_file_twice_differs_in_nothing(tmp_path):
    path = job_of({NET.format(10): [20]}).save(tmp_path / "one.pickle")
    found = memlake.diff(path, str(path))
    assert found.is_same
    assert found.sentence == "A and B record the same: nothing differs."
    assert {row.growth for row in found.end} == {0}
    assert "nothing differs" in str(found)


def test_a_state_has_an_end_and_no_peak(trace_of):
    state = job_of({NET.format(10): [20]})
    state.events.clear()
    found = memlake.diff(trace_of(state), trace_of(job_of({NET.format(10): [70]})))
    assert found.peak is None
    assert found.scope == ""
    assert found.a.peak_live is None
    assert rows(found.end) == {"net.py:10 forward": (20, 70, 1, 1, "same")}
    assert found.notes[0] == "A has no history, so the peaks are not known. Only the ends are compared."
    assert json.loads(json.dumps(found.to_json()))["peak"] is None


def test_a_late_recording_knows_only_the_peak_of_its_part(trace_of):
    found = memlake.diff(trace_of(late_job()), trace_of(job_of({NET.format(10): [70]})))
    assert found.scope == "recorded part"
    assert "The history of A lacks the beginning" in found.notes[0]
    assert "of the recorded parts" in str(found)


def test_files_without_stacks_are_compared_by_size(trace_of):
    a, b = (
        trace_of(job_of({NET.format(10): sizes}, stacks=stacks)) for sizes, stacks in (([20, 20], False), ([20, 40], 1))
    )
    found = memlake.diff(a, b)
    assert found.end.by == "size"
    assert rows(found.end) == {
        "16 MiB to 32 MiB": (40, 20, 2, 1, "same"),
        "32 MiB to 64 MiB": (0, 40, 0, 1, "same"),
    }
    assert "A has no call sites, so allocations are compared by their sizes." in found.notes
    assert "(no stack recorded)" not in str(found)


def test_a_file_with_tags_in_place_of_stacks_is_compared_by_tags(trace_of):
    a = trace_of(job_of({NET.format(10): [20]}))
    b = trace_of(job_of({NET.format(12): [50]})).without_context()
    found = memlake.diff(a, b)
    assert rows(found.end) == {"net.py:12 forward": (20, 50, 1, 1, "moved")}
    assert "B has tags in place of stacks, so both files are compared by their tags." in found.notes


def test_a_low_share_of_known_call_sites_is_said(trace_of):
    job = TorchJob()
    job.is_recording = False
    job.alloc(300)
    job.is_recording = True
    job.alloc(40)
    job.free(job.alloc(20))
    found = memlake.diff(trace_of(job), trace_of(job_of({NET.format(10): [20]})))
    assert any(note.startswith("The call site is known for 12 % of the bytes in A and 100 %") for note in found.notes)


def test_settings_that_differ_are_listed(trace_of):
    first, second = job_of({NET.format(10): [20]}, torch=(2, 7)), job_of({NET.format(10): [20]}, torch=(2, 13))
    second.settings = second.settings | {
        "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
        "max_split_size": 64 * MIB,
        "roundup_power2_divisions": second.settings["roundup_power2_divisions"] | {"256": 4},
        "trace_alloc_overflowed": False,
    }
    changes = {change.name: (change.a, change.b) for change in memlake.diff(trace_of(first), trace_of(second)).changes}
    assert changes["torch"] == ("2.6 to 2.7", "2.12 or later")
    assert changes["max_split_size"] == ("-1", str(64 * MIB))
    assert changes["roundup_power2_divisions.256"] == ("0", "4")
    assert changes["ran under"][0] == "caching"
    assert "trace_alloc_overflowed" not in changes
    assert memlake.diff(trace_of(first), trace_of(first)).changes == ()


def test_memory_that_is_held_and_not_live_is_told_apart(trace_of):
    first, second = job_of({NET.format(10): [100]}), TorchJob(4096)
    # Held twice, because the free segment of 50 MiB is too small for 100 MiB.
    for mib in (50, 90):
        second.free(second.alloc_at(NET.format(10), mib))
    second.alloc_at(NET.format(10), 100)
    found = memlake.diff(trace_of(first), trace_of(second))
    assert (found.peak.growth, found.held_growth) == (0, 140 * MIB)
    assert "PyTorch held +140 MiB at its peak, of which 140 MiB were not live" in found.sentence


def test_two_steps_of_one_file_are_compared():
    trace = load_example("train_opt-13b_lora_offload")
    steps = {step.number: step for step in memlake.overview(trace).steps}
    found = memlake.diff(trace, steps=(2, 4))
    assert (found.a.step, found.b.step, found.scope) == (2, 4, "step")
    for side in (found.a, found.b):
        assert side.peak_live == steps[side.step].peak_live
        assert side.end_live == steps[side.step].end_live
    assert found.peak.growth == steps[4].peak_live - steps[2].peak_live
    assert found.never_freed is None
    assert memlake.diff(trace, steps=(2, 2)).is_same


def test_a_leak_shows_between_two_steps():
    op = [Op.STEP, Op.ALLOCATE, Op.ALLOCATE, Op.FREE] * 3
    ids = [0, 0, 1, 0, 1, 2, 3, 2, 2, 4, 5, 4]
    trace = Trace(op, ids, [0, 4096, 1024, 0] * 3, tag=[0, 1, 2, 0] * 3, tags=["", "kept for long", "leak"])
    found = memlake.diff(trace, steps=(0, 2))
    assert [(row.name, row.growth) for row in found.end] == [("leak", 2048)]
    assert [(row.name, row.growth) for row in found.peak] == [("leak", 2048), ("kept for long", 0)]


def test_the_peak_of_a_step_is_not_what_was_live_before_it():
    # Step 1 begins by freeing 8192 bytes and never has as much again.
    op = [Op.STEP, Op.ALLOCATE, Op.STEP, Op.FREE, Op.ALLOCATE, Op.STEP, Op.ALLOCATE]
    trace = Trace(
        op, [0, 0, 1, 0, 1, 2, 2], [0, 8192, 0, 0, 4096, 0, 512], tag=[0, 1, 0, 0, 2, 0, 2], tags=["", "x", "y"]
    )
    found = memlake.diff(trace, steps=(1, 2))
    assert (found.a.peak_live, found.b.peak_live) == (8192, 4608)  # the row that begins step 1 frees nothing yet


def test_what_pytorch_held_in_a_step_is_that_of_the_step(tmp_path):
    job = TorchJob(4096)
    for mib in (20, 300, 40):
        job.free(job.alloc(mib))
    annotations = [
        {"stage": "END", "name": f"ProfilerStep#{number}", "device": 0, "time_us": event["time_us"]}
        for number, event in enumerate(one for one in job.events if one["action"] == "free_completed")
    ]
    whole = job.snapshot()
    whole["external_annotations"] = annotations
    path = tmp_path / "steps.pickle"
    path.write_bytes(pickle.dumps(whole))
    found = memlake.diff(path, steps=(0, 1))
    assert (found.a.held_peak, found.a.end_held) == (20 * MIB, 20 * MIB)
    assert (found.b.held_peak, found.b.end_held) == (320 * MIB, 320 * MIB)


@pytest.mark.parametrize("steps", [(3, 99), (99, 3)])
def test_a_step_that_the_trace_does_not_have_is_refused(steps):
    with pytest.raises(ConfigError, match="there is no step 99 in this trace; there are: "):
        memlake.diff(load_example("train_opt-13b_lora_offload"), steps=steps)


@pytest.mark.parametrize("steps", [(3,), (1, 2, 3), 3, "37", (1.5, 2), (-1, 2), (True, 1)])
def test_steps_must_be_two_numbers(steps):
    with pytest.raises(ConfigError, match="steps must be two numbers"):
        memlake.diff(load_example("train_opt-13b_lora_offload"), steps=steps)


def test_steps_of_a_trace_without_steps_are_refused(trace_of):
    with pytest.raises(ConfigError, match="the steps of this trace are not known"):
        memlake.diff(trace_of(job_of({NET.format(10): [20]})), steps=(0, 1))


def test_one_trace_alone_and_steps_of_two_are_refused(trace_of):
    trace = trace_of(job_of({NET.format(10): [20]}))
    with pytest.raises(ConfigError, match="one trace has nothing to be compared with"):
        memlake.diff(trace)
    with pytest.raises(ConfigError, match="steps are those of one trace"):
        memlake.diff(trace, trace, steps=(0, 1))


def on_device(job, number):
    """The snapshot of a job, with all that it has on another device."""
    whole = job.snapshot()
    whole["device_traces"] = [*([[]] * number), *whole["device_traces"]]
    for segment in whole["segments"]:
        segment["device"] = number
    return whole


def test_snapshots_of_different_devices_are_refused_with_the_way_to_compare_them(tmp_path):
    job = job_of({NET.format(10): [20]})
    paths = []
    for number in (0, 1):
        paths.append(tmp_path / f"device{number}.pickle")
        paths[-1].write_bytes(pickle.dumps(on_device(job, number)))
    with pytest.raises(ConfigError, match=r"A is of device 0 and B of device 1; .*--device 0,1 compares these two"):
        memlake.diff(*paths)
    chosen = [Trace.load(path, device=number) for number, path in enumerate(paths)]
    assert memlake.diff(*chosen).end.growth == 0
    assert memlake.diff(*paths, any_device=True).end.growth == 0


def test_a_device_that_both_files_have_is_proposed(tmp_path):
    small, large = job_of({NET.format(10): [20]}), job_of({NET.format(10): [20, 30, 40]})
    paths = []
    for place, (of_0, of_1) in enumerate(((small, large), (large, small))):
        one, other = on_device(of_0, 0), on_device(of_1, 1)
        whole = one | {
            "segments": [*one["segments"], *other["segments"]],
            "device_traces": [one["device_traces"][0], other["device_traces"][1]],
        }
        paths.append(tmp_path / f"{place}.pickle")
        paths[-1].write_bytes(pickle.dumps(whole))
    with pytest.raises(ConfigError, match=r"--device 0 compares device 0 of both, and --device 1,0 compares these two"):
        memlake.diff(*paths)


def test_snapshots_of_different_accelerators_are_refused(trace_of):
    cuda = job_of({NET.format(10): [20]})
    npu = job_of({NET.format(10): [20]})
    npu.settings = npu.settings | {"PYTORCH_NPU_ALLOC_CONF": ""}
    with pytest.raises(ConfigError, match="A is a snapshot of CUDA and B of torch_npu"):
        memlake.diff(trace_of(cuda), trace_of(npu))


def test_empty_traces_have_nothing_to_compare():
    empty = Trace([], [], [])
    found = memlake.diff(empty, Trace([Op.ALLOCATE], [0], [1000]))
    assert (found.a.end_live, found.b.end_live) == (0, 1024)
    both = memlake.diff(empty, Trace([], [], [], metadata={"another": 1}))
    assert both.end.sentence == "Nothing is live at the end."
    assert "nothing is live." in str(both)


def test_a_file_that_is_not_there_is_named(tmp_path):
    path = job_of({NET.format(10): [20]}).save(tmp_path / "one.pickle")
    with pytest.raises(FileNotFoundError):
        memlake.diff(path, tmp_path / "none.pickle")


def test_all_that_is_printed_is_in_the_json(trace_of):
    a = trace_of(job_of({NET.format(10): [20], NET.format(30): [10]}))
    found = memlake.diff(a, trace_of(job_of({NET.format(10): [20, 60], "/home/a/job/x.py:1 f": [10]})))
    as_json = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert as_json["end"]["rows"][0]["growth"] == 60 * MIB
    assert as_json["end"]["rows"][0]["site_b"]["file"] == "/home/a/job/net.py"
    assert as_json["peak"]["growth"] == found.peak.growth
    assert as_json["sentence"] == found.sentence
    assert [row["match"] for row in as_json["end"]["rows"]] == [row.match for row in found.end.rows]


def test_a_notebook_shows_names_of_files_as_text(trace_of):
    a, b = (trace_of(job_of({"/home/a/<b>.py:1 <script>": sizes})) for sizes in ([20], [20, 30]))
    html = memlake.diff(a, b)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_categories_are_compared(trace_of):
    weights = "/x/site-packages/torch/nn/modules/module.py:1 _apply"
    jobs = []
    for sizes in ([20], [50]):
        job = TorchJob(4096)
        for mib in sizes:
            job.alloc_at(weights, mib)
        job.alloc_at(NET.format(10), 10)
        jobs.append(trace_of(job))
    found = memlake.diff(*jobs)
    assert [(one.category, one.growth // MIB) for one in found.end.categories] == [("weights", 30), ("unknown", 0)]
