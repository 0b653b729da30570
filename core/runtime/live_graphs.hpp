#pragma once

// LiveGraphs: the graph pools of a live pool, which have the memory of captured graphs: which requests go there, and
// how many graphs use them. Their memory keeps its addresses and its chunks, and serves no other request, until the
// last graph that uses it gives it up.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/locked_pool.hpp"

namespace memlake {

/// The figures of one graph pool.
struct GraphPoolStats {
  std::uint64_t uses = 0;   ///< graphs that share it
  std::uint64_t begun = 0;  ///< calls of begin_requests() that have not ended
  Bytes held;
  Level live;
};

class LiveGraphs {
 public:
  explicit LiveGraphs(LockedPool& locked) : locked_(locked) {}

  /// Whether a request of the calling thread for the stream goes to the graph pool. Called under the pool's lock: it
  /// must not call the pool.
  using RequestFilter = std::function<bool(CUstream)>;
  /// An id that no graph pool of this pool has.
  GraphPoolId make_id();
  /// One more graph uses the graph pool, which is made if necessary. Error(invalid_argument) for {0, 0}.
  void use(GraphPoolId id);
  /// One more graph uses the graph pool, and from now on requests that `takes` accepts go there. Of several graph pools
  /// that accept a request, the oldest gets it. Returns a number for end_requests().
  std::uint64_t begin_requests(GraphPoolId id, RequestFilter takes);
  /// Ends that; does nothing if it was ended before.
  void end_requests(std::uint64_t number);
  /// Ends the latest of the graph pool. Error(invalid_argument) if there is none.
  void end_requests(GraphPoolId id);
  /// A graph gives the graph pool up: none of its launches comes later. After the last one its memory comes back; if
  /// `may_wait`, at once, behind a wait for the devices. Error(invalid_free) if no graph uses it,
  /// Error(invalid_argument) while requests still go there.
  void release(GraphPoolId id, bool may_wait);
  [[nodiscard]] GraphPoolStats stats(GraphPoolId id) const;
  /// See Pool. A request for a stream that captures a graph makes it captured. Error(invalid_argument) if no graph uses
  /// it.
  void set_captured(GraphPoolId id, bool is_captured);
  /// Releases the free memory of the graph pool if no graph uses it any more, behind a wait for the devices.
  void empty(GraphPoolId id);

  // pre: the lock is held.

  /// The graph pool to which a request of this thread goes; std::nullopt: to none.
  [[nodiscard]] std::optional<GraphPoolId> pool_for(CUstream stream) const {
    if (routes_.empty()) [[likely]]
      return std::nullopt;
    return route_of(stream);
  }
  /// The space of the graph pool that serves a request for the stream. pre: a graph uses it.
  Space& space_for(GraphPoolId id, StreamId stream);
  /// Error(invalid_argument) if no graph uses it.
  void require_used(GraphPoolId id) const;
  /// Error(invalid_free) while requests go to a graph pool.
  void require_no_requests() const;
  /// The pool is being closed: no request goes to a graph pool any more.
  void drop_requests() { routes_.clear(); }

 private:
  /// Requests that go to a graph pool.
  struct Route {
    std::uint64_t number;
    GraphPoolId id;
    RequestFilter takes;
  };

  [[nodiscard]] std::optional<GraphPoolId> route_of(CUstream stream) const;
  /// If many graph pools have ended since the host waited: waits, and releases their memory.
  void release_many_ended(std::unique_lock<Lock>& lock);

  LockedPool& locked_;
  std::vector<Route> routes_;  // oldest first
  std::uint64_t routes_made_ = 0;
  std::uint64_t ids_made_ = 0;  // by make_id()
};

}  // namespace memlake
