// Every sentence that the check of CUDA's own pools can say.

#include "driver/failing_driver.hpp"
#include "emulated.hpp"
#include "guards.hpp"
#include "replay/trace_events.hpp"
#include "sabotage_cuda_pool.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::change;
using test::CudaPoolSabotage;

TEST(every_sentence_of_the_check_of_cuda_pools_is_reported) {
  const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
  TraceEvents events(EventMode::immediate, 0, devices[0]);
  CudaPoolSpace space(devices[0], {}, events, std::make_shared<Budget>(Bytes{UINT64_MAX}));
  const CudaPoolSabotage sabotage{space};
  const auto allocate = [&](Bytes size) {
    Attempt attempt{.request = {size, 0}, .rounded = space.round(size)};
    Block* block = space.climb(Rung::grow, attempt);
    EXPECT(block != nullptr);
    return block;
  };
  Block* block = allocate(MiB * 3);
  Block* lost = allocate(MiB * 5);
  FailingDriver& failing = test::emulator().failing();

  test::expect_reported(
      test::check_of(space),
      {"core/policies/cuda_pool/cuda_pool_space.cpp",
       {{"I1: * is not what the driver gave", "a block is not where the space notes it",
         [&] { return change(block->address, block->address + KiB); }},
        {"I1: * is not what the driver gave", "a block is too large",
         [&] { return change(block->size, block->size + KiB); }},
        {"I1: * is not what the driver gave", "a block was freed but is there",
         [&] { return change(CudaPoolSabotage::is_freed(*block), true); }},
        {"I1: * is not what the driver gave", "a block lies behind what the driver gave",
         [&] { return sabotage.move_to(*block, block->address + KiB); }},
        {"I1: * is not what the driver gave", "a block lies before what the driver gave",
         [&] { return sabotage.move_to(*block, {block->address.value - KiB.count}); }},
        {"I7: * bytes are live, * are counted", "too much is counted as live",
         [&] { return change(sabotage.live(), sabotage.live() + KiB); }},
        {"I7: * bytes are live, but the driver says that * are used", "the driver has taken memory back",
         [&] { return sabotage.free_behind_its_back(*lost); }},
        {"I7: the driver holds * bytes, less than are used, *", "the space cannot learn what the driver holds", [&] {
           // The first question is how much is used, the second how much is held.
           sabotage.forget_held();
           failing.fail(Call::cuMemPoolGetAttribute, 2, CUDA_ERROR_UNKNOWN);
           return [&failing] { failing.clear(); };
         }}}});
  space.give_back(block);
}

}  // namespace
}  // namespace memlake
