import pickle

import pytest

from memlake import errors
from memlake.errors import ContractViolation, DriverError, MemlakeError

INVALID_VALUE = (
    "cuMemMap",
    1,
    "CUDA_ERROR_INVALID_VALUE",
    "an argument is out of range",
    "size 3145728 is not a multiple of the granularity 2097152",
    "invalid_call",
)


def test_every_error_is_a_memlake_error():
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), MemlakeError)


@pytest.mark.parametrize(
    ("name", "builtin"),
    [("OutOfMemory", MemoryError), ("ConfigError", ValueError), ("ClosedError", ValueError)],
)
def test_an_error_is_also_what_python_calls_it(name, builtin):
    assert issubclass(getattr(errors, name), builtin)


def test_a_driver_error_says_call_code_name_reason_and_meaning():
    assert str(DriverError(*INVALID_VALUE)) == (
        "cuMemMap failed with CUDA_ERROR_INVALID_VALUE (1): "
        "size 3145728 is not a multiple of the granularity 2097152 (an argument is out of range)"
    )


@pytest.mark.parametrize(
    ("meaning", "detail", "ending"),
    [("it is full", "", ": it is full"), ("", "no room", ": no room"), ("", "", "CUDA_ERROR_OUT_OF_MEMORY (2)")],
)
def test_a_driver_error_without_a_reason_reads_well_too(meaning, detail, ending):
    error = DriverError("cuMemCreate", 2, "CUDA_ERROR_OUT_OF_MEMORY", meaning, detail, "out_of_memory")
    assert str(error).endswith(ending)


def test_a_driver_error_has_its_parts_as_attributes():
    error = DriverError(*INVALID_VALUE)
    assert (error.call, error.code, error.name, error.meaning, error.detail, error.kind) == INVALID_VALUE


@pytest.mark.parametrize(
    ("kind", "is_sticky", "is_out_of_memory"),
    [("sticky", True, False), ("out_of_memory", False, True), ("address_exhaustion", False, False)],
)
def test_sticky_errors_and_used_up_addresses_are_not_out_of_memory(kind, is_sticky, is_out_of_memory):
    error = DriverError("cuMemCreate", 2, "", "", "", kind)
    assert error.is_sticky == is_sticky
    assert error.is_out_of_memory == is_out_of_memory


def test_a_contract_violation_shows_the_sentence():
    error = ContractViolation(
        "cuMemUnmap", 719, "CUDA_ERROR_LAUNCH_FAILED", "", "work is in flight", "contract_violation"
    )
    assert isinstance(error, DriverError)
    assert str(error) == "cuMemUnmap violates the driver's contract: work is in flight"


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_can_be_pickled(name):
    kind = getattr(errors, name)
    error = kind(*INVALID_VALUE) if issubclass(kind, DriverError) else kind("a sentence")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
