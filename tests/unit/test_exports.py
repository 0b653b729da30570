import types

import pytest

import memlake
from helpers.processes import assert_ends_well, run_python

NAMES = [
    "Buffer",
    "ClosedError",
    "ConfigError",
    "ContractViolation",
    "Device",
    "DriverError",
    "EmulatedDevice",
    "EmulatedDevices",
    "Event",
    "InvalidFree",
    "MemlakeError",
    "OutOfMemory",
    "Pool",
    "Stream",
    "Trace",
    "TraceError",
    "__version__",
    "advise",
    "allocate",
    "compare",
    "current_pool",
    "default_pool",
    "devices",
    "diff",
    "driver",
    "emulate",
    "emulator",
    "emulator_library",
    "errors",
    "fit",
    "native_library",
    "never_freed",
    "overview",
    "policies",
    "policy",
    "publish",
    "ranks",
    "replay",
    "report",
    "set_current_pool",
    "sharing",
    "sweep",
    "trace",
    "use_pool",
    "vmm",
]


def test_the_public_names_are_these():
    assert memlake.__all__ == NAMES
    assert sorted(NAMES) == NAMES
    assert dir(memlake) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_exists_and_is_documented(name):
    value = getattr(memlake, name)
    if name != "__version__":
        assert value.__doc__


@pytest.mark.parametrize("module", ["driver", "emulator", "errors", "policies", "sharing", "trace", "vmm"])
def test_the_public_names_of_a_module_exist_and_are_documented(module):
    module = getattr(memlake, module)
    assert isinstance(module, types.ModuleType)
    assert module.__all__ == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Pond'"):
        getattr(memlake, "Pond")  # noqa: B009  not a name that a type checker would let pass


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert memlake.__version__ == version("memlake")


def test_importing_memlake_imports_nothing_else():
    program = "import sys, memlake; print(*(name for name in sys.modules if name.startswith(('memlake', 'numpy'))))"
    assert run_python(program).stdout.split() == ["memlake"]


def test_emulating_needs_no_numpy():
    assert_ends_well("""
        import sys, memlake
        from memlake import vmm
        with memlake.emulate(memory="64MiB") as (gpu,), vmm.Segment.create(gpu, "4MiB") as segment:
            segment.fill(1)
        assert "numpy" not in sys.modules
    """)
