#pragma once

// A test that runs in a process of its own: the emulated driver is one per process, and some tests end theirs.

#include <functional>

#include "test.hpp"

namespace memlake::test {

/// How a child process ended.
struct Ended {
  int code = -1;   ///< its exit code; -1 if a signal ended it
  int signal = 0;  ///< the signal; 0 if it exited

  friend bool operator==(const Ended&, const Ended&) = default;
};
std::ostream& operator<<(std::ostream& out, const Ended& ended);

/// Through exit(), or at once: a child of a process with threads has what those left in the middle, and no threads.
enum class Leaves { by_exit, at_once };

/// Runs `body` in a forked child. Its exit code is 1 if an EXPECT failed or something was thrown.
Ended run_in_child(const std::function<void()>& body, Leaves leaves = Leaves::at_once);

/// Fails the running test unless the child went well.
void in_own_process(const std::function<void()>& body);

}  // namespace memlake::test

#define PROCESS_TEST(name)                                         \
  static void name##_in_child();                                   \
  TEST(name) { ::memlake::test::in_own_process(name##_in_child); } \
  static void name##_in_child()
