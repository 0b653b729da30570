#pragma once

// The smallest test framework that does the job. A TEST registers itself; a failed EXPECT prints where and goes on; an
// exception that leaves a TEST fails it. The last line printed is "N passed, M failed".

#include <cstddef>
#include <functional>
#include <iostream>
#include <optional>
#include <source_location>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace memlake::test {

/// Called by TEST before main.
int add_test(const char* name, void (*body)());
/// Which of the tests a process runs: every `count`th from the `number`th on. Other processes run the rest.
struct Part {
  std::size_t number = 1;
  std::size_t count = 1;
};
/// Runs those of a part whose name contains one of `filters`, or all of it; returns the exit code.
int run_tests(const Part& part, const std::vector<std::string>& filters);
/// Fails the running test.
void fail(const std::string& text, std::source_location where);
bool running_test_has_failed();

template <class T>
std::string shown(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (requires { out << value; }) {
    out << value;
  } else {
    out << "<" << sizeof(T) << " bytes>";
  }
  return out.str();
}

inline void expect(bool is_true, const char* text, std::source_location where = std::source_location::current()) {
  if (!is_true) fail(std::string("expected ") + text, where);
}

template <class A, class B>
void expect_equal(const A& actual, const B& wanted, const char* text,
                  std::source_location where = std::source_location::current()) {
  if (!(actual == wanted)) fail(std::string(text) + " is " + shown(actual) + ", expected " + shown(wanted), where);
}

/// The error `work` threw, for further questions; nothing, and a failure, if it threw none or one of another kind.
template <class Work>
std::optional<Error> expect_error(ErrorKind kind, Work&& work,
                                  std::source_location where = std::source_location::current()) {
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    if (error.kind() == kind) return error;
    fail(
        std::string("expected the error ") + kind_name(kind) + ", got " + kind_name(error.kind()) + ": " + error.what(),
        where);
    return std::nullopt;
  }
  fail(std::string("expected the error ") + kind_name(kind) + ", got none", where);
  return std::nullopt;
}

}  // namespace memlake::test

#define TEST(name)                                                                \
  static void name();                                                             \
  static const int name##_registered = ::memlake::test::add_test(#name, &(name)); \
  static void name()

#define EXPECT(condition) ::memlake::test::expect(static_cast<bool>(condition), #condition)
#define EXPECT_EQ(actual, wanted) ::memlake::test::expect_equal((actual), (wanted), #actual)
#define EXPECT_ERROR(kind, ...) ::memlake::test::expect_error(::memlake::ErrorKind::kind, [&] { __VA_ARGS__; })
