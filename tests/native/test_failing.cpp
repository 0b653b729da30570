#include <memory>
#include <string>

#include "driver/result.hpp"
#include "emulated.hpp"
#include "test.hpp"

namespace memlake {
namespace {

/// One cheap call through the wrappers.
CUresult ask_version(Driver& driver) {
  int version = 0;
  return driver.cuDriverGetVersion(&version);
}

CUresult ask_count(Driver& driver) {
  int count = 0;
  return driver.cuDeviceGetCount(&count);
}

TEST(the_nth_call_of_a_kind_fails_once) {
  const test::EmulatedDevices devices;
  Driver& driver = test::emulator().driver();
  test::emulator().failing().fail(Call::cuDriverGetVersion, 2, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(ask_version(driver), CUDA_SUCCESS);
  EXPECT_EQ(ask_count(driver), CUDA_SUCCESS);
  EXPECT_EQ(ask_version(driver), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(ask_version(driver), CUDA_SUCCESS);
}

TEST(the_nth_call_at_all_fails_once) {
  const test::EmulatedDevices devices;
  Driver& driver = test::emulator().driver();
  test::emulator().failing().fail(std::nullopt, 2, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ask_version(driver), CUDA_SUCCESS);
  EXPECT_EQ(ask_count(driver), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ask_count(driver), CUDA_SUCCESS);
}

TEST(rules_add_up_and_can_be_cleared) {
  const test::EmulatedDevices devices;
  Driver& driver = test::emulator().driver();
  FailingDriver& failing = test::emulator().failing();
  failing.fail(Call::cuDeviceGetCount, 1, CUDA_ERROR_UNKNOWN);
  failing.fail(std::nullopt, 1, CUDA_ERROR_TIMEOUT);
  failing.fail(Call::cuDriverGetVersion, 1, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(ask_count(driver), CUDA_ERROR_UNKNOWN);  // two rules fire at this call, the older one answers
  EXPECT_EQ(ask_version(driver), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(ask_version(driver), CUDA_SUCCESS);
  failing.fail(std::nullopt, 1, CUDA_ERROR_UNKNOWN);
  failing.clear();
  EXPECT_EQ(ask_version(driver), CUDA_SUCCESS);
}

TEST(an_injected_fault_is_not_explained_by_the_library) {
  const test::EmulatedDevices devices;
  Driver& driver = test::emulator().driver();
  EXPECT_EQ(driver.cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT(!driver.explain(Call::cuMemRelease, CUDA_ERROR_INVALID_VALUE).detail.empty());
  test::emulator().failing().fail(Call::cuMemRelease, 1, CUDA_ERROR_LAUNCH_FAILED);
  const CUresult result = driver.cuMemRelease(0);
  const Error error = driver_error(driver, Call::cuMemRelease, result);
  EXPECT_EQ(error.kind(), ErrorKind::sticky);
  EXPECT_EQ(error.answer()->detail, "a fault injected by a test");
}

}  // namespace
}  // namespace memlake
