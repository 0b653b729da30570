#pragma once

// The text that describes policies and pools: "stitch,frag_limit:64MiB", "key:value,key:value". These functions split
// it into settings and parse their values. They refuse an invalid value with a sentence that names its key.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"

namespace memlake {

/// One entry of the text.
struct Setting {
  std::string key;
  std::string value;
};

/// One number for each size of 1 MiB, 2 MiB, ... 32 GiB and more.
using Divisions = std::array<std::uint32_t, 16>;

/// The entries of a text, in their order. Blanks are ignored. A first entry without a colon is the name of a policy: it
/// becomes policy:NAME. Throws Error(config).
std::vector<Setting> read_settings(std::string_view text);

/// Throws Error(config): "KEY must be WANTED, got 'VALUE'".
[[noreturn]] void refuse(const Setting& setting, std::string_view wanted);

// Each parses one value. For an invalid text it calls refuse() with `wanted`.

/// "4GiB", "512MB", "1.5G", "4096".
Bytes parse_size(const Setting& setting, std::string_view wanted = "a size such as 4GiB, 512MB or 4096");
/// A whole number of MiB.
Bytes parse_mib(const Setting& setting, std::string_view wanted);
/// A whole number of at least 0.
std::uint64_t parse_count(const Setting& setting, std::string_view wanted);
/// Digits with at most one point: no sign, no exponent.
double parse_number(const Setting& setting, std::string_view wanted);
/// "True" or "False".
bool parse_boolean(const Setting& setting);
/// "4", or a list by size in MiB such as "[256:1,512:2,>:8]".
Divisions parse_divisions(const Setting& setting, std::string_view wanted);
/// "90%"; false if the value is no percentage at all.
bool parse_percentage(const Setting& setting, double& share);

// Values as text that the functions above can parse.

std::string size_text(Bytes size);  ///< in the largest unit of which it is a whole number: "128MiB"
std::string number_text(double number);

/// The text in quotes, cut to a length that fits into a sentence. Bytes that are not printable ASCII are escaped.
std::string shown(std::string_view text);
/// The known word that is most similar; "" if none is similar enough.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);
/// "a", "a and b", "a, b and c" for the last word "and".
std::string listed(std::span<const std::string> words, std::string_view last_word);

}  // namespace memlake
