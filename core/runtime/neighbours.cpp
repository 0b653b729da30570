#include "runtime/neighbours.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>

#include "base/process.hpp"

namespace memlake {

struct Neighbour::PoolsOfProcess {
  const unsigned generation = process_generation();
  PoolsOfProcess* const
      of_parent;     ///< of the process that this one was forked from; keeps it in the sight of leak checkers
  std::mutex mutex;  ///< guards what is below; no other lock is taken behind it
  std::vector<const Neighbour*> pools;
};

Neighbour::PoolsOfProcess& Neighbour::pools_of_process() {
  // Never destroyed: pools may be closed while the process ends. A thread of the parent may have held the mutex when a
  // child was forked, so the child gets another one.
  static std::atomic<PoolsOfProcess*> current{nullptr};
  PoolsOfProcess* known = current.load(std::memory_order_acquire);
  while (known == nullptr || !is_of_generation(known->generation)) {
    auto made = std::unique_ptr<PoolsOfProcess>(new PoolsOfProcess{.of_parent = known, .mutex = {}, .pools = {}});
    if (current.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) known = made.release();
  }
  return *known;
}

Neighbour::Neighbour(Devices devices, std::shared_ptr<const Budget> budget, const char* policy)
    : devices_(std::move(devices)), budget_(std::move(budget)), policy_(policy), all_(pools_of_process()) {
  const std::lock_guard lock(all_.mutex);
  all_.pools.push_back(this);
}

Neighbour::~Neighbour() {
  if (!is_of_generation(all_.generation)) return;
  const std::lock_guard lock(all_.mutex);
  std::erase(all_.pools, this);
}

bool Neighbour::has(Device& device) const {
  return std::ranges::any_of(devices_, [&](const auto& own) {
    return &own->library() == &device.library() && own->ordinal() == device.ordinal();
  });
}

std::vector<std::pair<const char*, Bytes>> Neighbour::held_by_others() const {
  std::vector<std::pair<const char*, Bytes>> others;
  if (!is_of_generation(all_.generation)) return others;
  const std::lock_guard lock(all_.mutex);
  for (const Neighbour* other : all_.pools) {
    if (other == this) continue;
    Bytes held{0};
    for (std::size_t i = 0; i < other->devices_.size(); ++i)
      if (Device& device = *other->devices_[i]; device.is_open() && has(device))
        held = held + Bytes{other->budget_->held_on[i].load(std::memory_order_relaxed)};
    if (held.count > 0) others.emplace_back(other->policy_, held);
  }
  std::ranges::stable_sort(others, std::greater{}, [](const auto& pool) { return pool.second.count; });
  return others;
}

}  // namespace memlake
