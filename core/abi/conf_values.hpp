#pragma once

// The values of a configuration: numbers, sizes and lists, each refused with a sentence that names its key. The bounds
// are those of memlake.policies in Python, and of PyTorch; a test compares the two readers.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.hpp"

namespace memlake::abi {

/// One entry of the text.
struct Entry {
  std::string_view key;
  std::string_view value;
};

/// Throws Error(config): "KEY must be WANTED, got 'VALUE'".
[[noreturn]] void refuse(const Entry& entry, std::string_view wanted);

/// "4GiB", "512MB", "1.5G", "4096".
Bytes parse_size(const Entry& entry);
/// "90%"; false if the value is no percentage at all.
bool parse_percentage(const Entry& entry, double& share);
/// A whole number of MiB.
Bytes parse_mib(const Entry& entry);
/// A whole number of at least 0.
std::uint64_t parse_count(const Entry& entry);
/// From `least` to `most`.
double parse_number(const Entry& entry, double least, double most);
/// From 0 to 1.
double parse_share(const Entry& entry);
bool parse_boolean(const Entry& entry);
/// "4", or a list by size in MiB such as "[256:1,512:2,>:8]": for 1 MiB, 2 MiB, ... 32 GiB and more.
std::array<std::uint32_t, 16> parse_divisions(const Entry& entry);

/// Cut to a length that fits into a sentence, in quotes.
std::string shown(std::string_view text);

}  // namespace memlake::abi
