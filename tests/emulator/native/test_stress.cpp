// Eight threads that do everything at once. Each has memory, streams and events of its own and shares the devices; what
// it wrote must be what it reads. The seed is printed, and MEMLAKE_TEST_SEED repeats it.

#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "abi.hpp"
#include "thread_check.hpp"

namespace memlake::test {

namespace {

constexpr std::uint64_t kPiece = 64 << 10;
constexpr std::size_t kSlots = 4;
constexpr int kRounds = 400;

/// What one thread does.
class Worker {
 public:
  Worker(const World& world, unsigned seed) : world_(world), random_(seed) {
    world_.use(below(2));
    CHECK(cuMemAddressReserve(&address_, kSlots * kPiece, 0, 0, 0));
    for (auto& stream : streams_)
      CHECK(cuStreamCreate(&stream, below(2) == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING));
  }

  void run() {
    for (int i = 0; i < kRounds && g_failures == 0; ++i) round();
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      if (is_mapped_[slot]) unmap(slot);
    for (auto& stream : streams_) CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuEventDestroy_v2(event_));
    CHECK(cuMemAddressFree(address_, kSlots * kPiece));
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  std::uint64_t at(std::size_t slot) const { return address_ + slot * kPiece; }

  void round() {
    const std::size_t slot = below(kSlots);
    if (!is_mapped_[slot]) return map(slot);
    switch (below(6)) {
      case 0:
        return unmap(slot);
      case 1:
        return restart_stream();
      case 2:
        return query();
      case 3:
        return plain_memory();
      default:
        return write_and_read(slot);
    }
  }

  void map(std::size_t slot) {
    const int device = world_.first + static_cast<int>(below(2));
    const CUmemAllocationProp prop =
        device_prop(device, below(4) == 0 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle handle = 0;
    CHECK(cuMemCreate(&handle, kPiece, &prop, 0));
    CHECK(cuMemMap(at(slot), kPiece, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    const CUmemAccessDesc both[] = {access_desc(world_.first), access_desc(world_.first + 1)};
    CHECK(cuMemSetAccess(at(slot), kPiece, both, 2));
    is_mapped_[slot] = true;
  }

  /// The rule that the whole emulator stands for: wait for every user, then unmap.
  void unmap(std::size_t slot) {
    for (CUstream stream : streams_) CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemUnmap(at(slot), kPiece));
    is_mapped_[slot] = false;
  }

  void restart_stream() {
    CUstream& stream = streams_[below(2)];
    CHECK(cuEventRecord(event_, stream));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuEventSynchronize(event_));  // unmap() cannot ask a stream that is gone
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }

  void query() {
    const CUresult of_stream = cuStreamQuery(streams_[below(2)]);
    if (of_stream != CUDA_ERROR_NOT_READY) CHECK(of_stream);
    const CUresult of_event = cuEventQuery(event_);
    if (of_event != CUDA_ERROR_NOT_READY) CHECK(of_event);
    if (below(8) == 0) ledger();
  }

  void plain_memory() {
    CUdeviceptr memory = 0;
    CHECK(cuMemAlloc_v2(&memory, 1 + below(3 * kMiB)));
    CHECK(cuMemsetD8Async(memory, 1, 1, streams_[below(2)]));
    CHECK(cuMemFree_v2(memory));
  }

  /// Fills on one stream, lets the other wait, copies there, and looks.
  void write_and_read(std::size_t slot) {
    const auto value = static_cast<unsigned char>(below(256));
    const std::size_t from = below(2);
    CHECK(cuMemsetD8Async(at(slot), value, kPiece, streams_[from]));
    CHECK(cuEventRecord(event_, streams_[from]));
    CHECK(cuStreamWaitEvent(streams_[1 - from], event_, 0));
    unsigned char bytes[64] = {};
    const std::uint64_t place = at(slot) + below(kPiece - sizeof bytes);
    CHECK(cuMemcpyDtoHAsync_v2(bytes, place, sizeof bytes, streams_[1 - from]));  // pageable: it has come back
    for (const unsigned char byte : bytes)
      if (byte != value) check(-1, "a byte that was written");
  }

  const World& world_;
  std::mt19937 random_;
  CUdeviceptr address_ = 0;
  CUstream streams_[2] = {};
  CUevent event_ = {};
  bool is_mapped_[kSlots] = {};
};

}  // namespace

PROCESS_TEST(eight_threads_that_do_everything_at_once_leave_nothing_and_break_nothing) {
  const char* given = std::getenv("MEMLAKE_TEST_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::cout << "  MEMLAKE_TEST_SEED=" << seed << "\n";
  const World world("devices=2,memory=256MiB,granularity=64KiB");
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) threads.emplace_back([&world, seed, i] { Worker(world, seed + i).run(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(g_failures.load(), 0);
  for (const std::size_t device : {0U, 1U}) {
    world.use(device);
    must(cuCtxSynchronize());
    EXPECT_EQ(free_memory(), 256 * kMiB);
  }
  const std::string text = ledger();
  for (const char* nothing : {"\"reservations\":[]", "\"chunks\":[]", "\"mappings\":[]", "\"allocations\":[]",
                              "\"events\":[]", "\"violations\":[]"})
    EXPECT(text.find(nothing) != std::string::npos);
}

}  // namespace memlake::test
