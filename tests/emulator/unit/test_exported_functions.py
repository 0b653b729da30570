"""The functions that the emulator exports: all of the driver's, under every name and version that programs ask for."""

import ctypes
import os
import re
from functools import cache
from pathlib import Path

import pytest

import memlake
from helpers.processes import run_python
from memlake.emulator import ledger, reset_ledger

ROOT = Path(__file__).parents[3]
LISTS = ("functions.inc", "old_versions.inc", "unemulated.inc")

AS_COMPILED, LEGACY, PER_THREAD = 0, 1, 2


@cache
def library():
    found = ctypes.CDLL(memlake.emulator_library())
    found.memlakeEmulatorLastError.restype = ctypes.c_char_p
    return found


def listed():
    """Every entry of the emulator's lists: its kind, base name, symbol, first CUDA version and suffix ("" for none)."""
    entries = []
    for name in LISTS:
        text = (ROOT / "emulator" / "cuda" / name).read_text(encoding="utf-8")
        entries += re.findall(r"^([FSUV])\((\w+), (\w+), (\d+)(?:, (_pt[ds]\w))?", text, re.MULTILINE)
    return [(kind, base, symbol, int(since), suffix) for kind, base, symbol, since, suffix in entries]


def address(symbol):
    return ctypes.cast(getattr(library(), symbol), ctypes.c_void_p).value


def proc_address(name, version, flags=LEGACY, function="cuGetProcAddress_v2"):
    """The address that cuGetProcAddress returns, and its status (0 found, 1 unknown, 2 too new)."""
    out, status = ctypes.c_void_p(), ctypes.c_int(-1)
    ask = getattr(library(), function)
    assert ask(name.encode(), ctypes.byref(out), version, ctypes.c_uint64(flags), ctypes.byref(status)) == 0
    return out.value, status.value


def test_every_listed_function_is_exported_with_its_variant():
    assert len(listed()) > 600
    missing = [
        name
        for _, _, symbol, _, suffix in listed()
        for name in {symbol, symbol + suffix}
        if not hasattr(library(), name)
    ]
    assert missing == []


def test_no_symbol_is_listed_twice():
    symbols = [symbol for _, _, symbol, _, _ in listed()]
    assert sorted(set(symbols)) == sorted(symbols)


@pytest.mark.parametrize(
    ("name", "version", "symbol"),
    [
        ("cuDevicePrimaryCtxRelease", 7000, "cuDevicePrimaryCtxRelease"),
        ("cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2"),
        ("cuDevicePrimaryCtxReset", 7000, "cuDevicePrimaryCtxReset"),
        ("cuIpcOpenMemHandle", 4010, "cuIpcOpenMemHandle"),
        ("cuIpcOpenMemHandle", 13000, "cuIpcOpenMemHandle_v2"),
        ("cuStreamBeginCapture", 10000, "cuStreamBeginCapture"),
        ("cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo"),
        ("cuMemcpyBatchAsync", 12080, "cuMemcpyBatchAsync"),
        ("cuMemAlloc", 3010, "cuMemAlloc"),
        ("cuMemAlloc", 3020, "cuMemAlloc_v2"),
        ("cuCtxCreate", 11040, "cuCtxCreate_v3"),
        ("cuGetExportTable", 3000, "cuGetExportTable"),
    ],
)
def test_a_version_gets_its_own_function(name, version, symbol):
    assert proc_address(name, version) == (address(symbol), 0)


def test_a_function_that_is_newer_than_the_version_is_not_found():
    assert proc_address("cuMemCreate", 10010) == (None, 2)
    assert proc_address("cuNoSuchFunction", 13000) == (None, 1)


def test_a_program_compiled_for_per_thread_streams_gets_the_per_thread_functions():
    variant = "cuGetProcAddress_v2_ptsz"
    assert proc_address("cuStreamQuery", 13000, AS_COMPILED) == (address("cuStreamQuery"), 0)
    assert proc_address("cuStreamQuery", 13000, PER_THREAD) == (address("cuStreamQuery_ptsz"), 0)
    assert proc_address("cuStreamQuery", 13000, AS_COMPILED, variant) == (address("cuStreamQuery_ptsz"), 0)
    assert proc_address("cuStreamQuery", 13000, LEGACY, variant) == (address("cuStreamQuery"), 0)


def test_a_function_that_is_not_emulated_says_so_once_in_the_ledger_and_at_each_call(gpu, capfd):
    reset_ledger()
    for _ in range(3):
        assert library().cuTexRefCreate() == 801
        assert library().memlakeEmulatorLastError() == b"the emulator does not emulate cuTexRefCreate"
    (warning,) = ledger().warnings
    assert (warning.call, warning.code, warning.text) == (
        "cuTexRefCreate",
        801,
        "the emulator does not emulate cuTexRefCreate",
    )
    assert ledger().calls["cuTexRefCreate"] == 3
    assert capfd.readouterr().err.count("cuTexRefCreate") == 2  # the call and the sentence of one warning
    reset_ledger()
    assert library().cuTexRefCreate() == 801
    assert len(ledger().warnings) == 1
    reset_ledger()


def test_an_old_version_names_the_version_that_is_emulated(gpu):
    assert library().cuMemAlloc() == 801
    assert b"cuMemAlloc_v2" in library().memlakeEmulatorLastError()
    reset_ledger()


def test_there_are_no_tables_of_private_functions():
    program = """
        import ctypes, sys
        driver = ctypes.CDLL(sys.argv[1])
        table, identity = ctypes.c_void_p(7), (ctypes.c_char * 16)()
        before = driver.cuGetExportTable(ctypes.byref(table), identity)
        assert driver.cuInit(0) == 0
        print(before, driver.cuGetExportTable(ctypes.byref(table), identity), table.value)
    """
    assert run_python(program, memlake.emulator_library()).stdout.split() == ["1", "1", "7"]


@pytest.mark.parametrize(
    ("settings", "version", "found"),
    [("driver=13040", 13040, 1), ("", 13000, 0), ("driver=13040,devices=none", 13000, 0)],
)
def test_the_version_of_the_settings_holds_before_cuinit(settings, version, found):
    """Bindings ask for all functions before cuInit. Wrong settings are cuInit's to refuse."""
    program = """
        import ctypes, sys

        driver = ctypes.CDLL(sys.argv[1])
        version, function, status = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        driver.cuDriverGetVersion(ctypes.byref(version))
        outputs = ctypes.byref(function), 13020, ctypes.c_uint64(0), ctypes.byref(status)
        driver.cuGetProcAddress_v2(b"cuGraphNodeGetParams", *outputs)
        print(version.value, int(function.value is not None), driver.cuInit(0))
    """
    code = 100 if "none" in settings else 0
    done = run_python(program, memlake.emulator_library(), MEMLAKE_EMULATOR=settings)
    assert done.stdout.split() == [str(number) for number in (version, found, code)]


def headers():
    """The folder of NVIDIA's headers, if there is one."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    homes += sorted(Path("/usr/local").glob("cuda*"), reverse=True)
    for home in homes:
        if (home / "include" / "cudaTypedefs.h").exists():
            return home / "include"
    return None


def test_the_lists_have_every_function_and_version_of_the_headers():
    folder = headers()
    if folder is None:
        pytest.skip("there is no cudaTypedefs.h in CUDA_HOME, CUDA_PATH or /usr/local/cuda*")
    own = {(base, since, "") for _, base, _, since, _ in listed()}
    own |= {(base, max(since, 7000), suffix) for _, base, _, since, suffix in listed() if suffix}
    theirs = set()
    for header in folder.glob("cuda*Typedefs.h"):
        types = re.findall(
            r"typedef CUresult \(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_pt[ds]\w)?\)", header.read_text(errors="replace")
        )
        theirs |= {(base, int(since), suffix) for base, since, suffix in types if not base.startswith("cuWGL")}
    assert len(theirs) > 500
    assert sorted(theirs - own) == []


def test_the_lists_have_every_symbol_that_the_headers_declare():
    folder = headers()
    if folder is None:
        pytest.skip("there is no cudaTypedefs.h in CUDA_HOME, CUDA_PATH or /usr/local/cuda*")
    declared = set()
    for name in ("cuda.h", "cudaGL.h", "cudaVDPAU.h", "cudaEGL.h", "cudaProfiler.h"):
        if (folder / name).exists():
            declared |= set(
                re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", (folder / name).read_text(errors="replace"))
            )
    declared = {name for name in declared if not name.startswith("cuWGL")}
    assert len(declared) > 450
    assert sorted(name for name in declared if not hasattr(library(), name)) == []


@pytest.mark.parametrize("function", ["cuGetErrorName", "cuGetErrorString"])
def test_every_result_of_the_header_has_a_name_and_a_text(function):
    codes = re.findall(
        r"^R\((\d+), (\w+), ", (ROOT / "core/driver/results.inc").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(codes) >= 106
    if (folder := headers()) is not None:
        theirs = re.findall(
            r"^\s*(CUDA_(?:SUCCESS|ERROR_\w+))\s*=\s*(\d+)", (folder / "cuda.h").read_text(), re.MULTILINE
        )
        assert {(code, name) for name, code in theirs} - set(codes) == set()
    for code, name in codes:
        text = ctypes.c_char_p()
        assert getattr(library(), function)(int(code), ctypes.byref(text)) == 0
        assert text.value
        assert function != "cuGetErrorName" or text.value.decode() == name
