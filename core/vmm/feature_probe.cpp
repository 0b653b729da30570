#include "vmm/feature_probe.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "driver/library.hpp"
#include "driver/relaxed_capture.hpp"
#include "driver/result.hpp"
#include "driver/stream.hpp"
#include "driver/transfer.hpp"
#include "vmm/access.hpp"
#include "vmm/descriptor.hpp"
#include "vmm/mapping.hpp"

namespace memlake {
namespace {

// cuda.h: CU_DEVICE_ATTRIBUTE_...
constexpr int kVirtualMemory = 102;
constexpr int kFileDescriptors = 103;
constexpr int kRdmaOfVirtualMemory = 110;
constexpr int kFabricHandles = 128;
constexpr int kHostNumaId = 134;
constexpr int kHostNumaMemory = 141;  // since CUDA 12.9
constexpr int kHostMemory = 145;      // since CUDA 13.0

// The first CUDA whose cuMemCreate knows memory of a NUMA node. Drivers before 12.9 have no attribute for it.
constexpr int kHostNumaSince = 12020;

constexpr std::size_t kSample = 4096;  // bytes that a trial copies
constexpr auto kRights = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

FeatureAnswer yes(FeatureSource source) { return {.has = true, .source = source, .reason = ""}; }
FeatureAnswer no(FeatureSource source, std::string reason) {
  return {.has = false, .source = source, .reason = std::move(reason)};
}
FeatureAnswer not_asked(std::string reason) {
  return {.has = std::nullopt, .source = FeatureSource::trial, .reason = std::move(reason)};
}

FeatureAnswer by_attribute(const Device& device, int attribute, const char* name) {
  if (device.attribute(attribute) != 0) return yes(FeatureSource::attribute);
  return no(FeatureSource::attribute, "its attribute " + std::to_string(attribute) + " (" + name + ") is 0");
}

/// Whether the driver knows the attribute. An older one refuses the question.
std::optional<int> attribute_if_known(const Device& device, int attribute) {
  try {
    return device.attribute(attribute);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::invalid_call) throw;
    return std::nullopt;
  }
}

/// Runs a trial. A refusal of the driver is the answer no; lack of memory or a lost context is no answer.
template <class Trial>
FeatureAnswer by_trial(Trial&& trial) {
  try {
    return std::forward<Trial>(trial)();
  } catch (const Error& error) {
    if (error.answer() == nullptr || error.kind() == ErrorKind::contract_violation) throw;
    const std::string reason = std::string(error.answer()->call) + " answered " + std::to_string(error.answer()->code) +
                               " (" + error.answer()->name + ")";
    switch (error.kind()) {
      case ErrorKind::out_of_memory:
      case ErrorKind::address_exhaustion:
      case ErrorKind::sticky:
      case ErrorKind::driver_gone:
        return not_asked(reason);
      default:
        return no(FeatureSource::trial, reason);
    }
  }
}

/// Chunks of one device, or of several places, and the addresses for them.
class Trials {
 public:
  explicit Trials(const std::shared_ptr<Device>& asked)
      : device_(asked), granule_(device_->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM)), relaxed_(&asked->driver()) {}

  FeatureAnswer second_mapping() {
    const auto chunk = create(granule_);
    const auto addresses = reserve(granule_ * 2);
    const Mapping first(addresses, {0}, chunk, granule_);
    const Mapping second(addresses, granule_, chunk, granule_);
    set_access(driver(), addresses->range(), own(), kRights);
    return yes(FeatureSource::trial);
  }

  FeatureAnswer partial_mapping() {
    const auto chunk = create(granule_ * 2);
    const auto addresses = reserve(granule_);
    const Mapping part(addresses, {0}, chunk, granule_);
    set_access(driver(), addresses->range(), own(), kRights);
    return yes(FeatureSource::trial);
  }

  FeatureAnswer shared_bytes() {
    if (device_->library().is_emulated() && !device_->is_host_backed()) return yes(FeatureSource::settings);
    const auto chunk = create(granule_);
    const auto addresses = reserve(granule_ * 2);
    const Mapping first(addresses, {0}, chunk, granule_);
    const Mapping second(addresses, granule_, chunk, granule_);
    set_access(driver(), addresses->range(), own(), kRights);
    const Address here = addresses->range().begin;
    const Address there = here + granule_;
    const StreamOwner stream(device_, true, 0);
    // Each way, and twice: a cache that kept the first bytes shows them the second time.
    std::uint8_t byte = 0x11;
    for (const auto& [writer, reader] : {std::pair{here, there}, {there, here}, {here, there}}) {
      std::array<std::uint8_t, kSample> written{};
      std::array<std::uint8_t, kSample> read{};
      written.fill(byte);
      byte = static_cast<std::uint8_t>(byte + 0x11);
      copy_from_host(*device_, writer, written.data(), {written.size()}, stream.handle());
      synchronize(stream);
      copy_to_host(*device_, read.data(), reader, {read.size()}, stream.handle());
      synchronize(stream);
      if (read != written)
        return no(FeatureSource::trial, "bytes that were copied through one address were not there at the other");
    }
    return yes(FeatureSource::trial);
  }

  FeatureAnswer rdma() {
    CUmemAllocationProp prop = device_->allocation_prop(false);
    prop.allocFlags.gpuDirectRDMACapable = 1;
    const auto chunk = create(granule_, prop);
    CUmemAllocationProp granted{};
    check(driver(), Call::cuMemGetAllocationPropertiesFromHandle,
          driver().cuMemGetAllocationPropertiesFromHandle(&granted, chunk->handle()));
    if (granted.allocFlags.gpuDirectRDMACapable == 0)
      return no(FeatureSource::trial, "the driver accepted the flag and did not grant it");
    const auto addresses = reserve(granule_);
    const Mapping mapping(addresses, {0}, chunk, granule_);
    set_access(driver(), addresses->range(), own(), kRights);
    return yes(FeatureSource::trial);
  }

  FeatureAnswer file_descriptors() {
    const auto chunk = create(granule_, device_->allocation_prop(true));
    const Descriptor exported(chunk->export_fd());
    return yes(FeatureSource::trial);
  }

  FeatureAnswer fabric_handles() {
    CUmemAllocationProp prop = device_->allocation_prop(false);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    const auto chunk = create(granule_, prop);
    std::array<unsigned char, 64> name{};  // cuda.h: CUmemFabricHandle
    check(driver(), Call::cuMemExportToShareableHandle,
          driver().cuMemExportToShareableHandle(name.data(), chunk->handle(), CU_MEM_HANDLE_TYPE_FABRIC, 0));
    return yes(FeatureSource::trial);
  }

  FeatureAnswer host(CUmemLocation location) {
    const Bytes size = device_->host_granularity(location);
    const auto chunk = std::make_shared<PhysicalChunk>(PhysicalChunk::create_on_host(device_, size, location));
    const auto addresses = reserve(size);
    const Mapping mapping(addresses, {0}, chunk, size);
    set_access(driver(), addresses->range(), own(), kRights);
    return yes(FeatureSource::trial);
  }

  /// Over memory of the device and of `other`.
  FeatureAnswer spanning_copies(const std::shared_ptr<PhysicalChunk>& other) {
    const auto chunk = create(other->size().rounded_up(granule_));
    const auto addresses = reserve(chunk->size() + other->size());
    const Mapping first(addresses, {0}, chunk, chunk->size());
    const Mapping second(addresses, chunk->size(), other, other->size());
    set_access(driver(), addresses->range(), own(), kRights);
    const Address edge = addresses->range().begin + (chunk->size() - Bytes{kSample / 2});
    const StreamOwner stream(device_, true, 0);
    fill(*device_, edge, 0x5a, {kSample}, stream.handle());
    std::array<std::uint8_t, kSample> read{};
    copy_to_host(*device_, read.data(), edge, {read.size()}, stream.handle());
    synchronize(stream);
    const bool has_bytes = !device_->library().is_emulated() || device_->is_host_backed();
    if (has_bytes && std::ranges::any_of(read, [](std::uint8_t byte) { return byte != 0x5a; }))
      return no(FeatureSource::trial, "bytes of a fill over memory of two places did not come back");
    return yes(FeatureSource::trial);
  }

  std::shared_ptr<PhysicalChunk> create_on_host(CUmemLocation location) {
    const Bytes size = device_->host_granularity(location);
    return std::make_shared<PhysicalChunk>(PhysicalChunk::create_on_host(device_, size, location));
  }
  std::shared_ptr<PhysicalChunk> create_on(const std::shared_ptr<Device>& peer) {
    const auto same = std::make_shared<Device>(peer, driver());
    return std::make_shared<PhysicalChunk>(
        PhysicalChunk::create(same, same->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM), false));
  }

 private:
  [[nodiscard]] Driver& driver() const { return device_->driver(); }
  [[nodiscard]] Devices own() const { return {device_}; }
  std::shared_ptr<PhysicalChunk> create(Bytes size) { return create(size, device_->allocation_prop(false)); }
  std::shared_ptr<PhysicalChunk> create(Bytes size, const CUmemAllocationProp& prop) {
    return std::make_shared<PhysicalChunk>(PhysicalChunk::create(device_, size, prop));
  }
  std::shared_ptr<Reservation> reserve(Bytes size) {
    return std::make_shared<Reservation>(device_, size, Bytes{0}, Address{0});
  }
  void synchronize(const StreamOwner& stream) const {
    const CurrentContext current(*device_);
    check(driver(), Call::cuStreamSynchronize, driver().cuStreamSynchronize(stream.handle()));
  }

  std::shared_ptr<Device> device_;
  Bytes granule_;
  RelaxedCapture relaxed_;
};

CUmemLocation location_on_host(const Device& device, bool is_numa) {
  if (!is_numa) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  const int nearest = attribute_if_known(device, kHostNumaId).value_or(0);  // negative where there are no nodes
  return {CU_MEM_LOCATION_TYPE_HOST_NUMA, std::max(nearest, 0)};
}

FeatureAnswer ask_about_host(const std::shared_ptr<Device>& device, bool is_numa) {
  const int attribute = is_numa ? kHostNumaMemory : kHostMemory;
  const auto value = attribute_if_known(*device, attribute);
  int version = 0;
  Driver& driver = device->library().unwrapped();
  check(driver, Call::cuDriverGetVersion, driver.cuDriverGetVersion(&version));
  if (!value && (!is_numa || version < kHostNumaSince))
    return no(FeatureSource::attribute, "drivers know it since CUDA " + std::string(is_numa ? "12.2" : "13.0") +
                                            ", and this one is of CUDA " + std::to_string(version / 1000) + "." +
                                            std::to_string(version % 1000 / 10));
  if (value && *value == 0) return no(FeatureSource::attribute, "its attribute " + std::to_string(attribute) + " is 0");
  return by_trial([&] { return Trials(device).host(location_on_host(*device, is_numa)); });
}

FeatureAnswer ask_about_spanning_copies(const std::shared_ptr<Device>& device) {
  Driver& driver = device->library().unwrapped();
  int count = 0;
  check(driver, Call::cuDeviceGetCount, driver.cuDeviceGetCount(&count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (ordinal == device->ordinal()) continue;
    std::shared_ptr<Device> peer;
    try {
      peer = device->library().device(ordinal);
    } catch (const Error&) {
      continue;  // an emulated device that was closed keeps its ordinal
    }
    if (device->can_access(*peer) && has_feature(peer, Feature::virtual_memory)) {
      peer->context();
      return by_trial([&] {
        Trials trials(device);
        return trials.spanning_copies(trials.create_on(peer));
      });
    }
  }
  if (!has_feature(device, Feature::host_numa_memory))
    return not_asked("there is neither a second device nor memory of the host to try it with");
  return by_trial([&] {
    Trials trials(device);
    return trials.spanning_copies(trials.create_on_host(location_on_host(*device, true)));
  });
}

FeatureAnswer ask(const std::shared_ptr<Device>& device, Feature feature) {
  if (const auto given = feature_of_environment(feature))
    return *given ? yes(FeatureSource::environment) : no(FeatureSource::environment, "MEMLAKE_FEATURES says so");
  if (feature == Feature::virtual_memory)
    return by_attribute(*device, kVirtualMemory, "VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED");
  if (!has_feature(device, Feature::virtual_memory))
    return no(FeatureSource::attribute, "there is no virtual memory management");
  switch (feature) {
    case Feature::second_mapping:
      return by_trial([&] { return Trials(device).second_mapping(); });
    case Feature::partial_mapping:
      return by_trial([&] { return Trials(device).partial_mapping(); });
    case Feature::shared_bytes: {
      const FeatureAnswer twice = ask_feature(device, Feature::second_mapping);
      if (!twice.has) return not_asked(twice.reason);
      if (!*twice.has) return no(FeatureSource::trial, "a handle cannot be mapped at two places");
      return by_trial([&] { return Trials(device).shared_bytes(); });
    }
    case Feature::rdma: {
      FeatureAnswer promised = by_attribute(*device, kRdmaOfVirtualMemory, "GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED");
      return *promised.has ? by_trial([&] { return Trials(device).rdma(); }) : promised;
    }
    case Feature::file_descriptors: {
      FeatureAnswer promised = by_attribute(*device, kFileDescriptors, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED");
      return *promised.has ? by_trial([&] { return Trials(device).file_descriptors(); }) : promised;
    }
    case Feature::fabric_handles:
      if (attribute_if_known(*device, kFabricHandles).value_or(0) == 0)
        return no(FeatureSource::attribute,
                  "its attribute " + std::to_string(kFabricHandles) + " (HANDLE_TYPE_FABRIC_SUPPORTED) is 0");
      return by_trial([&] { return Trials(device).fabric_handles(); });
    case Feature::host_memory:
      return ask_about_host(device, false);
    case Feature::host_numa_memory:
      return ask_about_host(device, true);
    default:
      return ask_about_spanning_copies(device);
  }
}

}  // namespace

FeatureAnswer ask_feature(const std::shared_ptr<Device>& device, Feature feature) {
  FeatureTable& table = device->features();
  if (const auto known = table.find(feature)) return *known;
  device->library().require_this_process();
  device->context();  // the trials need it, and it must not end with them
  // Without the wrappers: the program did not ask for these calls, so they are neither counted nor made to fail.
  const FeatureAnswer answer = ask(std::make_shared<Device>(device, device->library().unwrapped()), feature);
  table.put(feature, answer);
  return table.find(feature).value_or(answer);
}

bool has_feature(const std::shared_ptr<Device>& device, Feature feature) {
  return device->features().has(feature) || ask_feature(device, feature).has.value_or(false);
}

Aliasing proven_aliasing(const std::shared_ptr<Device>& device) {
  if (const auto known = device->known_aliasing()) return *known;
  // The first may have been refused in use after both were found.
  if (!has_feature(device, Feature::second_mapping) || !has_feature(device, Feature::shared_bytes))
    return Aliasing::none;
  return has_feature(device, Feature::partial_mapping) ? Aliasing::prefix : Aliasing::whole;
}

bool refuses_mapping(const Error& error) {
  if (error.answer() == nullptr) return false;
  const std::string_view call = error.answer()->call;
  const bool is_about_mapping = call == "cuMemMap" || call == "cuMemSetAccess";
  return is_about_mapping &&
         (error.answer()->code == CUDA_ERROR_INVALID_VALUE || error.answer()->code == CUDA_ERROR_NOT_SUPPORTED);
}

void require_virtual_memory(const Devices& devices, const std::string& what, const std::string& instead) {
  for (const auto& device : devices) {
    const FeatureAnswer answer = ask_feature(device, Feature::virtual_memory);
    if (answer.has.value_or(false)) continue;
    throw Error(ErrorKind::config, what + " needs virtual memory management, which device " +
                                       std::to_string(device->ordinal()) + " does not have (" + answer.reason + "); " +
                                       instead);
  }
}

CUmemLocation host_location(const std::shared_ptr<Device>& device, bool is_numa) {
  const FeatureAnswer answer = ask_feature(device, is_numa ? Feature::host_numa_memory : Feature::host_memory);
  if (answer.has.value_or(false)) return location_on_host(*device, is_numa);
  std::string remedy = "leave the pool's location and spill as they are, or use a newer driver";
  if (!is_numa && has_feature(device, Feature::host_numa_memory)) remedy = "location=\"host_numa\" works here";
  throw Error(ErrorKind::config, "device " + std::to_string(device->ordinal()) +
                                     " and its driver cannot map memory of the host at the location " +
                                     (is_numa ? "HOST_NUMA" : "HOST") + " (" + answer.reason + "); " + remedy);
}

}  // namespace memlake
