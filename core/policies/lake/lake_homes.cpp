#include "policies/lake/lake_homes.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/host_memory.hpp"
#include "vmm/access.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

LakeHomes::LakeHomes(Devices devices, const LakeOptions& options, EventSource& events, Ledger& ledger, Bytes total)
    : devices_(std::move(devices)),
      options_(options),
      events_(events),
      ledger_(ledger),
      total_(total),
      granule_(common_granularity(devices_)) {
  for (const auto& device : devices_) {
    const Bytes memory = device->total_memory();
    homes_.push_back({.total = memory, .most = memory});
  }
  is_exportable_ = options_.is_exportable && !is_on_host() && std::ranges::all_of(devices_, [](const auto& device) {
                     return has_feature(device, Feature::file_descriptors);
                   });
  if (options_.location == Location::device && !options_.may_spill) return;
  const bool is_numa = options_.location != Location::host;
  for (const auto& device : devices_) static_cast<void>(host_location(device, is_numa));  // all of them must be able
  host_ = host_location(devices_.front(), is_numa);
  granule_ = {std::lcm(granule_.count, devices_.front()->host_granularity(host_).count)};
  if (is_on_host()) homes_ = {{.total = total_, .most = total_}};
}

void LakeHomes::note_refusal(Feature feature, const Error& error) const {
  for (const auto& device : devices_) device->features().turn_off(feature, device->ordinal(), error.what());
}

bool LakeHomes::is_exportable() const {
  return is_exportable_ && std::ranges::all_of(devices_, [](const auto& device) {
           return device->features().has(Feature::file_descriptors);
         });
}

Bytes LakeHomes::budget() const {
  Bytes sum{0};
  for (const Home& home : homes_) sum = sum + home.most;
  return std::min(ledger_.most(), sum).rounded_down(granule_);
}

double LakeHomes::share_on(std::size_t home, Bytes made) const {
  return static_cast<double>((ledger_.held_on(home) + made).count) / static_cast<double>(homes_[home].total.count);
}

std::vector<std::size_t> LakeHomes::by_share() const {
  std::vector<std::size_t> order(homes_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [this](std::size_t i) { return share_on(i, ledger_.promised_on(i)); });
  return order;
}

std::optional<std::size_t> LakeHomes::home_for(Bytes total) const {
  for (const std::size_t home : by_share())
    if (has_room_on(home, total)) return home;
  return std::nullopt;
}

std::size_t LakeHomes::next_home(const std::vector<Bytes>& made, StreamId stream) const {
  const auto has_room = [&](std::size_t i) { return ledger_.held_on(i) + made[i] + granule_ <= homes_[i].most; };
  const std::size_t last = homes_.size() - 1;
  std::size_t best = last;
  if (options_.placement == Placement::near) {
    best = std::min(events_.handles().device_of(stream), last);
    if (has_room(best)) return best;
  }
  if (options_.placement == Placement::balance) {
    for (std::size_t i = 0; i <= last; ++i)
      if (has_room(i) && (!has_room(best) || share_on(i, made[i]) < share_on(best, made[best]))) best = i;
    return best;
  }
  for (std::size_t i = 0; i <= last; ++i)
    if (has_room(i)) return i;
  return last;
}

std::vector<Making> LakeHomes::assign(const std::vector<Bytes>& sizes, StreamId stream,
                                      std::optional<std::size_t> only) const {
  std::vector<Making> makings;
  if (only) {
    for (const Bytes size : sizes) makings.push_back({size, *only});
    return makings;
  }
  std::vector<Bytes> made;
  for (std::size_t i = 0; i < homes_.size(); ++i) made.push_back(ledger_.promised_on(i));
  for (Bytes left : sizes)
    while (left.count > 0) {
      const std::size_t on = next_home(made, stream);
      const Bytes taken = ledger_.held_on(on) + made[on];
      Bytes size = left;
      if (homes_.size() > 1 && taken + granule_ <= homes_[on].most)
        size = std::min(size, (homes_[on].most - taken).rounded_down(granule_));
      makings.push_back({size, on});
      made[on] = made[on] + size;
      left = left - size;
    }
  return makings;
}

std::unique_ptr<LakeChunk> LakeHomes::create(const Making& making) const {
  if (is_on_host()) return create_on_host(making.size);
  auto chunk = std::make_unique<LakeChunk>();
  chunk->memory =
      std::make_shared<PhysicalChunk>(PhysicalChunk::create(devices_[making.on], making.size, is_exportable()));
  chunk->size = making.size;
  chunk->device = making.on;
  return chunk;
}

std::unique_ptr<LakeChunk> LakeHomes::create_on_host(Bytes size) const {
  auto chunk = std::make_unique<LakeChunk>();
  chunk->memory = std::make_shared<PhysicalChunk>(PhysicalChunk::create_on_host(devices_.front(), size, host_));
  chunk->size = size;
  chunk->device = devices_.size();
  return chunk;
}

std::unique_ptr<LakeChunk> LakeHomes::create_spilled(Bytes size) const {
  auto chunk = create_on_host(size);
  chunk->is_spilled = true;
  return chunk;
}

std::vector<std::unique_ptr<LakeChunk>> LakeHomes::create(const std::vector<Bytes>& sizes, StreamId stream,
                                                          std::optional<std::size_t> only) {
  std::vector<std::unique_ptr<LakeChunk>> chunks;
  for (const Making& making : assign(sizes, stream, only)) {
    try {
      chunks.push_back(create(making));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::out_of_memory) note_shortage(making.on);
      throw;
    }
  }
  return chunks;
}

bool LakeHomes::has_more_than_known() {
  bool has_more = false;
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    Home& home = homes_[i];
    if (home.most == home.total) continue;
    const Bytes free = is_on_host() ? free_host_memory() : devices_[i]->free_memory();
    const Bytes now = std::min(home.total, taken_on(i) + free.rounded_down(granule_));
    has_more |= now > home.most;
    home.most = std::max(home.most, now);
  }
  return has_more;
}

void LakeHomes::add(const LakeChunk& chunk) {
  if (chunk.is_spilled) {
    ledger_.spill(chunk.size);
  } else {
    ledger_.add(chunk.size, home_of(chunk));
  }
}

void LakeHomes::subtract(const LakeChunk& chunk) {
  if (chunk.is_spilled) {
    ledger_.unspill(chunk.size);
    return;
  }
  ledger_.subtract(chunk.size, home_of(chunk));
  Home& home = homes_[home_of(chunk)];
  home.most = home.total;
}

std::shared_ptr<Reservation> LakeHomes::reserve(Bytes size) const {
  return std::make_shared<Reservation>(devices_.front(), size, Bytes{0}, Address{0});
}

void LakeHomes::grant(AddressRange range, std::span<const std::shared_ptr<Device>> users, Bytes on_host) const {
  if (range.size.count == 0) return;
  Driver& driver = devices_.front()->driver();
  set_access(driver, range, users, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (on_host.count > 0)
    set_host_access(driver, {{range.end().value - on_host.count}, on_host}, host_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

}  // namespace memlake
