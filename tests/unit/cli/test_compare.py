import json
import pickle

import pytest

from helpers.torch_snapshots import scattered_job
from memlake.cli import main

KEYS = {
    "policy",
    "outcome",
    "peak_live",
    "peak_requested",
    "peak_allocated",
    "peak_held",
    "utilization",
    "failed_event",
    "num_ooms",
    "num_alloc_retries",
    "host_waits",
    "driver_calls",
    "modelled_driver_ms",
    "ns_per_event",
    "approximate",
}
OFFLOAD = "train_opt-13b_lora_offload"


def compare(capsys, *arguments):
    code = main(["compare", *arguments])
    done = capsys.readouterr()
    assert done.err == ""
    return code, done.out


def test_the_table_ends_with_a_plain_sentence(capsys, compared_policies):
    code, out = compare(capsys, OFFLOAD, "--capacity", "64GiB")
    assert code == 0
    assert out.startswith("device 64 GiB, live peak 58.98 GiB, 124336 rows\n")
    rows = out.splitlines()[4 : 4 + len(compared_policies)]
    outcomes = [[name, "out" if name == "caching" else "fits"] for name in compared_policies]
    assert [line.split()[:2] for line in rows] == outcomes
    assert " ".join(out.split()).endswith(
        "use lake, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (torch 2.10 and later also read "
        "PYTORCH_ALLOC_CONF)."
    )
    assert max(map(len, out.splitlines())) <= 110


def test_json_has_what_checks_rely_on(capsys, compared_policies):
    code, out = compare(capsys, OFFLOAD, "--capacity", "64GiB", "--json")
    text = json.loads(out)
    assert code == 0
    assert text["trace"] == OFFLOAD
    assert [entry["policy"] for entry in text["policies"]] == compared_policies
    for entry in text["policies"]:
        assert set(entry) >= KEYS
    failed, fits = (text["policies"][compared_policies.index(name)] for name in ("caching", "expandable"))
    assert (failed["outcome"], failed["utilization"]) == ("oom", None)
    assert isinstance(failed["failed_event"], int)
    assert (fits["outcome"], fits["failed_event"]) == ("ok", None)
    assert fits["utilization"] == fits["peak_live"] / fits["peak_held"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--capacity", "64GiB"], 0),
        (["--capacity", "59GiB"], 1),
        (["--capacity", "50GiB"], 1),
        (["--capacity", "64GiB", "--policy", "caching"], 1),
        (["--capacity", str(64 * 2**30), "--policy", "expandable"], 0),
        (["--capacity", "64GiB", "--limit", "50%"], 1),
    ],
)
def test_the_exit_code_says_whether_any_fits(capsys, arguments, code):
    assert compare(capsys, OFFLOAD, *arguments, "--json")[0] == code


def test_policies_events_and_limits_are_options(capsys):
    _, out = compare(
        capsys,
        OFFLOAD,
        *("--capacity", "80GiB", "--limit", "70GiB", "--events", "lag:100", "--json"),
        *("--policy", "expandable_segments:True,max_split_size_mb:128", "--policy", "caching"),
    )
    text = json.loads(out)
    assert [(entry["policy"], entry["options"]) for entry in text["policies"]] == [
        ("expandable", "max_split_size_mb:128"),
        ("caching", ""),
    ]
    assert text["events"] == "lag:100"
    assert all(entry["limit"] == 70 * 2**30 for entry in text["policies"])
    assert any(entry["host_waits"] for entry in text["policies"])


def test_without_a_capacity_the_answer_is_for_what_the_file_implies_and_says_so(capsys):
    code, out = compare(capsys, OFFLOAD, "--policy", "caching", "--json")
    text = json.loads(out)
    _, roomy = compare(capsys, OFFLOAD, "--policy", "caching", "--capacity", "1TiB", "--json")
    held = json.loads(roomy)["policies"][0]["peak_held"]
    assert (code, text["capacity"], text["outcome"]) == (0, held, "ok")
    assert "does not tell the size of the device" in text["capacity_origin"]
    _, out = compare(capsys, OFFLOAD, "--policy", "caching")
    assert "what caching holds for it if memory is never short" in " ".join(out.split())


def test_a_gpu_may_be_named(capsys):
    _, out = compare(capsys, OFFLOAD, "--capacity", "a100-80gb", "--policy", "caching", "--json")
    text = json.loads(out)
    assert text["capacity"] == 7915 * 2**30 // 100 - 512 * 2**20
    assert text["capacity_origin"].startswith("a100-80gb has 79.15 GiB (vllm-project/vllm#4408), less 512 MiB for the")
    _, out = compare(
        capsys, OFFLOAD, "--capacity", "NVIDIA A100-SXM4-80GB", "--reserve", "0", "--policy", "caching", "--json"
    )
    assert json.loads(out)["capacity"] == 7915 * 2**30 // 100
    # A plain size is taken as it is.
    _, out = compare(capsys, OFFLOAD, "--capacity", "79.15GiB", "--policy", "caching", "--json")
    assert (json.loads(out)["capacity"], json.loads(out)["capacity_origin"]) == (7915 * 2**30 // 100, "")


def snapshot_of(tmp_path, devices=1):
    """A snapshot as PyTorch writes it, with a few allocations on each device."""

    def event(action, address, size):
        return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 0, "frames": []}

    traces = []
    for device in range(devices):
        events = [event("segment_alloc", 2**30, 20 * 2**20)]
        events += [event("alloc", 2**30, (device + 1) * 2**20), event("free_requested", 2**30, (device + 1) * 2**20)]
        events += [event("free_completed", 2**30, (device + 1) * 2**20)]
        traces.append(events)
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": traces}))
    return str(path)


def test_a_snapshot_of_several_devices_is_asked_for_one(capsys, tmp_path):
    path = snapshot_of(tmp_path, devices=3)
    for device, size in (("0", 1), ("2", 3)):
        _, out = compare(capsys, path, "--device", device, "--capacity", "1GiB", "--json")
        assert json.loads(out)["peak_live"] == size * 2**20


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([OFFLOAD, "--reserve", "1GiB"], "reserve is subtracted from the memory of a GPU"),
        ([OFFLOAD, "--capacity", "64GiB", "--reserve", "1GiB"], "reserve is subtracted from the memory of a GPU"),
        ([OFFLOAD, "--capacity", "a100-80gb", "--reserve", "80GiB"], "leaves nothing of the 79.15GiB"),
        ([OFFLOAD, "--capacity", "a100"], "did you mean a100-80gb or a100-40gb?"),
        ([OFFLOAD, "--capacity", "h1000"], "did you mean h100-80gb"),
        ([OFFLOAD, "--capacity", "50%"], "capacity '50%' is a share"),
        ([OFFLOAD, "--capacity", "lots"], "capacity 'lots' is not a size"),
        ([OFFLOAD, "--capacity", "-1"], "capacity must not be negative"),
        ([OFFLOAD, "--capacity", "0"], "capacity must be between 2 MiB and 16 TiB"),
        ([OFFLOAD, "--capacity", "9" * 400], "is not a size"),
        ([OFFLOAD, "--capacity", "64GiB", "--policy", "cacheing"], "did you mean caching?"),
        ([OFFLOAD, "--capacity", "64GiB", "--policy", ""], "no policy is named ''"),
        ([OFFLOAD, "--capacity", "64GiB", "--policy", "max_split_size_mb:1"], "max_split_size_mb must be at least"),
        ([OFFLOAD, "--capacity", "64GiB", "--events", "never"], "events must be"),
        ([OFFLOAD, "--capacity", "64GiB", "--limit", "200%"], "more than the whole"),
        ([OFFLOAD, "--capacity", "64GiB", "--device", "1"], "no devices to choose from"),
        ([OFFLOAD, "--capacity", "64GiB", "--device", "x"], "--device must be a device's number"),
        (["no-such-file.pickle", "--capacity", "64GiB"], "there is no file 'no-such-file.pickle', and no such example"),
        (["", "--capacity", "64GiB"], "the trace's name is empty"),
        (["/", "--capacity", "64GiB"], "is a directory"),
        (["x" * 5000, "--capacity", "64GiB"], "there is no file"),
        (["\x1b[31mred", "--capacity", "64GiB"], "there is no file"),
        ([], "the following arguments are required: TRACE"),
        ([OFFLOAD, "--no-such-option"], "unrecognized arguments"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr_and_2(capsys, arguments, sentence):
    try:
        code = main(["compare", *arguments])
    except SystemExit as end:  # of the parser
        code = end.code
    done = capsys.readouterr()
    assert code == 2
    assert done.out == ""
    assert sentence in done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04c__builtin__\neval\n(S'1/0'\ntR.",
        b"PK\x03\x04 broken",
        b"a 0 512 0\nnonsense\n",
        b"\x1f\x8b broken",
        b"\x00" * 1000,
    ],
)
def test_a_file_that_is_no_trace_is_one_sentence(memlake_command, tmp_path, content):
    (tmp_path / "trace").write_bytes(content)
    done = memlake_command("compare", "trace", "--capacity", "64GiB")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("memlake: error: trace: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "kind", "capacity", "code"),
    [
        ("compare", "complete", "2GiB", 0),
        ("compare", "complete", None, 0),
        ("compare", "complete", "500MiB", 1),
        ("compare", "state", "2GiB", 3),
        ("compare", "state", "100MiB", 1),
        ("compare", "cut", "2GiB", 0),
        ("compare", "cut", "900MiB", 1),
        ("replay", "state", "2GiB", 3),
        ("replay", "complete", "2GiB", 0),
        ("fit", "state", None, 3),
        ("fit", "complete", None, 0),
    ],
)
def test_the_exit_code_is_3_if_the_file_cannot_decide(capsys, tmp_path, command, kind, capacity, code):
    job = scattered_job()
    snapshot = job.snapshot()
    if kind == "state":
        snapshot["device_traces"] = []
    job.settings["trace_alloc_overflowed"] = kind == "cut"
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    arguments = [command, str(path), *(() if capacity is None else ("--capacity", capacity))]
    assert main([*arguments, "--json"]) == code
    text = json.loads(capsys.readouterr().out)
    assert text["history"] == kind
    outcomes = {entry["outcome"] for entry in text.get("policies", [text])}
    assert ("unknown" in outcomes, "ok" in outcomes) == (code == 3, code == 0)
    assert main(arguments) == code
    out = capsys.readouterr().out.replace("whether the job fits", "")
    assert (" fits " in out) == (code == 0 and command != "fit")


def test_the_first_row_is_what_the_job_ran_under_with_its_settings(capsys, tmp_path):
    job = scattered_job()
    job.settings["max_split_size"] = 64 * 2**20
    code, out = compare(capsys, str(job.save(tmp_path / "snapshot.pickle")), "--capacity", "2GiB")
    assert code == 0
    assert out.splitlines()[4].startswith("caching*")
    assert "*: with the settings of the job, max_split_size_mb:64" in out
    assert "caching: PyTorch's native caching allocator; the job ran under it" in out
    assert max(map(len, out.splitlines())) <= 110
    verified = next(line for line in out.splitlines() if "addresses equal" in line)
    assert verified.startswith(("Verified under caching (max_split_size_mb:64)", "Not verified under caching"))


@pytest.mark.parametrize(("size", "shown"), [("79.15GiB", "79.15 GiB"), ("24e9", "22.35 GiB"), ("80 GB", "74.51 GiB")])
def test_capacities_are_taken_as_people_copy_them(capsys, size, shown):
    _, out = compare(
        capsys, "train_moe", "--capacity", size, "--policy", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"
    )
    assert out.startswith(f"device {shown}, ")


def test_names_from_a_trace_cannot_write_to_the_terminal(capsys, tmp_path):
    import memlake

    path = tmp_path / "evil.npz"
    memlake.Trace([0], [0], [2**40 + 512], tag=[0], tags=["\x1b]0;evil\x07"]).save(path)
    limit = str(2**40 + 2**20)  # enough for the request, but not for a whole segment
    code, out = compare(capsys, str(path), "--capacity", "2TiB", "--limit", limit, "--policy", "caching")
    assert code == 1
    assert "asked for by ?]0;evil?" in " ".join(out.split())
