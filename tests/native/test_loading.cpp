#include <cstddef>
#include <string>

#include "driver/loaded_driver.hpp"
#include "driver/result.hpp"
#include "emulated.hpp"
#include "memlake_emulator.h"
#include "test.hpp"

namespace memlake {
namespace {

// What crosses into the emulator by pointer.
static_assert(sizeof(TouchedRange) == sizeof(memlakeEmulatorRange));
static_assert(offsetof(TouchedRange, size) == offsetof(memlakeEmulatorRange, size));
static_assert(offsetof(TouchedRange, is_write) == offsetof(memlakeEmulatorRange, is_write));

bool mentions(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

TEST(a_library_that_does_not_exist_is_named) {
  const auto error = EXPECT_ERROR(config, Library::load("libno_such_driver.so.1"));
  EXPECT(error && mentions(*error, "'libno_such_driver.so.1'"));
  EXPECT(error && mentions(*error, "cannot open shared object file"));
  EXPECT_ERROR(config, Library::load(""));
}

TEST(a_library_that_is_no_driver_is_refused) {
  const auto error = EXPECT_ERROR(config, Library::load("libm.so.6"));
  EXPECT(error && mentions(*error, "libm.so.6"));
  EXPECT(error && mentions(*error, "cuInit"));
}

TEST(a_missing_required_function_is_named) {
  const auto error = EXPECT_ERROR(config, Library::load(DRIVER_WITHOUT_CREATE));
  EXPECT(error && mentions(*error, DRIVER_WITHOUT_CREATE));
  EXPECT(error && mentions(*error, "does not export cuMemCreate"));
  EXPECT(error && !mentions(*error, "cuMemMap"));
}

TEST(a_missing_optional_function_is_not_supported) {
  LoadedDriver driver{SharedObject(DRIVER_WITHOUT_OPTIONALS)};
  CUcontext context = nullptr;
  const CUresult result = driver.cuStreamGetCtx(nullptr, &context);
  EXPECT_EQ(result, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT(mentions(driver_error(driver, Call::cuStreamGetCtx, result), "does not export it"));
  EXPECT_EQ(driver.cuInit(0), CUDA_ERROR_UNKNOWN);  // what is there is called
}

TEST(a_driver_that_is_not_the_emulator_has_no_such_door) {
  LoadedDriver driver{SharedObject(DRIVER_WITHOUT_OPTIONALS)};
  EXPECT(!driver.emulator().is_present());
  EXPECT(!driver.emulator().traits_of(0).is_host_backed);
  const auto error = EXPECT_ERROR(other, driver.emulator().ledger());
  EXPECT(error && error->answer()->code == CUDA_ERROR_NOT_SUPPORTED);
  EXPECT(driver.explain(Call::cuInit, CUDA_ERROR_UNKNOWN).detail.empty());
}

TEST(a_file_is_loaded_once) {
  Library& first = test::emulator();
  EXPECT(&Library::load(MEMLAKE_EMULATOR_LIBRARY) == &first);
  EXPECT(first.is_emulated());
  EXPECT_EQ(first.file(), std::string(MEMLAKE_EMULATOR_LIBRARY));
  EXPECT(first.version() >= 11020);
}

TEST(a_config_the_emulator_cannot_read_is_a_config_error) {
  const int before = test::emulator().device_count();
  const auto error = EXPECT_ERROR(config, test::emulator().emulator().add_devices("devices=1,colour=blue"));
  EXPECT(error && mentions(*error, "colour"));
  EXPECT_EQ(test::emulator().device_count(), before);
}

}  // namespace
}  // namespace memlake
