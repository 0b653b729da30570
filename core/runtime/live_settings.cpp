#include "runtime/live_settings.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "driver/library.hpp"
#include "driver/relaxed_capture.hpp"

namespace memlake {

void LiveSettings::set_limit(Bytes limit) {
  const auto lock = locked_.open_lock();
  Limits limits = locked_.limits();
  limits.limit = limit;
  locked_.set_limits(limits);
}

void LiveSettings::set_memory_fraction(Bytes fraction) {
  const auto lock = locked_.open_lock();
  Limits limits = locked_.limits();
  limits.memory_fraction = fraction;
  locked_.set_limits(limits);
}

Limits LiveSettings::limits() const {
  return locked_.with_lock([this] { return locked_.limits(); });
}

std::optional<ReuseRules> LiveSettings::reuse_rules() const {
  const auto lock = locked_.open_lock();
  const StreamReuse* reuse = locked_.pool().spaces().policy().facets().reuse;
  return reuse == nullptr ? std::nullopt : std::optional(reuse->reuse_rules());
}

void LiveSettings::set_reuse_rules(const ReuseRules& rules) {
  const auto lock = locked_.open_lock();
  locked_.pool().spaces().set_reuse_rules(rules);
}

void LiveSettings::set_release_threshold(Bytes threshold) {
  const auto lock = locked_.open_lock();
  if (DriverCounts* counts = locked_.pool().spaces().policy().facets().driver_counts)
    counts->set_release_threshold(threshold);
  release_threshold_ = threshold;
}

Bytes LiveSettings::release_threshold() const {
  return locked_.with_lock([this] { return release_threshold_; });
}

void LiveSettings::set_peers(const Devices& peers) {
  locked_.require_usable();
  const std::lock_guard changing(changing_peers_);
  change_peers(peers);
}

void LiveSettings::change_peers(const Devices& peers) {
  // Access may be taken away only from memory that no work uses, on whichever device the work is. The wait is without
  // the lock: other threads may allocate meanwhile.
  auto removed = this->peers();
  std::erase_if(removed, [&](const auto& peer) {
    return !peer->is_open() ||
           std::ranges::any_of(peers, [&](const auto& kept) { return kept->ordinal() == peer->ordinal(); });
  });
  if (!removed.empty()) locked_.synchronize();
  for (const auto& peer : removed) peer->synchronize();
  const auto lock = locked_.open_lock();
  locked_.wait_for_unlocked_scopes();  // what is being mapped would miss the change
  locked_.require_open();
  const RelaxedCapture relaxed(locked_.streams().events.driver());
  for (const auto& peer : peers) peer->context();
  locked_.pool().spaces().set_peers(locked_.counted(peers));
}

Devices LiveSettings::peers() const {
  Devices peers;
  const auto lock = locked_.lock_if_open();
  if (!lock) return peers;
  // The devices as the library knows them, without this pool's counting.
  for (const auto& peer : locked_.pool().spaces().policy().devices().peers())
    peers.push_back(peer->library().device(peer->ordinal()));
  return peers;
}

void LiveSettings::add_peer(const std::shared_ptr<Device>& peer) {
  locked_.require_usable();
  const std::lock_guard changing(changing_peers_);
  Devices all = peers();
  const auto is_it = [&](const std::shared_ptr<Device>& device) { return device->ordinal() == peer->ordinal(); };
  if (std::ranges::any_of(locked_.given(), is_it) || std::ranges::any_of(all, is_it)) return;
  for (const auto& own : locked_.given())
    if (!peer->can_access(*own))
      throw Error(ErrorKind::invalid_argument, "device " + std::to_string(peer->ordinal()) +
                                                   " cannot reach memory of device " + std::to_string(own->ordinal()));
  all.push_back(peer);
  change_peers(all);
}

void LiveSettings::remove_peer(const Device& peer) {
  locked_.require_usable();
  const std::lock_guard changing(changing_peers_);
  Devices others = peers();
  const auto is_it = [&](const std::shared_ptr<Device>& device) {
    return device->ordinal() == peer.ordinal() && &device->library() == &peer.library();
  };
  if (std::erase_if(others, is_it) > 0) change_peers(others);
}

}  // namespace memlake
