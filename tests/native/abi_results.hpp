#pragma once

// What C functions of memlake.h return, for the tests that call nothing else.

#include <source_location>

#include "memlake.h"
#include "test.hpp"

namespace memlake::test {

inline void expect_ok(int code, std::source_location where = std::source_location::current()) {
  if (code != MEMLAKE_OK) fail(memlake_last_error(), where);
}

inline memlake_pool_stats_t stats_of(memlake_pool* pool) {
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof(stats);
  expect_ok(memlake_pool_stats(pool, &stats));
  return stats;
}

}  // namespace memlake::test
