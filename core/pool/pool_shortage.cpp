// The part of Pool that describes a shortage.

#include <algorithm>
#include <set>

#include "pool/pool.hpp"

namespace memlake {

Shortage Pool::shortage(std::optional<Bytes> device_free) const {
  Shortage shortage;
  shortage.held = spaces_.held().now;
  shortage.device_total = spaces_.policy().devices().total();
  const Bytes alone = shortage.device_total.excess_over(shortage.held);
  shortage.device_free = device_free.value_or(alone);
  shortage.held_on_host = spaces_.spilled().now;
  shortage.live = figures_.allocated();
  shortage.pending = figures_.active() - figures_.allocated();
  shortage.kept_for_graphs = graphs_.kept(refusal_.space);
  shortage.free = shortage.held + shortage.held_on_host - figures_.active() - shortage.kept_for_graphs;
  shortage.largest_contiguous = spaces_.largest_free();
  shortage.limits.limit = spaces_.budget()->limit;
  shortage.policy = spaces_.policy().policy_name();
  shortage.location = spaces_.policy().devices().location();
  shortage.device_count = spaces_.policy().devices().count();
  for (const auto& [stream, bytes] : pending_.bytes_by_stream()) shortage.pending_on.push_back({stream, bytes});
  if (refusal_.space == nullptr) return shortage;
  const Attempt& attempt = refusal_.attempt;
  shortage.request = attempt.request;
  shortage.rounded = attempt.rounded;
  shortage.tried = attempt.tried;
  shortage.largest_usable = refusal_.space->largest_free(attempt.request.stream);
  shortage.outlook = refusal_.space->outlook(attempt, shortage.device_free);
  shortage.has_no_addresses = refusal_.has_no_addresses;
  // New memory, and memory that is moved, need addresses.
  if (shortage.has_no_addresses)
    shortage.outlook.in_one_range = std::min(shortage.outlook.in_one_range, shortage.largest_usable);
  std::set<StreamId> streams;
  spaces_.for_each([&](const Block& block) { streams.insert(block.stream); });
  shortage.streams_with_memory = streams.size();
  return shortage;
}

}  // namespace memlake
