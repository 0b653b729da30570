#pragma once

// InvariantReport: the first invariant that a check found broken, as a sentence that begins with its name.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "blocks/block.hpp"

namespace memlake {

struct InvariantReport {
  std::optional<std::string> sentence = {};

  template <class... Parts>
  void add(const Parts&... parts) {
    if (!sentence) say({Part(parts)...});
  }

 private:
  /// One word or number of the sentence. It refers to its text, so it does not outlive the expression.
  struct Part {
    Part(const char* word) : text(word) {}
    Part(const std::string& word) : text(word) {}
    template <std::unsigned_integral Integer>
    Part(Integer count) : number(count), is_number(true) {}
    template <std::signed_integral Integer>
    Part(Integer count) : number(static_cast<std::uint64_t>(std::int64_t{count})), is_number(true), has_sign(true) {}

    std::string_view text = {};
    std::uint64_t number = 0;
    bool is_number = false;
    bool has_sign = false;
  };

  // In the .cpp, so that it is compiled once and not for every sentence.
  void say(std::initializer_list<Part> parts);
};

/// The description of a block in such a sentence.
std::string place(const Block& block);

}  // namespace memlake
