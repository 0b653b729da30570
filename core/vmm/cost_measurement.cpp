#include "vmm/cost_measurement.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "driver/library.hpp"
#include "driver/result.hpp"
#include "driver/stream.hpp"
#include "driver/transfer.hpp"
#include "vmm/access.hpp"
#include "vmm/plain_allocation.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

template <class Work>
double timed(Work&& work) {
  const auto begin = Clock::now();
  work();
  return since(begin);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

std::shared_ptr<Device> quiet(const std::shared_ptr<Device>& device) {
  device->context();  // so that it does not end with the object below
  return std::make_shared<Device>(device, device->library().unwrapped());
}

/// Memory of one kind, for a copy.
struct Range {
  StitchedRange stitched{};
  std::optional<PlainAllocation> plain{};

  Range(const std::shared_ptr<Device>& device, Bytes total, Bytes handle) {
    if (handle.count == 0) {
      plain.emplace(device, total);
      return;
    }
    std::vector<std::shared_ptr<PhysicalChunk>> chunks;
    for (Bytes made{0}; made < total; made = made + handle)
      chunks.push_back(
          std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, std::min(handle, total - made), false)));
    stitched = stitch(device, chunks, Devices{device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }

  [[nodiscard]] Address begin() const { return plain ? plain->range().begin : stitched.reservation->range().begin; }
};

}  // namespace

CallTimes measure_calls(const std::shared_ptr<Device>& device, Bytes size, std::size_t count) {
  const auto on = quiet(device);
  CallTimes times;
  std::vector<double> creates;
  std::vector<double> maps;
  std::vector<double> releases;
  std::optional<Reservation> made;
  times.reserve = timed([&] { made.emplace(on, size * count, Bytes{0}, Address{0}); });
  const auto addresses = std::make_shared<Reservation>(std::move(*made));
  made.reset();
  std::vector<std::shared_ptr<PhysicalChunk>> chunks;
  for (std::size_t i = 0; i < count; ++i)
    creates.push_back(
        timed([&] { chunks.push_back(std::make_shared<PhysicalChunk>(PhysicalChunk::create(on, size, false))); }));
  std::vector<Mapping> mappings;
  mappings.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    maps.push_back(timed([&] { mappings.emplace_back(addresses, size * i, chunks[i], size); }));
  const Devices own{on};
  times.set_access =
      timed([&] { set_access(on->driver(), addresses->range(), own, CU_MEM_ACCESS_FLAGS_PROT_READWRITE); });
  std::vector<Mapping*> run;
  for (Mapping& mapping : mappings) run.push_back(&mapping);
  times.unmap = timed([&] { Mapping::close_run(run); });
  mappings.clear();
  for (const auto& chunk : chunks) releases.push_back(timed([&] { chunk->close(); }));
  times.address_free = timed([&] { addresses->close(); });
  times.create = median(std::move(creates));
  times.map = median(std::move(maps));
  times.release = median(std::move(releases));
  return times;
}

PlainTimes measure_plain(const std::shared_ptr<Device>& device, Bytes size) {
  const auto on = quiet(device);
  PlainTimes times;
  std::optional<PlainAllocation> allocation;
  times.alloc = timed([&] { allocation.emplace(on, size); });
  times.free = timed([&] { allocation->close(); });
  return times;
}

double measure_copy(const std::shared_ptr<Device>& device, Bytes total, Bytes handle, int repeats) {
  const auto on = quiet(device);
  const Range source(on, total, handle);
  const Range destination(on, total, handle);
  const StreamOwner stream(on, true, 0);
  const auto wait = [&] {
    const CurrentContext current(*on);
    check(on->driver(), Call::cuStreamSynchronize, on->driver().cuStreamSynchronize(stream.handle()));
  };
  fill(*on, source.begin(), 1, total, stream.handle());
  copy(*on, destination.begin(), source.begin(), total, stream.handle());
  wait();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i)
    times.push_back(timed([&] {
      copy(*on, destination.begin(), source.begin(), total, stream.handle());
      wait();
    }));
  return static_cast<double>(total.count) / std::max(median(std::move(times)), 1e-3) * 1e6;
}

}  // namespace memlake
