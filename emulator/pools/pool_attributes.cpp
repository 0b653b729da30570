#include "pools/pool_attributes.hpp"

#include <cstring>

#include "basics/refusal.hpp"

namespace memlake::emulator {

namespace {

bool is_switch(CUmemPool_attribute attribute) {
  return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
         attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

int& switch_of(ReuseSwitches& switches, CUmemPool_attribute attribute) {
  if (attribute == CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES) return switches.follow_event_dependencies;
  if (attribute == CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC) return switches.allow_opportunistic;
  return switches.allow_internal_dependencies;
}

template <class T>
T read(const void* value) {
  T number{};
  std::memcpy(&number, value, sizeof number);
  return number;
}

template <class T>
void put(void* value, T number) {
  std::memcpy(value, &number, sizeof number);
}

}  // namespace

void set_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value) {
  if (value == nullptr) invalid("value is NULL");
  if (is_switch(attribute)) {
    switch_of(pool.switches, attribute) = read<int>(value) != 0 ? 1 : 0;
    return;
  }
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool.release_threshold = read<std::uint64_t>(value);
      return;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      invalid("attribute ", +attribute, " is read-only: it says what the pool has. To hold memory back, set ",
              "RELEASE_THRESHOLD (4); to limit the pool, give it a maxSize when it is made");
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (read<std::uint64_t>(value) != 0)
        invalid("attribute ", +attribute, " is a high-water mark, not a limit: it can only be reset, with the value 0");
      if (pool.memory == nullptr) {
        pool.imported_high = pool.imported_bytes;
      } else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
        pool.memory->reset_held_high();
      } else {
        pool.memory->reset_used_high();
      }
      return;
    default:
      invalid("pool attribute ", +attribute, " is unknown");
  }
}

void get_attribute(const Pool& pool, CUmemPool_attribute attribute, void* value) {
  if (value == nullptr) invalid("value is NULL");
  if (is_switch(attribute)) {
    ReuseSwitches switches = pool.switches;
    return put(value, switch_of(switches, attribute));
  }
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return put(value, pool.release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return put(value, pool.held());
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return put(value, pool.used());
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return put(value, pool.memory != nullptr ? pool.memory->held_high() : pool.imported_high);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return put(value, pool.memory != nullptr ? pool.memory->used_high() : pool.imported_high);
    default:
      invalid("pool attribute ", +attribute, " is unknown");
  }
}

}  // namespace memlake::emulator
