#include "abi/torch_pools.hpp"

#include <dlfcn.h>

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

void TorchPools::refuse_emulator() {
  // The build of PyTorch for CUDA has loaded it, and its tensors must lie on its own devices.
  void* const torch = dlopen("libc10_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  if (torch == nullptr) return;
  dlclose(torch);
  throw Error(ErrorKind::config,
              "this process has loaded PyTorch for CUDA, and its kernels cannot use memory of the emulator; leave "
              "driver:emulated out");
}

LivePool& TorchPools::make_of_environment(int device) {
  require_device(device);
  return make(device, conf_of_environment());
}

LivePool& TorchPools::make(int device, const Conf& conf) {
  require_device(device);
  auto& current = current_[static_cast<unsigned>(device)];
  if (conf.is_emulated()) refuse_emulator();
  open_driver(conf);
  note_use();
  const std::lock_guard lock(mutex_);
  if (LivePool* pool = current.load()) return *pool;
  add(device, make_pool(conf, device));
  return *current.load();
}

memlake_pool* TorchPools::handle(int device, const char* conf) {
  require_device(device);
  require_this_process();
  LivePool* pool = current_[static_cast<unsigned>(device)].load(std::memory_order_acquire);
  if (pool == nullptr) {
    Conf parsed = parse_conf(conf == nullptr ? "" : conf);
    parsed.arguments.is_exportable = true;  // as PyTorch's own expandable segments
    pool = &make(device, parsed);
  }
  return known_of(pool)->handle;
}

std::shared_ptr<LivePool> TorchPools::known(int device) {
  require_device(device);
  require_this_process();
  const LivePool* pool = current_[static_cast<unsigned>(device)].load(std::memory_order_acquire);
  return pool == nullptr ? nullptr : known_of(pool)->pool;
}

const TorchPools::Known* TorchPools::known_of(const LivePool* pool) const {
  const Known* known = latest_.load(std::memory_order_acquire);
  while (known != nullptr && known->pool.get() != pool) known = known->made_before;
  return known;
}

void TorchPools::add(int device, std::shared_ptr<LivePool> pool) {
  LivePool* const added = pool.get();
  if (known_of(added) == nullptr) {
    auto handle = std::make_unique<memlake_pool>();
    handle->device = device;
    handle->live.store(added);
    auto known = std::make_unique<Known>(std::move(pool), device, added->settings().limits().memory_fraction, nullptr,
                                         latest_.load());
    known->handle = keep(std::move(handle));
    latest_.store(known.release(), std::memory_order_release);
  }
  current_[static_cast<unsigned>(device)].store(added, std::memory_order_release);
}

void TorchPools::set(int device, std::shared_ptr<LivePool> pool) {
  require_device(device);
  if (pool != nullptr) {
    if (pool->devices().size() > 1)
      throw Error(ErrorKind::invalid_argument, "the pool is over several devices; PyTorch needs one pool per device");
    const Device& on = *pool->devices().front();
    on.library().require_this_process();
    if (on.library().is_emulated()) refuse_emulator();
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
  LivePool* found = nullptr;
  any_of(-1, [&](LivePool& pool, int) {
    if (pool.by_address().has(address)) found = &pool;
    return found != nullptr;
  });
  return found;
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
  const Known* const known = known_of(found);
  if (known->device == device) return *found;
  text << " on device " << device << ": it is memory of device " << known->device;
  throw Error(ErrorKind::invalid_free, text.str());
}

std::vector<LivePool*> TorchPools::all() {
  require_this_process();
  std::vector<LivePool*> pools;
  any_of(-1, [&](LivePool& pool, int) {
    pools.push_back(&pool);
    return false;
  });
  return pools;
}

Bytes TorchPools::memory_fraction_of(int device) { return known_of(&pool(device))->memory_fraction; }

bool TorchPools::serves_with(const LivePool& pool) const noexcept {
  return std::ranges::any_of(current_, [&](const auto& of_device) { return of_device.load() == &pool; });
}

}  // namespace memlake::abi
