"""Modules and libraries: loading, refusals, and the memory of variables."""

from __future__ import annotations

from ctypes import addressof, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p, create_string_buffer
from typing import TYPE_CHECKING

import pytest

from helpers import abi_code as code
from helpers.abi_types import Result

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.contract.expectations import Expectations
    from helpers.abi_world import World

NEEDS_SM_80 = "the image is compiled for the architecture of the emulated devices"
IMAGES = {"ptx": code.PTX, "cubin": code.CUBIN, "lz4 fatbin": code.LZ4_FATBIN, "zstd fatbin": code.ZSTD_FATBIN}


@pytest.mark.emulator_only(NEEDS_SM_80)
@pytest.mark.parametrize("kind", IMAGES)
def test_an_image_tells_its_kernels_and_their_parameters(world: World, expect: Expectations, kind: str) -> None:
    with code.loaded(world, IMAGES[kind]) as module:
        count = c_uint()
        expect("count", world.driver.cuModuleGetFunctionCount(byref(count), module), Result.SUCCESS, "D")
        handles = (c_void_p * count.value)()
        expect("list", world.driver.cuModuleEnumerateFunctions(handles, count, module), Result.SUCCESS, "D")
        names = sorted(code.name_of(world, handle) for handle in handles)
        expect.equal("names", names, ["fill", "limited", "nothing"], "D")
        fill, limited = (code.function(world, module, name) for name in ("fill", "limited"))
        expect.equal("parameters of fill", code.parameters_of(world, fill), [(0, 8), (8, 4), (16, 8)], "D")
        expect.equal("parameters of limited", code.parameters_of(world, limited), [(0, 16), (16, 2), (24, 8)], "D")
        expect.equal("shared memory", code.attribute(world, limited, code.SHARED_SIZE), 1024, "D")
        expect.equal("launch bounds", code.attribute(world, limited, code.MAX_THREADS), 128, "D")
        expect.equal("dynamic", code.attribute(world, limited, code.MAX_DYNAMIC_SHARED), (48 << 10) - 1024, "D")


@pytest.mark.emulator_only(NEEDS_SM_80)
def test_a_cubin_tells_its_registers(world: World, expect: Expectations) -> None:
    with code.loaded(world, code.CUBIN) as module:
        registers = code.attribute(world, code.function(world, module, "fill"), code.NUM_REGISTERS)
        expect.equal("registers, as the compiler printed them", registers, 12, "D")


def test_a_variable_is_memory_with_its_initial_value(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        address, size = code.variable(world, module, "counter")
        expect.equal("size", size, 4, "D")
        expect.equal("value", world.read(address, 4), (0, (7).to_bytes(4, "little")), "D")
        table, size = code.variable(world, module, "table")
        expect.equal("the rest is zero", world.read(table, size), (0, bytes.fromhex("0000803f0000004000000000")), "D")
        expect("write", world.write(address, b"abcd"), Result.SUCCESS, "D")
        expect.equal("written", world.read(address, 4), (0, b"abcd"), "D")


@pytest.mark.world(poison="on")
@pytest.mark.emulator_only("poison is a setting of the emulator")
def test_a_variable_without_a_value_is_zero_in_reused_and_poisoned_memory(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        address, size = code.variable(world, module, "scale")
        world.must("write", world.write(address, b"\xff" * size))
    with code.loaded(world) as module:
        address, size = code.variable(world, module, "scale")
        expect.equal("value", world.read(address, size), (0, bytes(size)), "D")


def test_only_the_module_frees_a_variable(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        address, _ = code.variable(world, module, "counter")
        expect("cuMemFree", world.driver.cuMemFree(address), Result.INVALID_VALUE, "I")
        expect.equal("value", world.read(address, 4), (0, (7).to_bytes(4, "little")), "D")


def test_what_the_module_does_not_have_is_not_found(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        found, address, size = c_void_p(77), c_uint64(77), c_size_t(77)
        driver = world.driver
        expect("kernel", driver.cuModuleGetFunction(byref(found), module, b"counter"), Result.NOT_FOUND, "D")
        asked = driver.cuModuleGetGlobal(byref(address), byref(size), module, b"fill")
        expect("variable", asked, Result.NOT_FOUND, "D")
        expect.equal("out-parameters", (found.value, address.value, size.value), (77, 77, 77), "I")


@pytest.mark.parametrize(
    ("image", "answer"),
    [
        (b"", Result.INVALID_IMAGE),
        (b"no image at all", Result.INVALID_IMAGE),
        (code.PTX.replace(b"(.param .align 8", b"(.parameter .align 8"), Result.INVALID_PTX),
        (code.PTX.replace(b"ret;\n}", b"ret;\n"), Result.INVALID_PTX),
    ],
    ids=["nothing", "a text", "bad PTX", "PTX without an end"],
)
def test_a_bad_image_is_refused(world: World, expect: Expectations, image: bytes, answer: Result) -> None:
    with expect.no_effect(world, "I"):
        expect("load", code.load(world, image)[0], answer, "I")


@pytest.mark.emulator_only("the sentence is the emulator's")
def test_a_host_object_is_not_called_a_cubin(world: World, expect: Expectations) -> None:
    # Offset 16 of an ELF file has its type, 1 for relocatable; offset 18 its machine.
    for machine, sentence in ((190, "the cubin is relocatable"), (62, "an ELF file for machine 62")):
        image = code.CUBIN[:16] + (1).to_bytes(2, "little") + machine.to_bytes(2, "little") + code.CUBIN[20:]
        expect("load", code.load(world, image)[0], Result.INVALID_IMAGE, "I")
        expect.that(sentence, sentence in world.driver.last_error(), "I")


@pytest.mark.emulator_only(NEEDS_SM_80)
def test_code_for_another_architecture_is_refused(world: World, expect: Expectations) -> None:
    newer = code.PTX.replace(b"sm_70", b"sm_90")
    expect("PTX for a newer one", code.load(world, newer)[0], Result.NO_BINARY_FOR_GPU, "D")
    # The architecture is the second byte of the flags, which are at offset 48 of the file.
    for_90 = code.CUBIN[:49] + bytes([90]) + code.CUBIN[50:]
    expect("cubin for another one", code.load(world, for_90)[0], Result.NO_BINARY_FOR_GPU, "D")
    newest = code.PTX.replace(b".version 7.0", b".version 9.9")
    expect("PTX of a newer version", code.load(world, newest)[0], Result.UNSUPPORTED_PTX_VERSION, "D")


@pytest.mark.emulator_only("a real driver reads behind the end")
@pytest.mark.parametrize("kind", IMAGES)
def test_a_damaged_image_is_refused_and_never_read_behind_its_end(
    world: World, expect: Expectations, kind: str
) -> None:
    image = IMAGES[kind]
    for at in range(0, len(image), 7):
        for value in (0, 0xFF, image[at] ^ 0x10):
            damaged = image[:at] + bytes([value]) + image[at + 1 :]
            answer, module = code.load(world, damaged)
            if answer == 0:  # the damage is in an instruction, or in a name
                world.must("cuModuleUnload", world.driver.cuModuleUnload(module))
    for end in range(0, len(image), 61):
        answer, module = code.load(world, image[:end])
        if answer == 0:
            world.must("cuModuleUnload", world.driver.cuModuleUnload(module))
    expect.equal("violations", world.driver.last_violation(), "", "I")


def test_the_compiler_log_has_the_reason(world: World, expect: Expectations) -> None:
    error_log, error_log_size = 5, 6
    log = create_string_buffer(4096)
    options = (c_int * 2)(error_log, error_log_size)
    values = (c_void_p * 2)(addressof(log), len(log))
    image = create_string_buffer(code.PTX.replace(b"{", b"", 1))
    answer = world.driver.cuModuleLoadDataEx(byref(c_void_p()), image, 2, options, values)
    expect("load", answer, Result.INVALID_PTX, "D")
    expect.that("the log has words", len(log.value) > 20, "D")


def test_a_file_is_loaded_like_memory(world: World, expect: Expectations, tmp_path: Path) -> None:
    file = tmp_path / "kernels.ptx"
    module = c_void_p()
    answer = world.driver.cuModuleLoad(byref(module), str(file).encode())
    expect("a file that is not there", answer, Result.FILE_NOT_FOUND, "D")
    file.write_bytes(code.PTX)
    expect("the file", world.driver.cuModuleLoad(byref(module), str(file).encode()), Result.SUCCESS, "D")
    expect("unload", world.driver.cuModuleUnload(module), Result.SUCCESS, "D")


@pytest.mark.emulator_only("a real driver crashes")
def test_use_after_unload_is_a_violation(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        kernel = code.function(world, module, "nothing")
    expect.violation("function", world.driver.cuFuncLoad(kernel), "I", Result.INVALID_HANDLE)
    expect.violation("module", world.driver.cuModuleUnload(module), "I", Result.INVALID_HANDLE)


def test_the_end_of_a_context_ends_its_modules(world: World, expect: Expectations) -> None:
    driver, other = world.driver, c_void_p()
    world.must("cuCtxCreate", driver.cuCtxCreate(byref(other), 0, world.device))
    answer, module = code.load(world, code.PTX)
    world.must("cuModuleLoadData", answer)
    kernel = code.function(world, module, "nothing")
    expect("destroy", driver.cuCtxDestroy(other), Result.SUCCESS, "D")
    world.use(world.device)
    if driver.is_emulated:  # a real driver may crash
        expect("the module", driver.cuModuleUnload(module), Result.INVALID_HANDLE, "I")
        expect("the function", driver.cuFuncLoad(kernel), Result.INVALID_HANDLE, "I")


def test_a_library_belongs_to_no_context(world: World, expect: Expectations) -> None:
    driver = world.driver
    with code.library(world) as made:
        count, kernel, owner, name = c_uint(), c_void_p(), c_void_p(), c_char_p()
        expect("count", driver.cuLibraryGetKernelCount(byref(count), made), Result.SUCCESS, "D")
        expect.equal("kernels", count.value, 3, "D")
        expect("kernel", driver.cuLibraryGetKernel(byref(kernel), made, b"fill"), Result.SUCCESS, "D")
        expect("missing", driver.cuLibraryGetKernel(byref(c_void_p()), made, b"empty"), Result.NOT_FOUND, "D")
        expect("name", driver.cuKernelGetName(byref(name), kernel), Result.SUCCESS, "D")
        expect.equal("the name", name.value, b"fill", "D")
        expect("library", driver.cuKernelGetLibrary(byref(owner), kernel), Result.SUCCESS, "D")
        expect.equal("the library", owner.value, made, "D")
        before = world.free_memory()
        address, size = c_uint64(), c_size_t()
        asked = driver.cuLibraryGetGlobal(byref(address), byref(size), made, b"counter")
        expect("variable", asked, Result.SUCCESS, "D")
        expect.equal("value", world.read(address.value, 4), (0, (7).to_bytes(4, "little")), "D")
        managed = driver.cuLibraryGetManaged(byref(address), byref(size), made, b"counter")
        expect("a variable that is not managed", managed, Result.NOT_FOUND, "D")
        module = c_void_p()
        expect("module", driver.cuLibraryGetModule(byref(module), made), Result.SUCCESS, "D")
        expect("unload", driver.cuModuleUnload(module), Result.NOT_PERMITTED, "D")
        if driver.is_emulated:
            expect.that("the variables need memory with the first use", world.free_memory() < before, "I")


def test_an_attribute_of_a_kernel_holds_for_its_functions(world: World, expect: Expectations) -> None:
    driver = world.driver
    with code.library(world) as made:
        kernel, of_context, value = c_void_p(), c_void_p(), c_int()
        world.must("kernel", driver.cuLibraryGetKernel(byref(kernel), made, b"limited"))
        asked = driver.cuKernelSetAttribute(code.MAX_DYNAMIC_SHARED, 64 << 10, kernel, world.device)
        expect("more shared memory", asked, Result.SUCCESS, "D")
        world.must("function", driver.cuKernelGetFunction(byref(of_context), kernel))
        expect.equal("the function's", code.attribute(world, of_context, code.MAX_DYNAMIC_SHARED), 64 << 10, "D")
        expect("its own", driver.cuFuncSetAttribute(of_context, code.MAX_DYNAMIC_SHARED, 2048), Result.SUCCESS, "D")
        expect.equal("wins", code.attribute(world, of_context, code.MAX_DYNAMIC_SHARED), 2048, "D")
        world.must("kernel's", driver.cuKernelGetAttribute(byref(value), code.MAX_DYNAMIC_SHARED, kernel, world.device))
        expect.equal("the kernel's", value.value, 64 << 10, "D")


def test_attributes_that_cannot_be_set_are_refused(world: World, expect: Expectations) -> None:
    with code.loaded(world) as module:
        kernel = code.function(world, module, "limited")
        for what, which, value in (
            ("threads", code.MAX_THREADS, 64),
            ("too much shared memory", code.MAX_DYNAMIC_SHARED, 1 << 30),
            ("less than none", code.MAX_DYNAMIC_SHARED, -1),
            ("carveout", code.CARVEOUT, 101),
            ("unknown", 1000, 0),
        ):
            expect(what, world.driver.cuFuncSetAttribute(kernel, which, value), Result.INVALID_VALUE, "D")


def test_linked_images_are_loaded_together(world: World, expect: Expectations) -> None:
    driver = world.driver
    other = code.PTX.replace(b"fill", b"more").replace(b".entry limited", b".entry bounded")
    other = other.replace(b".entry nothing", b".entry none").replace(b"counter", b"count")
    other = other.replace(b" table", b" values").replace(b" scale", b" factor")
    state, image, size = c_void_p(), c_void_p(), c_size_t()
    expect("create", driver.cuLinkCreate(0, None, None, byref(state)), Result.SUCCESS, "D")
    for part in (code.PTX, other):
        data = create_string_buffer(part)
        added = driver.cuLinkAddData(state, code.INPUT_PTX, data, len(data), b"part", 0, None, None)
        expect("add", added, Result.SUCCESS, "D")
    bad = create_string_buffer(b"no PTX")
    added = driver.cuLinkAddData(state, code.INPUT_PTX, bad, len(bad), b"bad", 0, None, None)
    expect.that("a bad part is refused", added in (Result.INVALID_IMAGE, Result.INVALID_PTX), "D")
    expect("complete", driver.cuLinkComplete(state, byref(image), byref(size)), Result.SUCCESS, "D")
    module = c_void_p()
    expect("load", driver.cuModuleLoadData(byref(module), image), Result.SUCCESS, "D")
    for name in ("fill", "more", "bounded"):
        code.function(world, module.value or 0, name)
    expect("unload", driver.cuModuleUnload(module), Result.SUCCESS, "D")
    expect("destroy", driver.cuLinkDestroy(state), Result.SUCCESS, "D")
