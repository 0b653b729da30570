// Virtual memory on the host: the program's own code reaches it only where the host was granted access (A7.10).

#include <string>

#include "abi.hpp"
#include "cpu_access.hpp"

namespace memlake::test {

namespace {

CUmemAllocationProp host_prop(CUmemLocationType type = CU_MEM_LOCATION_TYPE_HOST) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {type, 0};
  return prop;
}

CUmemAccessDesc host_access(unsigned flags, CUmemLocationType type = CU_MEM_LOCATION_TYPE_HOST) {
  return {{type, 0}, static_cast<CUmemAccess_flags>(flags)};
}

std::uint64_t map_host(const CUmemAllocationProp& prop = host_prop()) {
  const std::uint64_t address = reserve(kGranule);
  must(cuMemMap(address, kGranule, 0, create(prop, kGranule), 0));
  return address;
}

}  // namespace

PROCESS_TEST(a_device_reaches_host_memory_that_the_program_itself_cannot_touch) {
  const World world;
  const std::uint64_t address = map_host();
  EXPECT_EQ(cpu_access(address), 0U);
  set_access(address, kGranule, access_desc(world.first));
  EXPECT_EQ(cpu_access(address), 0U);
  must(cuMemcpyHtoD_v2(address + 100, "through the device", 19));
  must(cuMemsetD8_v2(address + 107, '_', 1));
  char bytes[19];
  must(cuMemcpyDtoH_v2(bytes, address + 100, sizeof bytes));
  EXPECT_EQ(std::string(bytes), "through_the device");
  for (const unsigned flags : {1U, 3U, 0U}) {
    set_access(address, kGranule, host_access(flags));
    EXPECT_EQ(cpu_access(address), flags);
  }
}

PROCESS_TEST(the_program_and_the_device_see_the_same_host_memory) {
  const World world;
  const std::uint64_t address = map_host();
  set_access(address, kGranule, access_desc(world.first));
  set_access(address, kGranule, host_access(3));
  must(cuMemcpyHtoD_v2(address, "one", 4));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(address)), "one");
  std::string("two").copy(reinterpret_cast<char*>(address), 3);
  char bytes[4];
  must(cuMemcpyDtoH_v2(bytes, address, sizeof bytes));
  EXPECT_EQ(std::string(bytes), "two");
}

PROCESS_TEST(one_copy_goes_over_memory_of_the_host_and_of_a_device) {
  const World world;
  const std::uint64_t address = reserve(3 * kGranule);
  must(cuMemMap(address, kGranule, 0, create(world.first, kGranule), 0));
  must(cuMemMap(address + kGranule, kGranule, 0, create(host_prop(), kGranule), 0));
  must(cuMemMap(address + 2 * kGranule, kGranule, 0, create(world.first, kGranule), 0));
  set_access(address, 3 * kGranule, access_desc(world.first));
  std::string bytes(3 * kGranule, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 3);
  must(cuMemcpyHtoD_v2(address, bytes.data(), bytes.size()));
  std::string back(bytes.size(), '\0');
  must(cuMemcpyDtoH_v2(back.data(), address, back.size()));
  EXPECT(back == bytes);
}

PROCESS_TEST(a_host_numa_descriptor_is_for_host_numa_memory_only) {
  const World world;
  const auto numa = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  const std::uint64_t host = map_host();
  const std::uint64_t on_node = map_host(host_prop(numa));
  const CUmemAccessDesc of_node = host_access(3, numa);
  EXPECT_EQ(cuMemSetAccess(host, kGranule, &of_node, 1), CUDA_ERROR_INVALID_VALUE);
  set_access(on_node, kGranule, of_node);
  EXPECT_EQ(cpu_access(on_node), 3U);
  set_access(on_node, kGranule, host_access(1));
  EXPECT_EQ(cpu_access(on_node), 1U);
}

PROCESS_TEST(device_memory_is_open_to_the_program_as_far_as_to_any_device) {
  const World world("devices=2,memory=64MiB");
  const std::uint64_t address = new_mapping(world.first);
  EXPECT_EQ(cpu_access(address), 3U);
  set_access(address, kGranule, access_desc(world.first + 1, 1));
  set_access(address, kGranule, access_desc(world.first, 0));
  EXPECT_EQ(cpu_access(address), 1U);
}

PROCESS_TEST(pinned_memory_belongs_to_the_device_of_the_context_that_made_it) {
  const World world("devices=2,memory=256MiB");
  int registered = 0;
  for (const std::size_t index : {0, 1}) {
    world.use(index);
    void* pinned = nullptr;
    must(cuMemHostAlloc(&pinned, 64, 0));
    must(cuMemHostRegister_v2(&registered, sizeof registered, 0));
    for (const void* pointer : {static_cast<const void*>(pinned), static_cast<const void*>(&registered)}) {
      int ordinal = -1;
      must(
          cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, reinterpret_cast<CUdeviceptr>(pointer)));
      EXPECT_EQ(ordinal, world.first + static_cast<int>(index));
    }
    must(cuMemHostUnregister(&registered));
    must(cuMemFreeHost(pinned));
  }
}

}  // namespace memlake::test
