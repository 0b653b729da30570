#pragma once

// Writes JSON. Nothing more than the ledger needs: objects, arrays, strings, integers, booleans.

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

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
    separate();
    quoted(key);
    out_ += ':';
    needs_comma_ = false;
    body();
    needs_comma_ = true;
  }

  void field(std::string_view key, std::string_view text) {
    member(key, [&] { value(text); });
  }
  void field(std::string_view key, const char* text) { field(key, std::string_view(text)); }
  void field(std::string_view key, bool flag) {
    member(key, [&] { raw(flag ? "true" : "false"); });
  }
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  void field(std::string_view key, Integer number) {
    member(key, [&] { raw(std::to_string(number)); });
  }

  void value(std::string_view text) {
    separate();
    quoted(text);
    needs_comma_ = true;
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  template <class Body>
  void enclosed(char open, char close, Body&& body) {
    separate();
    out_ += open;
    needs_comma_ = false;
    body();
    out_ += close;
    needs_comma_ = true;
  }

  void separate() {
    if (needs_comma_) out_ += ',';
  }

  void raw(std::string_view text) {
    separate();
    out_ += text;
    needs_comma_ = true;
  }

  void quoted(std::string_view text) {
    out_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        (out_ += '\\') += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        out_ += escaped;
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace memlake::emulator
