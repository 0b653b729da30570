#include "driver/result.hpp"
#include "test.hpp"

namespace memlake {
namespace {

ErrorKind kind_of(const char* call, int code, bool is_violation = false) {
  return driver_error(call, static_cast<CUresult>(code), {"", is_violation}).kind();
}

TEST(out_of_addresses_is_not_out_of_memory) {
  EXPECT_EQ(kind_of("cuMemCreate", 2), ErrorKind::out_of_memory);
  EXPECT_EQ(kind_of("cuMemAlloc", 2), ErrorKind::out_of_memory);
  EXPECT_EQ(kind_of("cuMemAddressReserve", 2), ErrorKind::address_exhaustion);
  const Error error = driver_error("cuMemAddressReserve", CUDA_ERROR_OUT_OF_MEMORY, {});
  EXPECT(error.answer()->meaning.find("addresses") != std::string::npos);
}

TEST(sticky_errors_are_not_out_of_memory) {
  for (const int code : {700, 716, 719}) EXPECT_EQ(kind_of("cuMemCreate", code), ErrorKind::sticky);
}

TEST(a_violation_is_not_sticky) {
  EXPECT_EQ(kind_of("cuMemUnmap", 719, true), ErrorKind::contract_violation);
  EXPECT_EQ(kind_of("cuMemRelease", 1, true), ErrorKind::contract_violation);
  const Error error = driver_error("cuMemUnmap", CUDA_ERROR_LAUNCH_FAILED, {"the copy still reads it", true});
  EXPECT(error.answer()->meaning.find("contract") != std::string::npos);
  EXPECT_EQ(error.answer()->detail, "the copy still reads it");
}

TEST(every_other_code_has_its_kind) {
  EXPECT_EQ(kind_of("cuStreamQuery", 600), ErrorKind::not_ready);
  for (const int code : {3, 4, 709}) EXPECT_EQ(kind_of("cuMemRelease", code), ErrorKind::driver_gone);
  for (const int code : {1, 101, 201, 217, 400}) EXPECT_EQ(kind_of("cuMemMap", code), ErrorKind::invalid_call);
  for (const int code : {100, 801, 999, 12345}) EXPECT_EQ(kind_of("cuInit", code), ErrorKind::other);
}

TEST(an_unknown_code_keeps_its_number) {
  const Error error = driver_error("cuInit", static_cast<CUresult>(12345), {});
  EXPECT_EQ(error.answer()->name, "CUresult 12345");
  EXPECT_EQ(error.answer()->code, 12345);
}

TEST(calls_are_found_by_their_cuda_name) {
  EXPECT(find_call("cuMemMap") == Call::cuMemMap);
  EXPECT(!find_call("cuMemMap_v2") && !find_call(""));
  EXPECT_EQ(std::string(name_of(Call::cuMemAlloc)), "cuMemAlloc");
}

}  // namespace
}  // namespace memlake
