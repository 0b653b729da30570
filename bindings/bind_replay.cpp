#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>

#include "bindings.hpp"
#include "integers.hpp"
#include "policy/direct_policy.hpp"
#include "policy/torch_policy.hpp"
#include "replay/replay.hpp"
#include "replay/replay_device.hpp"

namespace memlake::bindings {
namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> as_span(const Column<T>& column) {
  return {column.data(), column.size()};
}

/// What a replay needs beside the trace, in plain numbers.
struct ReplaySettings {
  TorchOptions torch;
  bool is_direct = false;
  std::uint64_t capacity = 0;
  std::uint64_t limit = TorchOptions::kUnlimited.count;
  EventMode events = EventMode::immediate;
  std::uint64_t lag = 0;
  ReplayOptions options;
};

struct ReplayReport {
  PoolStats stats;
  ReplayOutcome outcome;
  std::vector<std::pair<std::string, std::uint64_t>> calls;
  double modelled_us = 0;
  std::uint64_t host_waits = 0;
};

std::unique_ptr<Policy> make_policy(const ReplaySettings& settings) {
  if (settings.is_direct) return std::make_unique<DirectPolicy>();
  return std::make_unique<TorchPolicy>(settings.torch);
}

ReplayReport run(Library& library, const TraceColumns& trace, const ReplaySettings& settings) {
  ReplayDevice device(library, {settings.capacity});
  TraceEvents events(settings.events, settings.lag);
  Pool pool(device.device(), make_policy(settings), events, {settings.limit});
  ReplayReport report;
  report.outcome = replay(trace, pool, events, settings.options);
  report.stats = pool.stats();
  report.modelled_us = device.calls().modelled_us();
  report.host_waits = events.host_waits;
  for (std::size_t i = 0; i < call_names.size(); ++i)
    if (const auto count = device.calls().count(static_cast<Call>(i))) report.calls.emplace_back(call_names[i], count);
  for (const auto& [name, count] : {std::pair{"cuEventRecord", events.records},
                                    {"cuEventQuery", events.queries},
                                    {"cuEventSynchronize", events.synchronisations}})
    if (count > 0) report.calls.emplace_back(name, count);
  return report;
}

nb::object failure_of(const ReplayReport& report) {
  const auto& failure = report.outcome.first_failure;
  if (!failure) return nb::none();
  nb::dict picture;
  picture["row"] = failure->row;
  picture["requested"] = failure->requested.count;
  picture["stream"] = failure->stream;
  picture["reason"] = reason_name(failure->reason);
  picture["held"] = failure->held.count;
  picture["allocated"] = failure->allocated.count;
  picture["pending"] = failure->pending.count;
  picture["free"] = failure->free.count;
  picture["largest_free"] = failure->largest_free.count;
  picture["largest_usable"] = failure->largest_usable.count;
  return picture;
}

/// Three columns of the timeline: rows, bytes allocated, bytes held.
nb::tuple timeline_of(const ReplayReport& report) {
  nb::list rows;
  nb::list allocated;
  nb::list held;
  for (const Sample& sample : report.outcome.timeline) {
    rows.append(sample.row);
    allocated.append(sample.allocated.count);
    held.append(sample.held.count);
  }
  return nb::make_tuple(rows, allocated, held);
}

nb::dict calls_of(const ReplayReport& report) {
  nb::dict calls;
  for (const auto& [name, count] : report.calls) calls[name.c_str()] = count;
  return calls;
}

EventMode event_mode(const std::string& name) {
  if (name == "immediate") return EventMode::immediate;
  if (name == "recorded") return EventMode::recorded;
  if (name == "lag") return EventMode::lag;
  throw nb::value_error("events must be 'immediate', 'recorded' or 'lag'");
}

}  // namespace

void bind_replay(nb::module_& m) {
  nb::class_<TorchOptions>(m, "TorchOptions", "The options of PyTorch's allocators, in bytes; PyTorch's own defaults.")
      .def(nb::init<>())
      .def_rw("is_expandable", &TorchOptions::is_expandable)
      .def_prop_rw(
          "large_segment_size", [](const TorchOptions& self) { return self.large_segment_size.count; },
          [](TorchOptions& self, const nb::int_& value) {
            self.large_segment_size = to_bytes(value, "large_segment_size");
          })
      .def_prop_rw(
          "max_split_size", [](const TorchOptions& self) { return self.max_split_size.count; },
          [](TorchOptions& self, const nb::int_& value) { self.max_split_size = to_bytes(value, "max_split_size"); },
          "2**64 - 1 until it is set: no limit.")
      .def_prop_rw(
          "max_non_split_rounding", [](const TorchOptions& self) { return self.max_non_split_rounding.count; },
          [](TorchOptions& self, const nb::int_& value) {
            self.max_non_split_rounding = to_bytes(value, "max_non_split_rounding");
          })
      .def_rw("garbage_collection_threshold", &TorchOptions::garbage_collection_threshold)
      .def_rw("roundup_power2_divisions", &TorchOptions::roundup_power2_divisions,
              "For requests of 1 MiB, 2 MiB, ... 32 GiB and more.");

  nb::class_<ReplayReport>(m, "ReplayReport", "What a replay gave. All sizes in bytes.")
      .def_prop_ro(
          "rows", [](const ReplayReport& self) { return self.outcome.rows; }, "How many rows were replayed.")
      .def_prop_ro(
          "cpu_seconds", [](const ReplayReport& self) { return self.outcome.cpu_seconds; },
          "Of the replaying thread: the policy and its driver calls.")
      .def_prop_ro("failure", &failure_of, nb::sig("def failure(self) -> dict[str, object] | None"),
                   "The pool when a request first found no memory, and why: row, requested, stream, reason, held, "
                   "allocated, pending, free, largest_free, largest_usable.")
      .def_prop_ro("timeline", &timeline_of, nb::sig("def timeline(self) -> tuple[list[int], list[int], list[int]]"),
                   "Rows, bytes allocated, bytes held.")
      .def_prop_ro("calls", &calls_of, nb::sig("def calls(self) -> dict[str, int]"), "Driver calls by CUDA name.")
      .def_ro("modelled_us", &ReplayReport::modelled_us, "Driver time by the cost table.")
      .def_ro("host_waits", &ReplayReport::host_waits)
      .def_prop_ro("peak_requested", [](const ReplayReport& self) { return self.stats.requested.peak.count; })
      .def_prop_ro("peak_allocated", [](const ReplayReport& self) { return self.stats.allocated.peak.count; })
      .def_prop_ro("peak_held", [](const ReplayReport& self) { return self.stats.held.peak.count; })
      .def_prop_ro("end_held", [](const ReplayReport& self) { return self.stats.held.now.count; })
      .def_prop_ro("retries", [](const ReplayReport& self) { return self.stats.retries; })
      .def_prop_ro("ooms", [](const ReplayReport& self) { return self.stats.ooms; });

  m.def(
      "replay",
      [](Library& emulator, const TorchOptions* torch, const Column<std::uint8_t>& op, const Column<std::uint32_t>& id,
         const Column<std::uint64_t>& bytes, const Column<std::uint16_t>& stream, const nb::int_& capacity,
         const nb::object& limit, const std::string& events, const nb::int_& lag, bool goes_on,
         const nb::int_& rows_per_sample) {
        if (op.size() != id.size() || op.size() != bytes.size() || op.size() != stream.size())
          throw nb::value_error("the columns have different lengths");
        ReplaySettings settings;
        settings.is_direct = torch == nullptr;
        if (torch != nullptr) settings.torch = *torch;
        settings.capacity = to_bytes(capacity, "capacity").count;
        if (!limit.is_none()) settings.limit = to_bytes(nb::cast<nb::int_>(limit), "limit").count;
        settings.events = event_mode(events);
        settings.lag = to_count(lag, "lag");
        settings.options = {goes_on, to_count(rows_per_sample, "rows_per_sample"), !settings.is_direct};
        const TraceColumns trace{as_span(op), as_span(id), as_span(bytes), as_span(stream)};
        return without_gil([&] { return run(emulator, trace, settings); });
      },
      nb::arg("emulator"), nb::arg("torch").none(), nb::arg("op"), nb::arg("id"), nb::arg("bytes"), nb::arg("stream"),
      nb::arg("capacity"), nb::arg("limit").none(), nb::arg("events"), nb::arg("lag"), nb::arg("goes_on"),
      nb::arg("rows_per_sample"),
      "Replays a trace on an emulated device of `capacity` bytes that exists for this call. torch=None: no pool, one\n"
      "driver allocation per request. limit: what may be held, None for no limit. Runs without the GIL.");
}

}  // namespace memlake::bindings
