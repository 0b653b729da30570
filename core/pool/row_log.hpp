#pragma once

// RowLog: the operations of a pool, row by row, in the columns of a trace. The pool writes it during a recording.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "blocks/block.hpp"
#include "policies/graph_pool.hpp"

namespace memlake {

class RowLog {
 public:
  /// The numbers of the trace format.
  enum class Op : std::uint8_t {
    allocate = 0,
    free = 1,
    record_stream = 2,
    event_done = 3,
    empty_cache = 6,
    free_on = 7,
    trim = 8,
    preallocate = 9,
    release_pool = 10,
  };

  /// `graph_pool`: the graph pool that serves the request, or that is released.
  void add(Op op, std::uint64_t id, Bytes bytes, StreamId stream, GraphPoolId graph_pool = {}) {
    if (graph_pool != GraphPoolId{} || !pool_.empty()) [[unlikely]] {
      pool_.resize(op_.size());
      pool_.push_back(number_of(graph_pool));
    }
    op_.push_back(static_cast<std::uint8_t>(op));
    id_.push_back(id);
    bytes_.push_back(bytes.count);
    stream_.push_back(stream);
    const auto since = std::chrono::steady_clock::now() - begun_;
    time_us_.push_back(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
  }

  [[nodiscard]] std::size_t size() const { return op_.size(); }
  [[nodiscard]] const std::vector<std::uint8_t>& op() const { return op_; }
  [[nodiscard]] const std::vector<std::uint64_t>& id() const { return id_; }
  [[nodiscard]] const std::vector<std::uint64_t>& bytes() const { return bytes_; }
  [[nodiscard]] const std::vector<StreamId>& stream() const { return stream_; }
  [[nodiscard]] const std::vector<std::int64_t>& time_us() const { return time_us_; }
  /// For each row the place of its graph pool in pools(), 0 for none. Empty if no row has one.
  [[nodiscard]] const std::vector<std::uint32_t>& pool() const { return pool_; }
  [[nodiscard]] const std::vector<GraphPoolId>& pools() const { return pools_; }

 private:
  std::uint32_t number_of(GraphPoolId graph_pool) {
    const auto at = std::ranges::find(pools_, graph_pool);
    const auto number = static_cast<std::uint32_t>(at - pools_.begin());
    if (at == pools_.end()) pools_.push_back(graph_pool);
    return number;
  }

  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::vector<std::uint8_t> op_;
  std::vector<std::uint64_t> id_;
  std::vector<std::uint64_t> bytes_;
  std::vector<StreamId> stream_;
  std::vector<std::int64_t> time_us_;
  std::vector<std::uint32_t> pool_;
  std::vector<GraphPoolId> pools_{{}};  // the first stands for none
};

}  // namespace memlake
