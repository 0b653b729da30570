#pragma once

// The emulated driver of the process: all parts and one lock.
//
// A part uses only the parts above it in this class. `mutex` guards everything except the counters of the ledger. Work
// of streams runs without the mutex. `changed` is notified when work was queued, finished or unblocked.

#include <condition_variable>
#include <mutex>
#include <string>

#include "arena.hpp"
#include "caller_names.hpp"
#include "chunk.hpp"
#include "context.hpp"
#include "device.hpp"
#include "ledger.hpp"
#include "mapping.hpp"
#include "memory_map.hpp"
#include "plain_memory.hpp"
#include "pool.hpp"
#include "stream.hpp"
#include "work.hpp"

namespace memlake::emulator {

class Driver {
 public:
  /// Made on first use and never destroyed, because worker threads and late calls use it until the process ends.
  static Driver& instance();

  std::mutex mutex;
  std::condition_variable changed;
  Ledger ledger;
  Devices devices;
  Contexts contexts;
  Arena arena;
  Chunks chunks{devices, contexts, arena};
  InFlight in_flight;
  Mappings mappings{devices, chunks, arena, in_flight};
  PlainMemory plain{arena};
  Streams streams{changed, mutex, in_flight, contexts, [this](const std::string& sentence) {
                    ledger.note_warning(Origin{.call = "a stream"}, sentence + "; its context is lost (sticky 700)");
                  }};
  Pools pools{devices, chunks, arena, in_flight, streams};
  MemoryMap memory{mappings, plain, pools, arena};

  /// cuInit. Makes the devices of MEMLAKE_EMULATOR, or a default device if there is no device.
  void initialize();

  int add_devices(const GroupConfig& group);
  void close_device(Lock& lock, Device& device);

  /// Ends a context with its work, streams, events and plain allocations. The last context of a device also ends its
  /// pools.
  void destroy_context(Lock& lock, Context& context);

  /// All objects, call counts, violations and warnings, as JSON.
  std::string ledger_json(Lock& lock);

  /// A shorter text for people: the objects that still exist, the violations and the warnings.
  std::string ledger_text(Lock& lock);

  [[nodiscard]] int version() const { return version_; }
  [[nodiscard]] bool is_initialized() const { return is_initialized_; }

 private:
  void add_devices_of_environment();
  void drop_pools(Lock& lock, Device& device);
  int add_group(const GroupConfig& group);
  std::string write_json();
  std::string write_text();

  /// Whether work is running on one of the selected ranges.
  template <class Ranges, class Selects>
  [[nodiscard]] bool is_running_on(const Ranges& ranges, Selects selects) const;

  CallerNames callers_;
  int version_ = 13000;
  bool has_read_environment_ = false;
  bool is_initialized_ = false;
};

}  // namespace memlake::emulator
