// How much a pool does per second, by the number of threads: each allocates and frees through the C ABI, over several
// streams.
//
// usage: abi_threads LIBRARY EMULATOR CONF THREADS STREAMS OPERATIONS PASSES
// CONF must be for the emulator at EMULATOR, in which the streams are made. STREAMS 0: all on the default stream.
// OPERATIONS is the number of all threads together. Prints millions of operations per second of wall time, one line per
// pass.

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/cuda_abi.hpp"
#include "loaded_library.hpp"
#include "memlake.h"

using namespace memlake::cuda;

namespace {

constexpr std::size_t kLive = 64;  // allocations that a thread has at a time

std::vector<CUstream> make_streams(const LoadedLibrary& emulator, std::size_t count) {
  CUcontext context = nullptr;
  expect_success(emulator.find<int(CUcontext*, int)>("cuDevicePrimaryCtxRetain")(&context, 0), "retain");
  expect_success(emulator.find<int(CUcontext)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
  const auto create = emulator.find<int(CUstream*, unsigned)>("cuStreamCreate");
  std::vector<CUstream> streams(count);
  for (CUstream& stream : streams) expect_success(create(&stream, 1), "cuStreamCreate");
  return streams;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: abi_threads LIBRARY EMULATOR CONF THREADS STREAMS OPERATIONS PASSES\n");
    return 2;
  }
  const LoadedLibrary library(argv[1]);
  const LoadedLibrary emulator(argv[2]);
  const auto allocate = library.find<decltype(memlake_pool_allocate)>("memlake_pool_allocate");
  const auto give_back = library.find<decltype(memlake_pool_free)>("memlake_pool_free");
  const auto last_error = library.find<decltype(memlake_last_error)>("memlake_last_error");
  memlake_pool* const pool = library.find<decltype(memlake_pool_create)>("memlake_pool_create")(argv[3], 0);
  if (pool == nullptr) {
    std::fprintf(stderr, "%s\n", last_error());
    return 2;
  }
  const std::size_t threads = std::stoul(argv[4]);
  std::vector<CUstream> streams = make_streams(emulator, std::stoul(argv[5]));
  if (streams.empty()) streams.push_back(nullptr);
  const std::size_t pairs = std::stoul(argv[6]) / 2 / threads;
  std::atomic<bool> has_failed{false};

  const auto work = [&](std::size_t number) {
    std::mt19937_64 random(number);
    std::vector<void*> live(kLive);
    const CUstream stream = streams[number % streams.size()];
    for (std::size_t i = 0; i < pairs && !has_failed; ++i) {
      const std::uint64_t drawn = random();
      void*& place = live[drawn % kLive];
      if (place != nullptr && give_back(pool, place) != MEMLAKE_OK) has_failed = true;
      place = allocate(pool, 512 + (drawn >> 40) % (std::uint64_t{4} << 20), stream);
      if (place == nullptr) has_failed = true;
    }
    for (void* place : live)
      if (place != nullptr) give_back(pool, place);
    if (has_failed) std::fprintf(stderr, "%s\n", last_error());
  };
  for (long pass = 0; pass < std::stol(argv[7]); ++pass) {
    const double begin = nanoseconds(CLOCK_MONOTONIC);
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < threads; ++i) running.emplace_back(work, i);
    for (std::thread& thread : running) thread.join();
    if (has_failed) return 1;
    const double spent = nanoseconds(CLOCK_MONOTONIC) - begin;
    std::printf("%.4f\n", static_cast<double>(2 * pairs * threads) * 1e3 / spent);
  }
  return 0;
}
