#pragma once

// The content of a loaded image that the emulator uses: the kernels with their parameters and resources, and the global
// variables. The emulator does not read instructions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace memlake::emulator {

struct Parameter {
  std::uint64_t offset;
  std::uint64_t size;
};

struct KernelImage {
  std::string name;
  std::vector<Parameter> parameters = {};
  int registers = 0;  ///< per thread; PTX has no such number, see kRegistersOfPtx
  std::uint64_t shared = 0;
  std::uint64_t local = 0;
  std::uint64_t constant = 0;
  std::uint64_t max_threads = 0;  ///< of a block, by the kernel's own launch bounds; 0: no bound
  unsigned cluster[3] = {0, 0, 0};

  /// The size of the buffer that holds all parameters.
  [[nodiscard]] std::uint64_t parameter_bytes() const {
    std::uint64_t end = 0;
    for (const Parameter& parameter : parameters)
      if (parameter.offset + parameter.size > end) end = parameter.offset + parameter.size;
    return end;
  }
};

struct GlobalImage {
  enum class Kind { device, constant, managed };

  std::string name;
  std::uint64_t size;
  Kind kind;
  std::vector<char> initial = {};  ///< shorter than the size: the rest is zero
};

struct Image {
  std::vector<KernelImage> kernels = {};
  std::vector<GlobalImage> globals = {};
  int ptx_version = 0;     ///< the virtual architecture, for instance 80
  int binary_version = 0;  ///< the architecture of the code, for instance 80; of PTX: the one of the device
};

/// A compiler chooses the number of registers when it translates PTX. This stands for the number that it would choose.
inline constexpr int kRegistersOfPtx = 32;

/// The largest parameter buffer of a kernel, from PTX 8.1 on.
inline constexpr std::uint64_t kMostParameterBytes = 32764;

}  // namespace memlake::emulator
