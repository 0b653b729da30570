#include "code/images/load.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "code/images/bytes.hpp"
#include "code/images/cubin.hpp"
#include "code/images/fatbin.hpp"
#include "code/images/program_memory.hpp"
#include "code/images/ptx.hpp"

namespace memlake::emulator {

namespace {

// The output of the emulated linker: this text, zeros, the size of everything behind, then for each input its size and
// its bytes. Sizes have 8 bytes.
constexpr std::string_view kLinkedMagic = "memlake linked\n";
constexpr std::uint64_t kLinkedSize = 24;
constexpr std::uint64_t kLinkedHeaderBytes = 32;

bool is_linked(Bytes bytes) {
  return bytes.size() >= kLinkedMagic.size() &&
         std::memcmp(bytes.data(), kLinkedMagic.data(), kLinkedMagic.size()) == 0;
}

/// The newest PTX that a driver translates, as NVIDIA's table of PTX versions has it.
int newest_ptx(int driver) {
  const int major = driver / 1000;
  const int minor = driver % 1000 / 10;
  if (major == 12) return minor <= 5 ? 80 + minor : 79 + minor;
  return (major - 4) * 10 + minor;  // 11.x has PTX 7.x, 13.x has 9.x
}

Image read_text(std::string_view ptx, Target target) {
  Ptx read = read_ptx(ptx);
  const int newest = newest_ptx(target.driver);
  if (read.language > newest)
    refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX has version ", read.language / 10, ".", read.language % 10,
           ", and a driver of version ", target.driver, " translates up to ", newest / 10, ".", newest % 10,
           "; set driver= to a newer version, or compile to a cubin");
  if (read.image.ptx_version > target.architecture)
    refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the PTX is for architecture ", read.image.ptx_version,
           ", newer than the device's, ", target.architecture);
  read.image.binary_version = target.architecture;
  return std::move(read.image);
}

Image read_elf(Bytes file, Target target) {
  Image image = read_cubin(file);
  if (image.binary_version / 10 != target.architecture / 10 || image.binary_version > target.architecture)
    refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the cubin is for architecture ", image.binary_version,
           ", and the device has architecture ", target.architecture);
  return image;
}

Image read_plain(std::span<const char> bytes, Target target) {
  if (is_elf(Bytes(bytes))) return read_elf(Bytes(bytes), target);
  const std::string_view ptx(bytes.data(), bytes.size());
  if (is_ptx(ptx)) return read_text(ptx.substr(0, ptx.find('\0')), target);
  refuse(CUDA_ERROR_INVALID_IMAGE, "the image is neither PTX, a cubin nor a fatbin");
}

void append(Image& to, Image&& from) {
  std::ranges::move(from.kernels, std::back_inserter(to.kernels));
  std::ranges::move(from.globals, std::back_inserter(to.globals));
  to.ptx_version = std::max(to.ptx_version, from.ptx_version);
  to.binary_version = std::max(to.binary_version, from.binary_version);
}

Image read_linked(Bytes bytes, Target target) {
  Image image;
  for (std::uint64_t at = kLinkedHeaderBytes; at < bytes.size();) {
    const auto size = bytes.number<std::uint64_t>(at, "a linked part");
    const Bytes part = bytes.part(at + sizeof size, size, "a linked part");
    append(image, read_plain({part.data(), part.size()}, target));
    at += sizeof size + size;
  }
  return image;
}

}  // namespace

std::vector<char> bytes_of_image(const void* pointer) {
  const auto start = copy_of_program_memory(pointer, sizeof(std::uint32_t));
  const auto magic = Bytes(start).number<std::uint32_t>(0, "the image");
  if (magic == kFatbinWrapperMagic) {
    const auto wrapper = copy_of_program_memory(pointer, 16);
    const void* inner = reinterpret_cast<const void*>(Bytes(wrapper).number<std::uint64_t>(8, "the wrapper"));
    const auto header = copy_of_program_memory(inner, kFatbinHeaderBytes);
    if (!is_fatbin(Bytes(header))) refuse(CUDA_ERROR_INVALID_IMAGE, "the wrapper contains no fatbin");
    return copy_of_program_memory(inner, end_of_fatbin(Bytes(header)));
  }
  if (magic == kFatbinMagic)
    return copy_of_program_memory(pointer, end_of_fatbin(Bytes(copy_of_program_memory(pointer, kFatbinHeaderBytes))));
  if (is_elf(Bytes(start))) {
    const auto header = copy_of_program_memory(pointer, kElfHeaderBytes);
    const auto tables = copy_of_program_memory(pointer, end_of_elf_tables(Bytes(header)));
    return copy_of_program_memory(pointer, end_of_elf(Bytes(tables)));
  }
  const std::string words = copy_of_program_text(pointer);
  if (is_linked(Bytes(words))) {
    const auto header = copy_of_program_memory(pointer, kLinkedHeaderBytes);
    const auto size = Bytes(header).number<std::uint64_t>(kLinkedSize, "the linked image");
    if (size > UINT64_MAX - kLinkedHeaderBytes) refuse(CUDA_ERROR_INVALID_IMAGE, "the linked image is damaged");
    return copy_of_program_memory(pointer, kLinkedHeaderBytes + size);
  }
  return {words.begin(), words.end()};
}

Image read_image(std::span<const char> bytes, Target target) {
  if (is_linked(Bytes(bytes))) return read_linked(Bytes(bytes), target);
  if (is_fatbin(Bytes(bytes))) return read_plain(code_for(Bytes(bytes), target.architecture), target);
  if (is_elf(Bytes(bytes)) && bytes.size() >= kElfHeaderBytes && is_relocatable(Bytes(bytes)))
    refuse(CUDA_ERROR_INVALID_IMAGE, "the cubin is relocatable (-rdc=true); link it first");
  return read_plain(bytes, target);
}

void check_linkable(std::span<const char> bytes, Target target) { (void)read_plain(bytes, target); }

std::vector<char> linked(const std::vector<std::vector<char>>& inputs) {
  std::vector<char> out(kLinkedHeaderBytes);
  std::ranges::copy(kLinkedMagic, out.begin());
  const auto put = [&](std::uint64_t size, std::size_t at) { std::memcpy(out.data() + at, &size, sizeof size); };
  for (const auto& input : inputs) {
    const std::size_t at = out.size();
    out.resize(at + sizeof(std::uint64_t));
    put(input.size(), at);
    out.insert(out.end(), input.begin(), input.end());
  }
  put(out.size() - kLinkedHeaderBytes, kLinkedSize);
  return out;
}

}  // namespace memlake::emulator
