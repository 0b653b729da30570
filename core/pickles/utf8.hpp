#pragma once

#include <optional>
#include <string_view>

namespace memlake::pickles {

/// The first byte that begins no character of UTF-8, or nothing. Lone surrogates are characters, as Python's pickles
/// have them.
std::optional<std::size_t> first_invalid(std::string_view text);

}  // namespace memlake::pickles
