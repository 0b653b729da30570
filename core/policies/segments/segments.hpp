#pragma once

// The memory of segments: one allocation, or a reservation in which single pages are mapped and unmapped. The owners of
// core/vmm make the undo calls.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "blocks/block.hpp"
#include "vmm/exported_chunk.hpp"
#include "vmm/mapping.hpp"
#include "vmm/plain_allocation.hpp"

namespace memlake {

class PlainSegment final : public SegmentMemory {
 public:
  explicit PlainSegment(PlainAllocation allocation)
      : SegmentMemory(allocation.range(), {0}), allocation_(std::move(allocation)) {}

  [[nodiscard]] Bytes mapped() const override { return range.size; }

 private:
  PlainAllocation allocation_;
};

class ExpandableSegment : public SegmentMemory {
 public:
  /// `is_exportable`: whether its pages can be passed to other processes, if the device can do that.
  ExpandableSegment(std::shared_ptr<Device> device, Bytes size, Bytes page_size, bool is_exportable = false);

  /// Maps new memory at the pages that [begin, begin + size) touches; a page begins at `begin`. Returns the mapped
  /// range. All or nothing: if a page cannot be created, the call keeps none of its pages and throws.
  /// `accessors`: the devices that may read and write the memory.
  AddressRange map(Address begin, Bytes size, std::span<const std::shared_ptr<Device>> accessors);

  /// The pages that lie wholly inside a range; of size 0 if there are none.
  AddressRange whole_pages(AddressRange inside) const;
  /// Unmaps whole pages and releases their memory. pre: they are mapped.
  void unmap(AddressRange pages);

  [[nodiscard]] Bytes mapped() const override;
  /// Adds the pages that have memory.
  void add_mapped(std::vector<AddressRange>& ranges) const;
  /// The chunk of the page that contains the address. pre: the page is mapped.
  [[nodiscard]] const std::shared_ptr<PhysicalChunk>& chunk_at(Address address) const {
    return pages_[page_of(address)]->chunk();
  }
  /// The pages that the range touches, for other processes. pre: they are mapped, and the segment is exportable.
  [[nodiscard]] ExportedRange export_pages(AddressRange inside, std::size_t device_number) const;
  /// The number of the latest map() call that mapped a page of the range.
  [[nodiscard]] std::uint64_t generation(AddressRange inside) const;
  /// Whether every page that the range touches has memory, or, if not `wants_memory`, whether none has.
  [[nodiscard]] bool is_consistent(AddressRange inside, bool wants_memory) const;

 protected:
  /// The page that contains the address, and the first page that begins at or behind it.
  std::size_t page_of(Address address) const { return (address - range.begin).count / page.count; }
  std::size_t page_from(Address address) const { return page_of({address.value + page.count - 1}); }
  AddressRange pages_at(std::size_t first, std::size_t last) const {
    return {range.begin + page * first, page * (last - first)};
  }

 private:
  std::shared_ptr<Device> device_;
  bool is_exportable_;
  std::shared_ptr<Reservation> reservation_;
  std::vector<std::optional<Mapping>> pages_;  // a mapping owns its chunk
  std::vector<std::uint64_t> mapped_at_;       // by page: number of the call of map()
  std::uint64_t calls_ = 0;
};

}  // namespace memlake
