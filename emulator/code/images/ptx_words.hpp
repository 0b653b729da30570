#pragma once

// Splits PTX into words: directives, names, numbers, texts and single marks. Comments are skipped.

#include <string_view>

namespace memlake::emulator {

class PtxWords {
 public:
  explicit PtxWords(std::string_view text) : rest_(text) { advance(); }

  /// The present word; empty at the end of the text. A directive begins with a dot, a text with a quotation mark.
  [[nodiscard]] std::string_view word() const { return word_; }
  [[nodiscard]] bool is_at_end() const { return word_.empty(); }
  [[nodiscard]] unsigned line() const { return line_; }

  void advance();

  /// Returns the present word and advances.
  std::string_view take() {
    const std::string_view taken = word_;
    advance();
    return taken;
  }

  /// Advances over the word if it is the present one.
  bool accept(std::string_view expected) {
    if (word_ != expected) return false;
    advance();
    return true;
  }

 private:
  void skip_blanks();

  std::string_view rest_;
  std::string_view word_;
  unsigned line_ = 1;
};

}  // namespace memlake::emulator
