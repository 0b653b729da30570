#include "device.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "kernel_limits.hpp"
#include "refusal.hpp"

namespace memlake::emulator {

namespace {

constexpr int kLastAttribute = 147;  // CUDA 13.0
constexpr int kPciBusId = 33;
constexpr std::uint64_t kSmallestAlignment = std::uint64_t{2} << 20;

constexpr std::array<int, kLastAttribute + 1> kAttributes = [] {
  std::array<int, kLastAttribute + 1> values{};
#define A(id, value) values[id] = value;
#include "device_attributes.inc"
#undef A
  return values;
}();

}  // namespace

std::uint64_t HostMemory::total() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

bool Device::can_access(int peer) const { return std::ranges::find(peers, peer) != peers.end(); }

const std::shared_ptr<HeapFile>& Device::heap_file() {
  if (heap == nullptr) heap = std::make_shared<HeapFile>();
  return heap;
}

cuda::CUuuid Device::uuid() const {
  // The same ordinal has the same UUID in every process, as one GPU has.
  cuda::CUuuid uuid{};
  std::memcpy(uuid.bytes, "memlake-emul", 12);
  std::memcpy(uuid.bytes + 12, &ordinal, sizeof ordinal);
  return uuid;
}

std::optional<int> Device::attribute(int id) const {
  if (id < 1 || id > kLastAttribute) return std::nullopt;
  if (id == kPciBusId) return ordinal + 1;
  return kAttributes[static_cast<std::size_t>(id)];
}

int Devices::add(const GroupConfig& group) {
  const int first = count();
  std::vector<std::unique_ptr<Device>> made;
  if (group.device.backing == Backing::host) raise_descriptor_limit();
  for (int i = 0; i < group.devices; ++i) {
    auto device = std::make_unique<Device>(Device{.ordinal = first + i, .config = group.device, .peers = {}});
    for (int j = 0; j < group.devices; ++j)
      if (i != j && group.peers[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)])
        device->peers.push_back(first + j);
    made.push_back(std::move(device));
  }
  std::ranges::move(made, std::back_inserter(all_));
  update_alignment();
  return first;
}

void Devices::close(Device& device) {
  device.is_open = false;
  device.primary_retains = 0;
  device.heap.reset();  // the file lives on while memory lies in it
  update_alignment();
}

Device& Devices::find(int ordinal) {
  if (Device* device = find_open(ordinal)) return *device;
  const bool was_closed = ordinal >= 0 && ordinal < count();
  refuse(CUDA_ERROR_INVALID_DEVICE, "device ", ordinal, was_closed ? " was closed" : " does not exist", "; there are ",
         count(), " ordinals");
}

Device* Devices::find_open(int ordinal) {
  if (ordinal < 0 || ordinal >= count()) return nullptr;
  Device* device = all_[static_cast<std::size_t>(ordinal)].get();
  return device->is_open ? device : nullptr;
}

bool Devices::is_strict() const {
  return std::ranges::any_of(all_, [](const auto& device) { return device->is_open && device->is_strict(); });
}

void Devices::update_alignment() {
  address_alignment_ = kSmallestAlignment;
  for (const auto& device : all_)
    if (device->is_open) address_alignment_ = std::max(address_alignment_, device->config.recommended);
}

}  // namespace memlake::emulator
