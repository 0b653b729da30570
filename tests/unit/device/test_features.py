"""Features: what a device is asked, when, and what answers instead of it."""

import logging

import pytest

import memlake
from memlake.device.features import without_of

MIB = 2**20


def answers(device):
    return {name: feature.has for name, feature in device.features.items()}


def test_the_usual_device_has_everything_but_fabric_handles(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(hardware="usual", memory="64MiB")
    assert answers(gpu) == dict.fromkeys(without_of(), True) | {"fabric_handles": False}


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ({"aliasing": "none"}, {"second_mapping", "partial_mapping", "shared_bytes"}),
        ({"aliasing": "whole"}, {"partial_mapping"}),
        ({"lacks": ["shared_bytes"]}, {"shared_bytes"}),
        ({"lacks": ["rdma"]}, {"rdma"}),
        ({"lacks": ["rdma_grant"]}, {"rdma"}),
        ({"lacks": ["rdma_access"]}, {"rdma"}),
        ({"lacks": ["export"]}, {"file_descriptors"}),
        ({"lacks": ["spanning_copies"]}, {"spanning_copies"}),
        ({"lacks": ["vmm"]}, set(without_of())),
    ],
)
def test_a_device_that_lacks_something_is_found_to_lack_just_that(memlake_emulator, settings, lacking):
    (gpu,) = memlake_emulator.emulate(hardware="usual", memory="64MiB", **settings)
    assert {name for name, has in answers(gpu).items() if not has} == lacking | {"fabric_handles"}
    for name in lacking:
        assert gpu.features[name].reason


@pytest.mark.parametrize(("fabric", "has"), [("none", False), ("create", False), ("works", True)])
def test_fabric_handles_must_work_at_the_export_too(memlake_emulator, fabric, has):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=(), fabric=fabric)
    feature = gpu.features["fabric_handles"]
    assert feature.has is has
    if fabric == "create":
        assert feature.source == "trial"
        assert "cuMemExportToShareableHandle answered 801" in feature.reason


@pytest.mark.parametrize(
    ("version", "host", "host_numa"),
    [(12010, False, False), (12020, False, True), (12080, False, True), (12090, False, True), (13000, True, True)],
)
def test_memory_of_the_host_depends_on_the_version_of_the_driver(memlake_emulator, version, host, host_numa):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=(), driver_version=version)
    assert gpu.features["host_memory"].has is host
    assert gpu.features["host_numa_memory"].has is host_numa
    if not host:
        with pytest.raises(memlake.ConfigError, match=r"since CUDA 13\.0"):
            memlake.Pool(gpu, location="host")


def test_the_error_about_host_memory_names_what_works(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", lacks=(), driver_version=12020)
    with pytest.raises(memlake.ConfigError, match='location="host_numa" works here'):
        memlake.Pool(gpu, location="host")
    with memlake.Pool(gpu, location="host_numa") as pool, pool.allocate(MIB) as buffer:
        buffer.fill(7)


def test_a_device_is_asked_once_and_keeps_nothing(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    free = gpu.free_memory
    answers(gpu)
    created = memlake_emulator.ledger().calls["cuMemCreate"]
    answers(gpu)
    assert memlake_emulator.ledger().calls["cuMemCreate"] == created
    assert gpu.free_memory == free
    assert not gpu.ledger().chunks
    assert not gpu.ledger().mappings


def test_without_memory_a_trial_is_no_answer_and_is_made_again(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="4MiB", hardware="usual")
    with memlake.vmm.create(gpu, "4MiB"):
        feature = gpu.features["partial_mapping"]
        assert feature.has is None
        assert "answered 2" in feature.reason
    assert gpu.features["partial_mapping"].has is True


def test_the_environment_answers_instead_of_the_device(memlake_emulator, monkeypatch):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", hardware="usual")
    monkeypatch.setenv("MEMLAKE_FEATURES", "rdma=no,fabric_handles=yes")
    assert (gpu.features["rdma"].has, gpu.features["rdma"].source) == (False, "environment")
    assert gpu.features["fabric_handles"].has is True
    assert gpu.features["second_mapping"].source == "trial"


@pytest.mark.parametrize("text", ["rdma", "rdma=maybe", "warp=no"])
def test_an_entry_of_the_environment_that_makes_no_sense_is_an_error(memlake_emulator, monkeypatch, text):
    (gpu,) = memlake_emulator.emulate(memory="64MiB")
    monkeypatch.setenv("MEMLAKE_FEATURES", text)
    with pytest.raises(memlake.ConfigError, match="virtual_memory, second_mapping"):
        gpu.features["virtual_memory"].has  # noqa: B018


def test_trials_are_not_counted_and_injected_faults_do_not_reach_them(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", hardware="usual")
    with memlake.driver.counting(gpu) as calls, memlake.driver.failing(gpu, call="cuMemMap", code=801):
        assert gpu.features["second_mapping"].has is True
    assert calls["cuMemMap"] == 0


def test_a_stream_that_is_held_does_not_hold_a_trial(memlake_emulator):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", hardware="usual")
    with gpu.create_stream(nonblocking=False) as stream, memlake.emulator.hold(stream):
        assert gpu.features["shared_bytes"].has is True


def test_the_level_of_aliasing_follows_from_the_answers(memlake_emulator):
    for settings, level in [
        ({"aliasing": "none"}, "none"),
        ({"aliasing": "whole"}, "whole"),
        ({"aliasing": "prefix"}, "prefix"),
        ({"lacks": ["shared_bytes"]}, "none"),
    ]:
        (gpu,) = memlake_emulator.emulate(memory="64MiB", hardware="usual", **settings)
        with memlake.Pool(gpu) as pool:
            assert pool.stats().aliasing == level


def test_an_unknown_machine_is_refused_with_the_known_ones(monkeypatch):
    with pytest.raises(memlake.ConfigError, match="no-vmm"):
        memlake.emulate(hardware="cray-1")
    monkeypatch.setenv("MEMLAKE_HARDWARE", "cray-1")
    with pytest.raises(memlake.ConfigError, match="MEMLAKE_HARDWARE=cray-1"):
        memlake.emulate()


def test_what_the_driver_refuses_in_use_is_turned_off_counted_and_logged(memlake_emulator, caplog):
    (gpu,) = memlake_emulator.emulate(memory="64MiB", hardware="usual")
    with memlake.Pool(gpu) as pool, caplog.at_level(logging.WARNING, "memlake.device"):
        assert pool.rdma
        with memlake.driver.failing(gpu, call="cuMemSetAccess", code=999):
            buffer = pool.allocate("8MiB")
        assert not pool.rdma
        assert gpu.features["rdma"].refusals == 1
        assert gpu.features["rdma"].source == "refusal"
        assert any("refused rdma in use" in record.message for record in caplog.records)
        assert any("rdma" in note for note in pool.stats().notes)
        buffer.fill(1)
        buffer.close()
        pool.check()
