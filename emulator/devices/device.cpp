#include "devices/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "basics/refusal.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

constexpr int kLastAttribute = 147;  // CUDA 13.0
constexpr int kLastBefore130 = 143;
constexpr int kLastBefore129 = 140;
constexpr int kPciBusId = 33;
constexpr int kPciDomain = 50;
constexpr int kVirtualMemory = 102;
constexpr int kFileDescriptors = 103;
constexpr int kRdmaOfVirtualMemory = 110;
constexpr int kRdma = 116;
constexpr int kPoolHandles = 119;
constexpr int kFabricHandles = 128;
constexpr int kHostNumaMemory = 141;
constexpr int kHostMemory = 145;
constexpr std::uint64_t kSmallestAlignment = std::uint64_t{2} << 20;

constexpr std::array<int, kLastAttribute + 1> kAttributes = [] {
  std::array<int, kLastAttribute + 1> values{};
#define A(id, value) values[id] = value;
#include "devices/device_attributes.inc"
#undef A
  return values;
}();

}  // namespace

bool Device::is_lacking(int attribute) const {
  switch (attribute) {
    case kVirtualMemory:
    case kHostNumaMemory:
    case kHostMemory:
      return config.lacks(Lack::vmm);
    case kFileDescriptors:
    case kPoolHandles:
      return config.lacks(Lack::export_handles) || config.lacks(Lack::vmm);
    case kRdmaOfVirtualMemory:
      return config.lacks(Lack::rdma) || config.lacks(Lack::vmm);
    case kRdma:
      return config.lacks(Lack::rdma);
    default:
      return false;
  }
}

std::uint64_t HostMemory::total() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

bool Device::can_access(int peer) const { return std::ranges::find(peers, peer) != peers.end(); }

const std::shared_ptr<HeapFile>& Device::heap_file() {
  if (heap == nullptr) heap = std::make_shared<HeapFile>();
  return heap;
}

cuda::CUuuid uuid_of(int number) {
  // The first bytes differ between devices, so that a short prefix names one of them.
  const std::uint32_t mixed = (static_cast<std::uint32_t>(number) + 1) * 0x9E3779B1U;  // odd: no two numbers collide
  cuda::CUuuid uuid{};
  for (int i = 0; i < 4; ++i) uuid.bytes[i] = static_cast<char>(mixed >> (24 - 8 * i));
  std::memcpy(uuid.bytes + 4, "memlake-emul", 12);
  return uuid;
}

std::string uuid_text(int number) {
  const cuda::CUuuid uuid = uuid_of(number);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

PciPlace pci_place(int number) {
  const auto bus = static_cast<unsigned>(number) + 1;
  return {bus >> 8, bus & 0xFF};
}

std::optional<PciPlace> parse_pci_place(const char* text) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  int end = 0;
  const auto is_whole = [&] { return end > 0 && text[end] == '\0'; };
  bool is_read = std::sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) == 4 && is_whole();
  if (!is_read) {
    function = 0;
    is_read = std::sscanf(text, "%x:%x:%x%n", &domain, &bus, &device, &end) == 3 && is_whole();
  }
  if (!is_read) {
    domain = 0;
    is_read = std::sscanf(text, "%x:%x.%x%n", &bus, &device, &function, &end) == 3 && is_whole();
  }
  if (!is_read || device != 0 || function != 0) return std::nullopt;
  return PciPlace{domain, bus};
}

int Device::common_attribute(int id) { return kAttributes[static_cast<std::size_t>(id)]; }

std::optional<int> Device::attribute(int id, int driver_version) const {
  const int last = driver_version < 12090 ? kLastBefore129 : driver_version < 13000 ? kLastBefore130 : kLastAttribute;
  if (id < 1 || id > last) return std::nullopt;
  if (is_lacking(id)) return 0;
  if (id == kFabricHandles) return config.fabric == Fabric::none ? 0 : 1;
  if (id == kPciBusId) return static_cast<int>(pci_place(number).bus);
  if (id == kPciDomain) return static_cast<int>(pci_place(number).domain);
  return kAttributes[static_cast<std::size_t>(id)];
}

int Devices::add(const GroupConfig& group) {
  std::vector<int> all(static_cast<std::size_t>(group.devices));
  std::iota(all.begin(), all.end(), 0);
  return add(group, all);
}

int Devices::add(const GroupConfig& group, std::span<const int> visible) {
  const int first = count();
  std::vector<std::unique_ptr<Device>> made;
  if (group.device.backing == Backing::host) raise_descriptor_limit();
  for (const int place : visible) {
    auto device = std::make_unique<Device>(Device{.ordinal = first + static_cast<int>(made.size()),
                                                  .number = next_number_ + place,
                                                  .config = group.device_at(static_cast<std::size_t>(place)),
                                                  .peers = {}});
    for (std::size_t other = 0; other < visible.size(); ++other)
      if (other != made.size() &&
          group.peers[static_cast<std::size_t>(place)][static_cast<std::size_t>(visible[other])])
        device->peers.push_back(first + static_cast<int>(other));
    made.push_back(std::move(device));
  }
  std::ranges::move(made, std::back_inserter(all_));
  next_number_ += group.devices;
  update();
  return first;
}

const Device* Devices::numbered(int number) const {
  const auto found =
      std::ranges::find_if(all_, [&](const auto& device) { return device->is_open && device->number == number; });
  return found == all_.end() ? nullptr : found->get();
}

void Devices::close(Device& device) {
  device.is_open = false;
  device.primary_retains = 0;
  device.heap.reset();  // the file lives on while memory lies in it
  update();
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

bool Devices::are_host_backed() const {
  return std::ranges::all_of(all_, [](const auto& device) { return !device->is_open || device->is_host_backed(); });
}

unsigned Devices::relaxed() const {
  unsigned common = ~0U;
  for (const auto& device : all_)
    if (device->is_open) common &= device->config.relaxed;
  return common;
}

bool Devices::has_virtual_memory() const {
  return std::ranges::any_of(all_,
                             [](const auto& device) { return device->is_open && !device->config.lacks(Lack::vmm); });
}

void Devices::update() {
  address_alignment_ = kSmallestAlignment;
  managed_.total = HostMemory::total();
  for (const auto& device : all_) {
    if (!device->is_open) continue;
    address_alignment_ = std::max(address_alignment_, device->config.recommended);
    managed_.total += device->config.memory;
  }
}

}  // namespace memlake::emulator
