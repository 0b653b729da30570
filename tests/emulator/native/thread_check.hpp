#pragma once

// CHECK: a call that must succeed, in a thread that cannot report to its test. The test looks at the count at its end.

#include <atomic>
#include <iostream>
#include <string>

#include "abi.hpp"

namespace memlake::test {

static std::atomic<int> g_failures = 0;  // of each file by itself

static void check(int code, const char* what) {
  if (code == 0) return;
  ++g_failures;
  std::cout << std::string("  ") + what + " answered " + std::to_string(code) + ": " + memlakeEmulatorLastError() +
                   "\n";
}

#define CHECK(call) ::memlake::test::check(call, #call)

}  // namespace memlake::test
