#pragma once

// The emulator's C ABI as a program sees it, and the steps most tests begin with.

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/array_abi.hpp"
#include "cuda/checkpoint_abi.hpp"
#include "cuda/graph_abi.hpp"
#include "cuda/green_abi.hpp"
#include "cuda/ipc_abi.hpp"
#include "cuda/managed_abi.hpp"
#include "driver/cuda_abi.hpp"
#include "memlake_emulator.h"
#include "own_process.hpp"
#include "work/launch_attributes.hpp"

namespace memlake::emulator {

using namespace memlake::cuda;

#define F(base, symbol, since, parameters, arguments) extern "C" CUresult symbol parameters;
#define S(base, symbol, since, suffix, parameters, arguments) \
  extern "C" CUresult symbol parameters;                      \
  extern "C" CUresult symbol##suffix parameters;
#define U(base, symbol, since) extern "C" CUresult symbol();
#define V(base, symbol, since, suffix) \
  extern "C" CUresult symbol();        \
  extern "C" CUresult symbol##suffix();
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V

}  // namespace memlake::emulator

namespace memlake::test {

using namespace memlake::emulator;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGranule = 2 * kMiB;

/// For a step that is not the point of the test: throws with the emulator's sentence.
void must(int code);

/// Adds devices, initialises the driver, and retains their primary contexts. The first one's is current.
struct World {
  explicit World(const std::string& config = "memory=256MiB");

  int first = 0;
  std::vector<CUcontext> contexts;

  void use(std::size_t index) const;
};

CUmemAllocationProp device_prop(int device, int handle_types = 0);
CUmemAccessDesc access_desc(int device, unsigned flags = 3);

std::uint64_t reserve(std::uint64_t size);
std::uint64_t create(int device, std::uint64_t size, int handle_types = 0);
std::uint64_t create(const CUmemAllocationProp& prop, std::uint64_t size);
void set_access(std::uint64_t address, std::uint64_t size, const CUmemAccessDesc& desc);

/// A reservation filled by one chunk, writable by its device. The chunk's handle is released: unmapping ends it.
std::uint64_t new_mapping(int device, std::uint64_t size = kGranule);

CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING);
CUevent new_event();
std::uint64_t hold(CUstream stream);
std::size_t pending(CUstream stream);

CUmemPoolProps pool_props(int device, int handle_types = 0, std::size_t most = 0);
CUmemoryPool new_pool(const CUmemPoolProps& props);
/// Of the pool, in the order of the stream.
std::uint64_t allocate(CUmemoryPool pool, std::uint64_t size, CUstream stream);
std::uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which);
void set_attribute(CUmemoryPool pool, CUmemPool_attribute which, std::uint64_t value);

std::uint64_t free_memory();
std::string ledger();

/// What memlakeEmulatorLastError() and memlakeEmulatorLastViolation() say contains this.
bool error_says(const std::string& part);
bool violation_says(const std::string& part);

}  // namespace memlake::test
