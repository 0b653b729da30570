import pytest

from memlake.emulator.config import EmulatorConfig
from memlake.errors import ConfigError


def test_the_text_is_in_the_syntax_of_the_environment_variable():
    text = EmulatorConfig(
        devices=2,
        memory="1GiB",
        peers=[[True, False], [False, True]],
        relax=["inflight_unmap", "set_access_subrange"],
        recommended_granularity="16MiB",
        driver_version=12040,
        aliasing="whole",
        lacks=["vmm", "export"],
        fabric="create",
        pool_segment="8MiB",
        poison=True,
        kernels="skip",
        name="toy GPU",
    ).to_text()
    assert dict(entry.split("=") for entry in text.split(",")) == {
        "devices": "2",
        "memory": str(2**30),
        "granularity": str(2**21),
        "recommended": str(2**24),
        "aliasing": "whole",
        "lacks": "vmm+export",
        "fabric": "create",
        "peers": "10/01",
        "profile": "strict",
        "relax": "inflight_unmap+set_access_subrange",
        "backing": "host",
        "streams": "threads",
        "pool_segment": str(2**23),
        "driver": "12040",
        "poison": "on",
        "kernels": "skip",
        "name": "toy GPU",
    }


def test_each_device_may_have_a_size():
    text = EmulatorConfig(
        memory=["8GiB", 2**30], granularity=("2MiB", "4MiB"), recommended_granularity="8MiB"
    ).to_text()
    entries = dict(entry.split("=") for entry in text.split(","))
    assert "devices" not in entries
    assert entries["memory"] == f"{2**33}/{2**30}"
    assert entries["granularity"] == f"{2**21}/{2**22}"
    assert entries["recommended"] == str(2**23)
    with pytest.raises(ConfigError, match="memory must be a size, or one size for each device"):
        EmulatorConfig(memory=[]).to_text()


@pytest.mark.parametrize("value", ["a,b", "a=b", "two\nlines", "", 3, None])
def test_a_value_cannot_be_mistaken_for_syntax(value):
    with pytest.raises(ConfigError, match="profile"):
        EmulatorConfig(profile=value).to_text()
