#pragma once

// The emulated driver of the process: all parts and one lock.
//
// A part uses only the parts above it in this class. `mutex` guards everything except the counters of the ledger. Work
// of streams runs without the mutex. Threads of the program wait at `changed`, which is notified when work has finished
// or was unblocked. The worker of each stream waits at a condition variable of its stream.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "basics/json.hpp"
#include "basics/ledger.hpp"
#include "code/launch.hpp"
#include "code/library.hpp"
#include "code/link.hpp"
#include "code/module.hpp"
#include "devices/context.hpp"
#include "devices/device.hpp"
#include "graphs/capture.hpp"
#include "graphs/graph_exec.hpp"
#include "graphs/user_object.hpp"
#include "memory/arena.hpp"
#include "memory/array.hpp"
#include "memory/chunk.hpp"
#include "memory/managed_pages.hpp"
#include "memory/mapping.hpp"
#include "memory/plain_memory.hpp"
#include "pools/pools.hpp"
#include "process/caller_names.hpp"
#include "process/checkpoint.hpp"
#include "process/memory_map.hpp"
#include "work/event.hpp"
#include "work/order.hpp"
#include "work/streams.hpp"
#include "work/work.hpp"

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
  ManagedPages managed{devices};
  Arena arena;
  Chunks chunks{devices, contexts, arena};
  InFlight in_flight;
  std::vector<int> faults;  ///< the number of the device, for each context that failed work has lost (NVML's events)
  Order order;
  Mappings mappings{devices, chunks, arena, in_flight, order};
  PlainMemory plain{arena, devices.managed(), managed};
  Arrays arrays{plain};
  Streams streams{changed, mutex, in_flight, order, contexts, ledger, faults};
  Events events{streams, order, contexts};
  Pools pools{devices, chunks, arena, in_flight, order, managed, streams};
  MemoryMap memory{mappings, plain, pools, arena};
  Modules modules{contexts, plain};
  Libraries libraries{contexts, modules};
  Links links;
  SkippedLaunches skipped;
  UserObjects user_objects;
  Graphs graphs{user_objects};
  GraphExecs execs{graphs};
  Captures captures{streams, graphs};
  Checkpoint checkpoint;

  /// cuInit. Makes the devices of MEMLAKE_EMULATOR, or a default device if there is no device; CUDA_VISIBLE_DEVICES
  /// selects among these. Throws 100 if no device is left.
  void initialize();

  /// The settings of the devices that this process began with, hidden ones included; their numbers are 0, 1, ... Null
  /// if the program added devices itself. nvmlInit asks before and after cuInit. Throws 100 for bad settings.
  const GroupConfig* first_devices();

  /// Whether the device with this number was closed. A hidden device is open.
  [[nodiscard]] bool was_closed(int number) const;

  int add_devices(const GroupConfig& group);
  void close_device(Lock& lock, Device& device);

  /// Makes a context. Throws 46 if the device's compute mode prohibits contexts (NVML).
  Context& create_context(Device& device, bool is_primary, unsigned flags);

  /// The primary context of a device, made if it is not active. Throws as create_context().
  std::uint64_t primary_context(Device& device);

  /// Ends a context with its work, streams, events and plain allocations. The last context of a device also ends its
  /// pools.
  void destroy_context(Lock& lock, Context& context);

  /// Ends a green context with its streams, and gives up its hold on the primary context.
  void destroy_green(Lock& lock, GreenContext& green);

  /// Gives up one hold on the device's primary context. pre: it is retained.
  void release_primary(Lock& lock, Device& device);

  /// Queues work, and notes it as a use of the memory that it touches. Throws as Streams::enqueue().
  void enqueue(Stream& stream, Work&& work) {
    memory.note_uses(streams.enqueue_touching(stream, std::move(work)), order);
  }

  /// Queues work as enqueue(), and waits for it. Runs it in the calling thread if no earlier work is pending. Throws
  /// before it queues anything if the wait would never end.
  void run_and_wait(Lock& lock, Stream& stream, Work&& work) {
    const Streams::Awaited awaited = streams.enqueue_awaited(stream, std::move(work));
    memory.note_uses(awaited.work, order);
    streams.finish(lock, stream, awaited);
  }

  /// Waits for the work of the module's device and for other users of its variables. Throws the error of work that
  /// failed meanwhile.
  void wait_for_users(Lock& lock, const Module& module);

  /// All objects, call counts, violations and warnings, as JSON.
  std::string ledger_json(Lock& lock);

  /// A shorter text for people: the objects that still exist, the violations and the warnings.
  std::string ledger_text(Lock& lock);

  /// The CUDA version. Programs ask for it before cuInit, too; then it is that of MEMLAKE_EMULATOR.
  [[nodiscard]] int version() const;
  [[nodiscard]] bool is_initialized() const { return is_initialized_; }

 private:
  /// Reads MEMLAKE_EMULATOR once. A bad one throws each time it is read.
  void read_environment();
  void add_devices_of_environment();
  void drop_pools(Lock& lock, Device& device);
  int add_group(const GroupConfig& group, bool is_first = false);
  std::string write_json();
  // The parts of write_json(), in its order.
  void write_devices(Json& json);
  void write_memory(Json& json);
  void write_pools(Json& json);
  void write_work(Json& json);
  void write_code(Json& json);
  void write_graphs(Json& json);
  std::string write_text();

  /// Whether work is running on one of the selected ranges.
  template <class Ranges, class Selects>
  [[nodiscard]] bool is_running_on(const Ranges& ranges, Selects selects) const;

  CallerNames callers_;
  int version_ = kNewestDriver;
  std::optional<GroupConfig> first_;  // see first_devices()
  bool has_read_environment_ = false;
  bool has_first_ = false;  // the visible ones of first_ are among the devices
  bool is_initialized_ = false;
};

}  // namespace memlake::emulator
