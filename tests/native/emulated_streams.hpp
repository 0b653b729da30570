#pragma once

// Streams of the emulator for tests that use nothing but C functions.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "driver/cuda_abi.hpp"
#include "memlake_emulator.h"
#include "test.hpp"

extern "C" {
int cuDevicePrimaryCtxRetain(memlake::cuda::CUcontext* context, int device);
int cuCtxSetCurrent(memlake::cuda::CUcontext context);
int cuStreamCreate(memlake::cuda::CUstream* stream, unsigned flags);
int cuStreamSynchronize(memlake::cuda::CUstream stream);
int cuStreamBeginCapture_v2(memlake::cuda::CUstream stream, int mode);
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

}  // namespace memlake::test
