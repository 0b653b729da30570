#pragma once

// Tests of the checks. A test breaks one thing that a check guards, sees the check report exactly that, and mends it.
// tools/check_guards.py reads the tables: a sentence of a check that no test expects is an error there.

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "policies/space.hpp"
#include "test.hpp"

namespace memlake::test {

/// Undoes what was broken.
using Mend = std::function<void()>;

/// Gives `place` another value.
template <class T>
[[nodiscard]] Mend change(T& place, std::type_identity_t<T> value) {
  const auto before = std::make_shared<T>(std::exchange(place, std::move(value)));
  return [&place, before] { place = std::move(*before); };
}

/// Two places exchange their values.
template <class T>
[[nodiscard]] Mend exchange(T& one, T& other) {
  std::swap(one, other);
  return [&one, &other] { std::swap(one, other); };
}

/// Breaks several things, in order, and mends them in the reverse order.
[[nodiscard]] inline Mend all(std::vector<Mend> mends) {
  return [mends = std::move(mends)] {
    for (auto mend = mends.rbegin(); mend != mends.rend(); ++mend) (*mend)();
  };
}

/// One way to break something, and what the check must say. `*` in the sentence stands for any text.
struct Guard {
  const char* sentence;
  const char* breach;
  std::function<Mend()> break_it;
};

/// The sentences of one file of the core, named from the root of the project.
struct Guards {
  const char* file;
  std::vector<Guard> guards;
};

/// Whether the text is the pattern, where `*` in the pattern stands for any text.
inline bool matches(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  for (std::size_t skipped = 0; skipped <= text.size(); ++skipped)
    if (matches(text.substr(skipped), pattern)) return true;
  return false;
}

using Check = std::function<std::optional<std::string>()>;

/// The check of one space.
inline Check check_of(const Space& space) {
  return [&space] {
    InvariantReport report;
    space.check(report);
    return report.sentence;
  };
}

/// Breaks and mends one thing after the other.
inline void expect_reported(const Check& check, const Guards& table,
                            std::source_location where = std::source_location::current()) {
  for (const Guard& guard : table.guards) {
    const std::string name = std::string(table.file) + ", " + guard.breach;
    if (const auto broken = check()) return fail(name + ": broken before: " + *broken, where);
    const Mend mend = guard.break_it();
    const auto reported = check();
    mend();
    if (!reported || !matches(*reported, guard.sentence))
      fail(name + ": expected " + guard.sentence + ", got " + reported.value_or("nothing"), where);
    if (const auto broken = check()) return fail(name + ": not mended: " + *broken, where);
  }
}

}  // namespace memlake::test
