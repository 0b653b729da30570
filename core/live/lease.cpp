#include "live/lease.hpp"

#include "live/live_pool.hpp"

namespace memlake {

namespace {

constexpr const char* kNoun = "the buffer";

}  // namespace

Lease::~Lease() {
  ownership_.end_quietly([this] {
    if (block_ != nullptr) pool_->free(block_, stream_);
  });
}

void Lease::require_open() const { ownership_.require(kNoun); }

StreamName Lease::stream_name() const { return pool_->name_of(stream_); }

std::vector<std::pair<std::size_t, Bytes>> Lease::pieces() const {
  require_open();
  if (block_ == nullptr) return {};
  return pool_->pieces_of(*block_);
}

void Lease::record_use(const StreamName& stream) {
  require_open();
  if (block_ != nullptr) pool_->record_use(block_, stream);
}

bool Lease::close_at_once() {
  ownership_.take(kNoun);
  if (block_ == nullptr || pool_->free_at_once(block_, stream_)) return true;
  ownership_.give_back();
  return false;
}

void Lease::close() {
  ownership_.end(kNoun, [this] {
    if (block_ == nullptr) return;
    pool_->require_not_capturing(stream_);
    pool_->free(block_, stream_);
  });
}

void Lease::close(const StreamName& stream) {
  ownership_.end(kNoun, [&] {
    if (block_ == nullptr) return;
    pool_->require_not_capturing(stream);
    pool_->free(block_, pool_->number_of(stream));
  });
}

}  // namespace memlake
