#include "entries/managed_ranges.hpp"

namespace memlake::emulator {

void check_managed(const Driver& driver, std::uint64_t address, std::uint64_t size) {
  if (size == 0) invalid("the range has 0 bytes");
  if (address + size < address) invalid("the range at ", Hex{address}, " wraps around");
  if (const std::uint64_t hole = driver.memory.end_of_managed(address, size); hole < address + size)
    invalid(Hex{hole}, " is not managed memory");
}

PageHome checked_home(Driver& driver, const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      driver.devices.find(location.id);
      break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      if (location.id != 0) invalid("NUMA node ", location.id, " does not exist");
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      break;
    default:
      invalid("location type ", +location.type, " is not a place for memory");
  }
  return home_of(location);
}

void enqueue_on_ranges(Session& session, Stream& stream, std::vector<Touch> touches) {
  Driver& driver = session.driver;
  driver.pools.allocations().check_made(driver.streams.before(stream), touches);
  driver.enqueue(stream, Work{.name = session.origin.call, .origin = session.origin, .touches = std::move(touches)});
}

}  // namespace memlake::emulator
