import pytest


@pytest.fixture
def suite(pytester):
    """A suite of somebody else, in a process of its own."""

    def run(tests, *arguments):
        pytester.makepyfile(tests)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run


def test_the_fixture_puts_the_emulator_under_the_process(suite):
    suite("""
        import ctypes

        def test_foreign_code(memlake_emulator):
            (gpu,) = memlake_emulator.emulate(memory="64MiB")
            cuda = ctypes.CDLL("libcuda.so.1")
            total = ctypes.c_size_t()
            assert cuda.cuInit(0) == 0
            assert cuda.cuDeviceTotalMem_v2(ctypes.byref(total), gpu.ordinal) == 0
            assert total.value == gpu.total_memory
            assert memlake_emulator.ledger().held(gpu) == 0
    """).assert_outcomes(passed=1)


def test_devices_are_closed_when_the_test_ends(suite):
    suite("""
        kept = []

        def test_one(memlake_emulator):
            kept.extend(memlake_emulator.emulate(devices=2, memory="64MiB"))
            kept[0].close()

        def test_two():
            assert not any(gpu.is_open for gpu in kept)
    """).assert_outcomes(passed=2)


VIOLATION = """
    import pytest
    from memlake import ContractViolation, emulator, vmm

    def violate(gpu):
        segment = vmm.Segment.create(gpu, "2MiB")
        stream = gpu.create_stream()
        with emulator.hold(stream):
            emulator.launch(stream, "my kernel", reads=[segment])
            with pytest.raises(ContractViolation):
                segment.close()
        stream.sync()
"""


def test_a_violation_fails_the_test_with_the_sentence(suite):
    result = suite(
        VIOLATION
        + """
    def test_bad(memlake_emulator):
        violate(memlake_emulator.emulate(memory="64MiB")[0])

    def test_good(memlake_emulator):
        memlake_emulator.emulate(memory="64MiB")
    """
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*violated the CUDA driver's contract:", "*cuMemUnmap: *my kernel*"])


def test_a_violation_that_was_taken_does_not_fail_the_test(suite):
    suite(
        VIOLATION
        + """
    def test_on_purpose(memlake_emulator):
        violate(memlake_emulator.emulate(memory="64MiB")[0])
        (incident,) = memlake_emulator.take_violations()
        assert "my kernel" in incident.text
        assert memlake_emulator.take_violations() == []
    """
    ).assert_outcomes(passed=1)


def test_a_test_that_fails_may_keep_a_view(suite):
    result = suite(
        """
        from memlake import vmm

        def test_fails_with_a_view(memlake_emulator):
            a, b = memlake_emulator.emulate(devices=2, memory="64MiB")
            view = vmm.Segment.create(b, "2MiB").numpy()
            assert view[0] == 7
    """,
        "--showlocals",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*view * = array(*"])


def test_a_run_that_does_not_use_it_imports_nothing(suite):
    suite("""
        import sys

        def test_nothing_heavy():
            loaded = {name for name in sys.modules if name.startswith(("memlake", "numpy"))}
            assert loaded <= {"memlake", "memlake.emulator", "memlake.emulator.pytest_plugin"}
    """).assert_outcomes(passed=1)


def test_the_fixture_is_listed_with_its_purpose(suite):
    result = suite("def test_nothing(): pass", "--fixtures")
    result.stdout.fnmatch_lines(["memlake_emulator*", "*Emulated CUDA devices for one test*"])
