#pragma once

// What other processes of the user see of the pools of this one (`memlake top`): figures as JSON, sent through a
// socket. It is here and not in Python, because a reader asks ten times a second and the program shall not notice it.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/live_pool.hpp"

namespace memlake {

struct PublishedPool {
  std::weak_ptr<LivePool> pool;
  std::string fixed;  ///< what does not change: the beginning of a JSON object, without its end
};

struct Publication {
  std::string head;  ///< about the process: the beginning of a JSON object, without its end
  std::vector<PublishedPool> pools;
};

/// To be called when a pool was made that readers shall see. The next answer asks for the publication anew.
void publication_changed() noexcept;

/// The figures of streams, for one reader. They are sums over all blocks. A walk over some thousand blocks that are no
/// longer in the processor's cache takes longer than all the rest, so a reader who asks often gets older sums.
class StreamFigures {
 public:
  using Clock = std::chrono::steady_clock;
  /// The processor time that the calling thread has used.
  using ThreadTime = std::chrono::nanoseconds (*)() noexcept;

  /// `thread_time` measures the walks.
  explicit StreamFigures(ThreadTime thread_time) noexcept : thread_time_(thread_time) {}
  StreamFigures() noexcept;

  /// To be called before the figures of a moment are asked for: whether the pools are looked at again.
  void begin(Clock::time_point now) noexcept;
  /// A JSON list of stream, live, pending, free. Throws if the pool is closed.
  const std::string& of(const LivePool& pool);

 private:
  ThreadTime thread_time_;
  std::chrono::nanoseconds spent_{0};  // in the walks since the last time that all pools were looked at
  Clock::time_point looked_ = Clock::time_point::min();
  std::map<const LivePool*, std::string> known_;
};

/// The publication with the figures of this moment, as JSON. Pools that are closed are left out. The figures of a pool
/// that change are a list, which src/memlake/publishing/reader.py reads.
std::string figures_text(const Publication& publication, StreamFigures& streams);

/// Answers a reader until it or `socket` ends. For each byte '?' it gets the length of the text in 4 bytes, the highest
/// first, and the text. `look` returns the publication; it is called after publication_changed(), and after some
/// seconds, because a pool that C functions make is given to PyTorch a moment later. Throws what `look` throws.
void answer_reader(int socket, const std::function<Publication()>& look);

}  // namespace memlake
