#pragma once

// Writes the JSON that the ledger needs: objects, arrays, strings, integers, booleans.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace memlake::emulator {

class Json {
 public:
  template <class Body>
  void object(Body&& body) {
    enclosed('{', '}', body);
  }

  template <class Body>
  void array(Body&& body) {
    enclosed('[', ']', body);
  }

  /// A member of the enclosing object; the body writes its value.
  template <class Body>
  void member(std::string_view key, Body&& body) {
    begin_member(key);
    body();
    needs_comma_ = true;
  }

  void field(std::string_view key, std::string_view text);
  void field(std::string_view key, const char* text) { field(key, std::string_view(text)); }
  void field(std::string_view key, bool flag);
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  void field(std::string_view key, Integer number) {
    if constexpr (std::signed_integral<Integer>) {
      signed_field(key, number);
    } else {
      unsigned_field(key, number);
    }
  }

  void value(std::string_view text);

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  template <class Body>
  void enclosed(char open, char close, Body&& body) {
    begin(open);
    body();
    end(close);
  }

  void begin(char open);
  void end(char close);
  void begin_member(std::string_view key);
  void signed_field(std::string_view key, std::int64_t number);
  void unsigned_field(std::string_view key, std::uint64_t number);
  void separate();
  void raw(std::string_view text);
  void quoted(std::string_view text);

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace memlake::emulator
