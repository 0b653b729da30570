// Checks the invariants I1 to I8, from the blocks themselves and not from the counters that the pool keeps.

#include <unordered_map>

#include "blocks/live_digest.hpp"
#include "pool/pool.hpp"

namespace memlake {

std::optional<std::string> Pool::find_broken_invariant() const {
  InvariantReport report;
  for (const auto& space : spaces_) space->check(report);
  if (report.sentence) return report.sentence;  // what follows visits the blocks, whose links may be broken

  // I6: a pending block waits for exactly the events that are on their way, and for at least one.
  std::unordered_map<const Block*, std::uint32_t> waits;
  std::size_t waiting = 0;
  std::size_t reusable = 0;
  for (const auto& queue : pending_.queues())
    for (const Awaited& awaited : queue) {
      ++waits[awaited.block];
      ++waiting;
      reusable += awaited.is_reusable_here ? 1U : 0U;
    }
  if (waiting != pending_.count() || reusable != pending_.reusable_count())
    report.add("I6: ", waiting, " events are awaited, but ", pending_.count(), " are counted");

  // I7, I8: sums.
  Bytes live{0};
  Bytes pending{0};
  Bytes free{0};
  Bytes requested{0};
  std::uint64_t digest = 0;
  std::size_t of_blocks = 0;  // of the events
  spaces_.for_each([&](const Block& block) {
    const auto awaited = waits.find(&block);
    const std::uint32_t events = awaited == waits.end() ? 0 : awaited->second;
    of_blocks += events;
    if (events != block.awaited)
      report.add("I6: ", place(block), " waits for ", block.awaited, " events, ", events, " are on their way");
    if ((block.state == BlockState::pending) != (events > 0))
      report.add(
          "I6: ", place(block),
          events > 0 ? " has events to wait for but is not pending" : " is pending, but no event will set it free");
    if (block.state == BlockState::free || block.state == BlockState::claimed) free = free + block.size;
    if (block.state != BlockState::live && block.state != BlockState::pending) return;
    (block.state == BlockState::live ? live : pending).count += block.size.count;
    requested = requested + block.requested;
    digest ^= live_digest(block);
    if (block.requested > block.size) report.add("I7: ", place(block), " is smaller than its request");
  });
  if (of_blocks != waiting)
    report.add("I6: ", waiting, " events are awaited, but only ", of_blocks, " for blocks that the pool has");
  // Streams go on meanwhile, and budget() and held() of the spaces ask the driver anew. So the sums are taken of one
  // answer.
  const std::shared_ptr<Budget> budgeted = spaces_.budget();
  Bytes in_ledgers{0};
  bool shows_free_blocks = true;
  for (const auto& space : spaces_) {
    in_ledgers = in_ledgers + space->ledger().held();
    shows_free_blocks &= space->facets().driver_counts == nullptr;
  }
  const Bytes in_budget = budgeted->held.now;
  if (in_ledgers != in_budget)
    report.add("I7: the spaces of the pool hold ", in_ledgers.count, " bytes, but its budget says ", in_budget.count);
  const Bytes held_now = in_budget + spaces_.spilled().now;
  // Where only the driver knows what is free, the space compares what is used with what is held.
  if (shows_free_blocks && live + pending + free != held_now)
    report.add("I7: live ", live.count, " + pending ", pending.count, " + free ", free.count, " is not what is held, ",
               held_now.count);
  if (live != figures_.allocated() || live + pending != figures_.active() || requested != figures_.requested())
    report.add("I7: the counters of live and pending bytes disagree with the blocks");
  graphs_.check(report);
  if (digest != live_digest_) report.add("I8: a live or pending block changed although nobody allocated or freed it");
  return report.sentence;
}

}  // namespace memlake
