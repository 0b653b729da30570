#include "code/images/ptx_words.hpp"

#include <algorithm>

namespace memlake::emulator {

namespace {

bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

}  // namespace

void PtxWords::skip_blanks() {
  while (!rest_.empty()) {
    if (rest_.starts_with("//")) {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    } else if (rest_.starts_with("/*")) {
      const auto end = rest_.find("*/", 2);
      const auto size = end == std::string_view::npos ? rest_.size() : end + 2;
      line_ += static_cast<unsigned>(std::ranges::count(rest_.substr(0, size), '\n'));
      rest_.remove_prefix(size);
    } else if (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r' || rest_.front() == '\n') {
      if (rest_.front() == '\n') ++line_;
      rest_.remove_prefix(1);
    } else {
      return;
    }
  }
}

void PtxWords::advance() {
  skip_blanks();
  std::size_t size = rest_.empty() ? 0 : 1;
  if (!rest_.empty() && rest_.front() == '"') {
    const auto end = rest_.find('"', 1);
    size = end == std::string_view::npos ? rest_.size() : end + 1;
  } else if (!rest_.empty() && (rest_.front() == '.' || is_of_word(rest_.front()))) {
    while (size < rest_.size() && is_of_word(rest_[size])) ++size;
  }
  word_ = rest_.substr(0, size);
  rest_.remove_prefix(size);
}

}  // namespace memlake::emulator
