#pragma once

// Lakes, and what tests of them have in common.

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulated.hpp"
#include "policies/lake/lake_space.hpp"
#include "policies/torch/torch_options.hpp"
#include "random_program.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"

namespace memlake::test {

inline constexpr Bytes kUnlimited = TorchOptions::kUnlimited;

inline std::shared_ptr<LivePool> make_lake(std::vector<std::shared_ptr<Device>> devices, LakeOptions options = {},
                                           Bytes limit = kUnlimited) {
  return LivePool::make(
      std::move(devices),
      [options](const auto& on, EventSource& events, std::shared_ptr<Budget> budget) {
        return std::make_unique<LakeSpace>(on, options, events, std::move(budget));
      },
      limit);
}

inline std::optional<Lease> ask(LivePool& pool, Bytes size, const StreamName& stream = {}) {
  Shortage shortage;
  return pool.allocate(size, stream, shortage);
}

/// Asks while the nth driver call from now fails; false if no such call was made.
inline bool ask_with_fault(LivePool& pool, Bytes size, std::uint64_t nth, CUresult fault) {
  FailingDriver& failing = emulator().failing();
  const std::uint64_t before = calls(pool);
  failing.fail(std::nullopt, nth, fault);
  try {
    static_cast<void>(ask(pool, size));
  } catch (const Error&) {
  }
  failing.clear();
  return calls(pool) - before >= nth;
}

using Leases = std::vector<std::unique_ptr<Lease>>;

/// Fills a pool with blocks of one size and frees every other one.
inline Leases scatter(LivePool& pool, Bytes size, const StreamName& stream = {}) {
  Leases leases;
  while (auto lease = ask(pool, size, stream)) leases.push_back(std::make_unique<Lease>(*std::move(lease)));
  Leases kept;
  for (std::size_t i = 0; i < leases.size(); i += 2) kept.push_back(std::move(leases[i]));
  return kept;
}

/// Scatters blocks in the chunks of blocks of 40 MiB, which are larger than blocks of a few MiB: the blocks do not end
/// where chunks end.
inline Leases scatter_in_larger_chunks(LivePool& pool, Bytes size) {
  {
    Leases large;
    while (auto lease = ask(pool, MiB * 40)) large.push_back(std::make_unique<Lease>(*std::move(lease)));
  }
  return scatter(pool, size);
}

/// The largest block that a pool can give, in whole MiB.
inline Lease take_most(LivePool& pool, Bytes at_most) {
  for (Bytes size = at_most; size > MiB; size = size - MiB)
    if (auto lease = ask(pool, size)) return *std::move(lease);
  throw std::runtime_error("nothing can be had");
}

}  // namespace memlake::test
