#include "pools/supply.hpp"

#include <type_traits>

#include "basics/sentence.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kHostSegment = std::uint64_t{32} << 20;

}  // namespace

std::uint64_t Supply::total() const {
  if (const auto* device = std::get_if<Device*>(&of_)) return (*device)->config.memory;
  if (const auto* managed = std::get_if<ManagedMemory*>(&of_)) return (*managed)->total;
  return HostMemory::total();
}

std::uint64_t Supply::free() const {
  return std::visit([](const auto* memory) { return memory->free(); }, of_);
}

void Supply::take(std::uint64_t bytes) {
  if (auto* device = std::get_if<Device*>(&of_)) return (*device)->charge(bytes);
  std::visit([&](auto* memory) { memory->used += bytes; }, of_);
}

void Supply::give_back(std::uint64_t bytes) {
  std::visit([&](auto* memory) { memory->used -= bytes; }, of_);
}

std::uint64_t Supply::segment() const {
  const auto* device = std::get_if<Device*>(&of_);
  return device != nullptr ? (*device)->config.pool_segment : kHostSegment;
}

bool Supply::is_poisoned() const {
  const auto* device = std::get_if<Device*>(&of_);
  return device != nullptr && (*device)->config.poison;
}

std::string Supply::name() const {
  if (const auto* device = std::get_if<Device*>(&of_)) return text("device ", (*device)->ordinal);
  return std::holds_alternative<HostMemory*>(of_) ? "the host" : "the whole machine";
}

}  // namespace memlake::emulator
