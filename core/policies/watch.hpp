#pragma once

// Watch: the place where a space reports changes of its memory. No program watches most pools, so a report costs one
// comparison until an observer is set.
//
// The reports are about addresses that blocks can be cut from: at every moment, the ranges that were reported as mapped
// or allocated are those of the blocks that are free, claimed, live or pending. Memory that is mapped at two addresses
// is reported at the one where a block uses it. So the ranges together have as many bytes as the space holds.

#include "base/address.hpp"
#include "blocks/block.hpp"
#include "policies/graph_pool.hpp"

namespace memlake {

class SupplyObserver {
 public:
  SupplyObserver() = default;
  SupplyObserver(const SupplyObserver&) = delete;
  SupplyObserver& operator=(const SupplyObserver&) = delete;
  virtual ~SupplyObserver() = default;

  /// One allocation of the driver begins or ends. `owner`: the graph pool that the memory belongs to.
  virtual void on_allocate(AddressRange range, StreamId stream, GraphPoolId owner) = 0;
  virtual void on_release(AddressRange range, StreamId stream, GraphPoolId owner) = 0;
  /// Memory can be used at these addresses from now on, or cannot any more.
  virtual void on_map(AddressRange range, StreamId stream, GraphPoolId owner) = 0;
  virtual void on_unmap(AddressRange range, StreamId stream, GraphPoolId owner) = 0;
  /// The held memory of segments for small or for large requests changes.
  virtual void on_hold(Bytes more, Bytes less, bool is_small) = 0;
  /// The number of these segments changes.
  virtual void on_segment(bool is_new, bool is_small) = 0;
};

class Watch {
 public:
  void set(SupplyObserver* observer) { observer_ = observer; }
  /// All memory that is reported belongs to this graph pool.
  void set_owner(GraphPoolId owner) { owner_ = owner; }

  void allocated(AddressRange range, StreamId stream) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_allocate(range, stream, owner_);
  }
  void released(AddressRange range, StreamId stream) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_release(range, stream, owner_);
  }
  void mapped(AddressRange range, StreamId stream) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_map(range, stream, owner_);
  }
  void unmapped(AddressRange range, StreamId stream) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_unmap(range, stream, owner_);
  }
  void holds_more(Bytes bytes, bool is_small) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_hold(bytes, {0}, is_small);
  }
  void holds_less(Bytes bytes, bool is_small) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_hold({0}, bytes, is_small);
  }
  void segment_made(bool is_small) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_segment(true, is_small);
  }
  void segment_gone(bool is_small) const {
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_segment(false, is_small);
  }

 private:
  SupplyObserver* observer_ = nullptr;
  GraphPoolId owner_;
};

/// The part of a space's memory that is for small requests.
struct SmallPart {
  Bytes held;
  std::size_t segments = 0;
};

}  // namespace memlake
