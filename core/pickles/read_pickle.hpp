#pragma once

// Reads a pickle of plain data: dicts with texts as keys, lists, tuples, texts, numbers, booleans and None. It knows
// only the opcodes that these need. It imports nothing, calls nothing and does not recurse.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <variant>

#include "pickles/document.hpp"
#include "pickles/fault.hpp"

namespace memlake::pickles {

/// Most open marks. Snapshots have fewer than ten.
inline constexpr std::size_t kDeepest = 100;
/// Most bytes of a number.
inline constexpr std::size_t kLongestNumber = 16;
inline constexpr std::uint8_t kNewestProtocol = 5;

/// Called with the number of bytes that are read, from time to time. What it throws leaves read_pickle.
using ReadProgress = std::function<void(std::uint64_t)>;

/// The content of a pickle, or the first fault. The document refers to `pickle`, which must outlive it. `allowed`: the
/// memory that the content may take in addition to the pickle.
std::variant<std::unique_ptr<Document>, Fault> read_pickle(std::span<const std::byte> pickle, std::uint64_t allowed,
                                                           const ReadProgress& progress);

}  // namespace memlake::pickles
