#include "policies/segments/segments.hpp"

#include <algorithm>
#include <utility>

#include "vmm/access.hpp"

namespace memlake {

ExpandableSegment::ExpandableSegment(std::shared_ptr<Device> device, Bytes size, Bytes page_size, bool is_exportable)
    : SegmentMemory({}, page_size),
      device_(std::move(device)),
      is_exportable_(is_exportable),
      reservation_(std::make_shared<Reservation>(device_, size, Bytes{0}, Address{0})) {
  range = reservation_->range();
}

AddressRange ExpandableSegment::map(Address begin, Bytes size, std::span<const std::shared_ptr<Device>> accessors) {
  const std::size_t first = page_of(begin);
  const std::size_t last = page_from(begin + size);
  // A driver may have refused such handles meanwhile.
  const bool is_exportable = is_exportable_ && device_->features().has(Feature::file_descriptors);
  // All chunks before the first mapping, as PyTorch does: running out of memory then costs no unmapping.
  std::vector<std::shared_ptr<PhysicalChunk>> chunks;
  chunks.reserve(last - first);
  for (std::size_t i = first; i < last; ++i)
    chunks.push_back(std::make_shared<PhysicalChunk>(PhysicalChunk::create(device_, page, is_exportable)));
  std::vector<Mapping> mappings;
  mappings.reserve(last - first);
  for (std::size_t i = first; i < last; ++i)
    mappings.emplace_back(reservation_, page * i, std::move(chunks[i - first]), page);
  const AddressRange mapped = pages_at(first, last);
  set_access(device_->driver(), mapped, accessors, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (pages_.size() < last) {
    pages_.resize(last);
    mapped_at_.resize(last);
  }
  ++calls_;
  for (std::size_t i = first; i < last; ++i) {
    pages_[i].emplace(std::move(mappings[i - first]));
    mapped_at_[i] = calls_;
  }
  return mapped;
}

AddressRange ExpandableSegment::whole_pages(AddressRange inside) const {
  const std::size_t first = page_from(inside.begin);
  const std::size_t last = page_of(inside.end());
  return first < last ? pages_at(first, last) : AddressRange{inside.begin, {0}};
}

void ExpandableSegment::unmap(AddressRange pages) {
  for (std::size_t i = page_of(pages.begin); i < page_of(pages.end()); ++i) pages_[i].reset();
}

ExportedRange ExpandableSegment::export_pages(AddressRange inside, std::size_t device_number) const {
  const std::size_t first = page_of(inside.begin);
  const std::size_t last = page_from(inside.end());
  ExportedRange exported;
  exported.offset = inside.begin - pages_at(first, last).begin;
  for (std::size_t i = first; i < last; ++i)
    exported.chunks.push_back({Descriptor(pages_[i]->chunk()->export_fd()), page, device_number});
  return exported;
}

std::uint64_t ExpandableSegment::generation(AddressRange inside) const {
  std::uint64_t latest = 0;
  for (std::size_t i = page_of(inside.begin); i < page_from(inside.end()); ++i)
    latest = std::max(latest, mapped_at_[i]);
  return latest;
}

Bytes ExpandableSegment::mapped() const {
  return page * static_cast<std::uint64_t>(std::ranges::count_if(pages_, [](const auto& p) { return p.has_value(); }));
}

void ExpandableSegment::add_mapped(std::vector<AddressRange>& ranges) const {
  for (const auto& mapping : pages_)
    if (mapping) ranges.push_back(mapping->range());
}

bool ExpandableSegment::is_consistent(AddressRange inside, bool wants_memory) const {
  const std::size_t first = page_of(inside.begin);
  const std::size_t last = page_from(inside.end());
  // Pages behind the last one that was ever mapped have no memory; a range that is broken may have any number of them.
  if (wants_memory && last > pages_.size()) return false;
  for (std::size_t i = first; i < std::min(last, pages_.size()); ++i)
    if (pages_[i].has_value() != wants_memory) return false;
  return true;
}

}  // namespace memlake
