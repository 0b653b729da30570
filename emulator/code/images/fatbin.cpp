#include "code/images/fatbin.hpp"

#include <string>

#include "code/images/lz4.hpp"
#include "code/images/zstd.hpp"

namespace memlake::emulator {

namespace {

// The fields of an entry, as compilers of CUDA 11 to 13 write them.
constexpr std::uint64_t kEntryHeader = 4;
constexpr std::uint64_t kEntrySize = 8;
constexpr std::uint64_t kEntryCompressed = 16;
constexpr std::uint64_t kEntryArchitecture = 28;
constexpr std::uint64_t kEntryFlags = 40;
constexpr std::uint64_t kEntryDecompressed = 56;
constexpr std::uint64_t kEntryBytes = 64;
constexpr std::uint16_t kKindPtx = 1;
constexpr std::uint16_t kKindCubin = 2;
constexpr std::uint64_t kFlagLz4 = 0x2000;
constexpr std::uint64_t kFlagZstd = 0x8000;
constexpr std::uint64_t kMostDecompressed = std::uint64_t{1} << 30;

struct Entry {
  std::uint16_t kind;
  int architecture;
  std::uint64_t flags;
  Bytes payload;
  std::uint64_t decompressed;
};

bool is_compressed(const Entry& entry) { return (entry.flags & (kFlagLz4 | kFlagZstd)) != 0; }

bool is_usable(const Entry& entry, int architecture) {
  if (entry.architecture > architecture) return false;
  return entry.kind == kKindPtx || (entry.kind == kKindCubin && entry.architecture / 10 == architecture / 10);
}

bool is_better(const Entry& entry, const Entry& other) {
  return entry.kind != other.kind ? entry.kind == kKindCubin : entry.architecture > other.architecture;
}

std::vector<Entry> read_entries(Bytes fatbin) {
  std::vector<Entry> entries;
  const auto header = fatbin.number<std::uint16_t>(6, "the container");
  if (header < kFatbinHeaderBytes) refuse(CUDA_ERROR_INVALID_IMAGE, "the container's header is too short");
  const std::uint64_t end = end_of_fatbin(fatbin);
  for (std::uint64_t at = header; at < end;) {
    const Bytes entry = fatbin.part(at, kEntryBytes, "an entry of the container");
    const auto own = entry.number<std::uint32_t>(kEntryHeader, "an entry");
    const auto size = entry.number<std::uint64_t>(kEntrySize, "an entry");
    const auto flags = entry.number<std::uint64_t>(kEntryFlags, "an entry");
    const auto compressed = entry.number<std::uint32_t>(kEntryCompressed, "an entry");
    if (own < kEntryBytes) refuse(CUDA_ERROR_INVALID_IMAGE, "an entry of the container has a header that is too short");
    const Bytes whole = fatbin.part(at, fatbin.size() - at, "an entry").part(own, size, "an entry's code");
    Entry& made = entries.emplace_back(
        Entry{.kind = entry.number<std::uint16_t>(0, "an entry"),
              .architecture = static_cast<int>(entry.number<std::uint32_t>(kEntryArchitecture, "an entry") & 0xFFFF),
              .flags = flags,
              .payload = whole,
              .decompressed = entry.number<std::uint64_t>(kEntryDecompressed, "an entry")});
    if (is_compressed(made)) made.payload = whole.part(0, compressed, "an entry's code");
    at += own + size;  // both are inside the container, so the sum does not wrap
  }
  return entries;
}

std::vector<char> decompressed(const Entry& entry) {
  if (!is_compressed(entry)) return {entry.payload.data(), entry.payload.data() + entry.payload.size()};
  if (entry.decompressed > kMostDecompressed)
    refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: an entry of ", entry.payload.size(), " bytes claims ",
           entry.decompressed, " bytes");
  return (entry.flags & kFlagZstd) != 0 ? decompress_zstd(entry.payload, entry.decompressed)
                                        : decompress_lz4(entry.payload, entry.decompressed);
}

}  // namespace

bool is_fatbin(Bytes bytes) { return bytes.size() >= 4 && bytes.number<std::uint32_t>(0, "") == kFatbinMagic; }

std::uint64_t end_of_fatbin(Bytes header) {
  const auto own = header.number<std::uint16_t>(6, "the container");
  const auto size = header.number<std::uint64_t>(8, "the container");
  if (size > UINT64_MAX - own) refuse(CUDA_ERROR_INVALID_IMAGE, "the container claims ", size, " bytes");
  return own + size;
}

std::vector<char> code_for(Bytes fatbin, int architecture) {
  const std::vector<Entry> entries = read_entries(fatbin);
  const Entry* best = nullptr;
  std::string known;
  for (const Entry& entry : entries) {
    if (entry.kind != kKindPtx && entry.kind != kKindCubin) continue;
    known += text(known.empty() ? "" : ", ", entry.kind == kKindPtx ? "PTX for " : "code for ", entry.architecture);
    if (is_usable(entry, architecture) && (best == nullptr || is_better(entry, *best))) best = &entry;
  }
  if (best == nullptr)
    refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the fatbin has nothing for architecture ", architecture, "; it has ",
           known.empty() ? "no code" : known);
  return decompressed(*best);
}

}  // namespace memlake::emulator
