#pragma once

// Reads numbers and names from unchecked bytes. Every read stays inside the bytes, or throws.

#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "basics/refusal.hpp"

namespace memlake::emulator {

class Bytes {
 public:
  explicit Bytes(std::span<const char> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }
  [[nodiscard]] const char* data() const { return bytes_.data(); }

  /// A part of the bytes. Throws 200 if it is not inside.
  [[nodiscard]] Bytes part(std::uint64_t offset, std::uint64_t size, const char* what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: ", what, " lies at offset ", offset, " with ", size,
             " bytes, but there are only ", bytes_.size(), " bytes");
    return Bytes(bytes_.subspan(offset, size));
  }

  /// A little-endian number. Throws 200 if it is not inside.
  template <std::unsigned_integral Number>
  [[nodiscard]] Number number(std::uint64_t offset, const char* what) const {
    Number value;
    std::memcpy(&value, part(offset, sizeof value, what).data(), sizeof value);
    return value;
  }

  /// A name that ends with a zero byte. Throws 200 if it does not end inside.
  [[nodiscard]] std::string_view name(std::uint64_t offset, const char* what) const {
    const Bytes rest = part(offset, offset <= bytes_.size() ? bytes_.size() - offset : 1, what);
    const void* end = rest.size() == 0 ? nullptr : std::memchr(rest.data(), 0, rest.size());
    if (end == nullptr) refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: ", what, " has no end");
    return {rest.data(), static_cast<std::size_t>(static_cast<const char*>(end) - rest.data())};
  }

 private:
  std::span<const char> bytes_;
};

}  // namespace memlake::emulator
