#include "abi/torch_pools.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "abi/make_pool.hpp"
#include "base/process.hpp"
#include "driver/library.hpp"

namespace memlake::abi {

TorchPools& TorchPools::of_this_process() {
  static TorchPools& pools = *new TorchPools;
  return pools;
}

Conf TorchPools::conf_of_environment() {
  const char* const text = std::getenv("MEMLAKE_CONF");
  try {
    return parse_conf(text == nullptr ? "" : text);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string("MEMLAKE_CONF: ") + error.what());
  }
}

void TorchPools::require_this_process() const {
  const unsigned used_in = used_in_.load();
  if (used_in != 0 && used_in != process_generation())
    throw Error(ErrorKind::driver_gone,
                "this process was forked from one that uses devices, and devices do not survive a fork; start it with "
                "spawn");
}

void TorchPools::note_use() {
  require_this_process();
  unsigned none = 0;
  used_in_.compare_exchange_strong(none, process_generation());
}

void TorchPools::require_device(int device) const {
  if (device < 0 || device >= kMostDevices)
    throw Error(ErrorKind::invalid_argument, "there is no device " + std::to_string(device) +
                                                 "; PyTorch's devices are counted from 0, and at most " +
                                                 std::to_string(kMostDevices) + " are served");
}

LivePool& TorchPools::make(int device) {
  require_device(device);
  auto& current = current_[static_cast<unsigned>(device)];
  const Conf conf = conf_of_environment();
  open_driver(conf);
  note_use();
  const std::lock_guard lock(mutex_);
  if (LivePool* pool = current.load()) return *pool;
  add(device, make_pool(conf, device));
  return *current.load();
}

const TorchPools::Known* TorchPools::known_of(const LivePool* pool) const {
  const auto found = std::ranges::find(known_, pool, [](const Known& known) { return known.pool.get(); });
  return found == known_.end() ? nullptr : &*found;
}

void TorchPools::add(int device, std::shared_ptr<LivePool> pool) {
  LivePool* const added = pool.get();
  if (const Known* known = known_of(added); known == nullptr)
    known_.push_back({std::move(pool), device, added->limits()});
  current_[static_cast<unsigned>(device)].store(added, std::memory_order_release);
}

void TorchPools::set(int device, std::shared_ptr<LivePool> pool) {
  require_device(device);
  if (pool != nullptr) {
    if (pool->devices().size() > 1)
      throw Error(ErrorKind::invalid_argument, "the pool is over several devices; PyTorch needs one pool per device");
    const Device& on = *pool->devices().front();
    on.library().require_this_process();
    // Emulated devices have fresh ordinals in every process, so there any of them may stand for PyTorch's.
    if (!on.library().is_emulated() && on.ordinal() != device)
      throw Error(ErrorKind::invalid_argument, "the pool has memory of device " + std::to_string(on.ordinal()) +
                                                   ", so it cannot serve device " + std::to_string(device));
    if (!pool->is_open()) throw Error(ErrorKind::closed, "the pool is closed");
  }
  note_use();
  const std::lock_guard lock(mutex_);
  if (pool == nullptr) {
    current_[static_cast<unsigned>(device)].store(nullptr, std::memory_order_release);
    return;
  }
  if (const Known* known = known_of(pool.get()); known != nullptr && known->device != device)
    throw Error(ErrorKind::invalid_argument,
                "the pool serves device " + std::to_string(known->device) + " already; make another one");
  add(device, std::move(pool));
}

LivePool* TorchPools::find(Address address) {
  require_this_process();
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(known_, [&](const Known& known) { return known.pool->is_allocated(address); });
  return found == known_.end() ? nullptr : found->pool.get();
}

LivePool& TorchPools::owner_of(Address address, int device) {
  require_device(device);
  require_this_process();
  std::ostringstream text;
  text << "nothing that is live was allocated at 0x" << std::hex << address.value << std::dec;
  LivePool* const found = find(address);
  if (found == nullptr) {
    text << ": it was freed already, or is not the beginning of an allocation, or is somebody else's";
    throw Error(ErrorKind::invalid_free, text.str());
  }
  const std::lock_guard lock(mutex_);
  const Known* const known = known_of(found);
  if (known->device == device) return *found;
  text << " on device " << device << ": it is memory of device " << known->device;
  throw Error(ErrorKind::invalid_free, text.str());
}

std::vector<LivePool*> TorchPools::all() {
  std::vector<LivePool*> pools;
  for (const auto& current : current_)
    if (LivePool* pool = current.load(std::memory_order_acquire)) pools.push_back(pool);
  return pools;
}

Limits TorchPools::limits_of(int device) {
  const LivePool& current = pool(device);
  const std::lock_guard lock(mutex_);
  return known_of(&current)->limits;
}

}  // namespace memlake::abi
