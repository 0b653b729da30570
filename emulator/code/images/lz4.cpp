#include "code/images/lz4.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kLongLength = 15;  // the length goes on in the following bytes
constexpr std::uint64_t kShortestMatch = 4;

[[noreturn]] void damaged() { refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: a part cannot be decompressed"); }

}  // namespace

std::vector<char> decompress_lz4(Bytes block, std::uint64_t size) {
  std::vector<char> out;
  std::uint64_t at = 0;
  const auto length_from = [&](std::uint64_t start) {
    std::uint64_t length = start;
    if (start < kLongLength) return length;
    for (std::uint8_t more = 255; more == 255; length += more) {
      more = block.number<std::uint8_t>(at++, "a compressed part");
      if (length > size) damaged();
    }
    return length;
  };
  while (at < block.size()) {
    const auto token = block.number<std::uint8_t>(at++, "a compressed part");
    const std::uint64_t literals = length_from(token >> 4);
    const Bytes plain = block.part(at, literals, "a compressed part");
    if (literals > size - out.size()) damaged();
    out.insert(out.end(), plain.data(), plain.data() + literals);
    at += literals;
    if (at == block.size()) break;  // the last sequence has no match
    const auto distance = block.number<std::uint16_t>(at, "a compressed part");
    at += 2;
    const std::uint64_t match = length_from(token & 15U) + kShortestMatch;
    if (distance == 0 || distance > out.size() || match > size - out.size()) damaged();
    for (std::uint64_t i = 0; i < match; ++i) out.push_back(out[out.size() - distance]);
  }
  if (out.size() != size) damaged();
  return out;
}

}  // namespace memlake::emulator
