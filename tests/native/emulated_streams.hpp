#pragma once

// Streams of the emulator for tests that use nothing but C functions.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "driver/cuda_abi.hpp"
#include "memlake_emulator.h"
#include "test.hpp"

extern "C" {
int cuDevicePrimaryCtxRetain(memlake::cuda::CUcontext* context, int device);
int cuCtxSetCurrent(memlake::cuda::CUcontext context);
int cuStreamCreate(memlake::cuda::CUstream* stream, unsigned flags);
int cuStreamSynchronize(memlake::cuda::CUstream stream);
int cuStreamDestroy_v2(memlake::cuda::CUstream stream);
int cuStreamBeginCapture_v2(memlake::cuda::CUstream stream, int mode);
int cuStreamEndCapture(memlake::cuda::CUstream stream, memlake::cuda::CUgraph* graph);
int cuGraphDestroy(memlake::cuda::CUgraph graph);
int cuMemsetD8Async(std::uint64_t address, unsigned char value, std::size_t count, memlake::cuda::CUstream stream);
}

namespace memlake::test {

/// A non-blocking stream of the first emulated device, for the rest of the process.
inline cuda::CUstream make_stream() {
  cuda::CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
  EXPECT_EQ(cuCtxSetCurrent(context), 0);
  cuda::CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 1), 0);
  return stream;
}

/// Begins a capture, and ends it: it must be intact.
inline void begin_capture(cuda::CUstream stream, int mode = 0) { EXPECT_EQ(cuStreamBeginCapture_v2(stream, mode), 0); }
inline void end_capture(cuda::CUstream stream) {
  cuda::CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), 0);
  EXPECT_EQ(cuGraphDestroy(graph), 0);
}

/// The driver calls of this process since the last reset_calls(): of one kind, or of all. Exchanging the capture mode
/// is about the thread alone, and is not counted among all.
inline void reset_calls() { EXPECT_EQ(memlakeEmulatorResetLedger(), 0); }
inline std::uint64_t driver_calls(const std::string& name = "") {
  std::size_t size = 0;
  EXPECT_EQ(memlakeEmulatorLedger(nullptr, &size), 0);
  std::string ledger(size, ' ');
  EXPECT_EQ(memlakeEmulatorLedger(ledger.data(), &size), 0);
  const std::size_t begin = ledger.find("\"calls\"");
  const std::string calls = ledger.substr(begin, ledger.find('}', begin) - begin);
  std::uint64_t sum = 0;
  for (std::size_t at = calls.find("\"cu"); at != std::string::npos; at = calls.find("\"cu", at + 1)) {
    const std::size_t end = calls.find('"', at + 1);
    const std::string known = calls.substr(at + 1, end - at - 1);
    const bool is_meant = name.empty() ? known != "cuThreadExchangeStreamCaptureMode" : known == name;
    if (is_meant) sum += std::strtoull(calls.c_str() + calls.find(':', end) + 1, nullptr, 10);
  }
  return sum;
}

}  // namespace memlake::test
