#pragma once

// A hash with a secret that is new in every process, so that a file cannot choose values whose hashes are equal.

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>

namespace memlake::pickles {

class SeededHash {
 public:
  SeededHash() {
    // Not std::random_device: a static libstdc++ implements it with a function that only the newest glibc has.
    if (getentropy(secrets_, sizeof secrets_) != 0)
      throw std::system_error(errno, std::generic_category(), "getentropy");
    for (std::uint64_t& secret : secrets_) secret |= 1;
  }

  [[nodiscard]] std::uint64_t operator()(std::uint64_t number) const { return mix(number ^ secrets_[0], secrets_[1]); }

  [[nodiscard]] std::uint64_t operator()(std::span<const std::byte> bytes) const {
    std::uint64_t hash = secrets_[0] ^ bytes.size();
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      hash = mix(hash ^ word, secrets_[1]);
    }
    std::uint64_t rest = 0;
    if (!bytes.empty()) std::memcpy(&rest, bytes.data(), bytes.size());
    return mix(hash ^ rest, secrets_[2]);
  }

 private:
  /// Both halves of the product of 128 bits, one over the other.
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    __extension__ using Product = unsigned __int128;
    const Product product = static_cast<Product>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t secrets_[3];
};

}  // namespace memlake::pickles
