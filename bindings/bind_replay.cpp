#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>

#include "bindings.hpp"
#include "integers.hpp"
#include "policies.hpp"
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
  SpaceMaker make_space;
  std::uint64_t capacity = 0;
  std::uint64_t limit = UINT64_MAX;
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
  std::vector<Counter> counters;
};

ReplayReport run(Library& library, const TraceColumns& trace, const ReplaySettings& settings) {
  ReplayDevice device(library, {settings.capacity});
  TraceEvents events(settings.events, settings.lag, device.device());
  Pool pool(settings.make_space({device.device()}, events, {settings.limit}), events);
  ReplayReport report;
  report.outcome = replay(trace, pool, events, settings.options);
  report.stats = pool.stats();
  report.modelled_us = device.calls().modelled_us();
  report.host_waits = events.host_waits;
  if (const PolicyCounters* counters = pool.policy_space().facets().counters) report.counters = counters->counters();
  for (std::size_t i = 0; i < call_names.size(); ++i)
    if (const auto count = device.calls().count(static_cast<Call>(i))) report.calls.emplace_back(call_names[i], count);
  for (const auto& [name, count] : {std::pair{"cuEventRecord", events.records},
                                    {"cuEventQuery", events.queries},
                                    {"cuEventSynchronize", events.synchronisations},
                                    {"cuStreamWaitEvent", events.stream_waits}})
    if (count > 0) report.calls.emplace_back(name, count);
  return report;
}

nb::object failure_of(const ReplayReport& report) {
  const auto& failure = report.outcome.first_failure;
  if (!failure) return nb::none();
  const Shortage& shortage = failure->shortage;
  nb::dict picture;
  picture["row"] = failure->row;
  picture["requested"] = shortage.request.requested.count;
  picture["stream"] = shortage.request.stream;
  picture["reason"] = replay_word_of(reason_of(shortage));
  picture["held"] = shortage.held.count;
  picture["allocated"] = shortage.live.count;
  picture["pending"] = shortage.pending.count;
  picture["free"] = shortage.free.count;
  picture["largest_free"] = shortage.largest_free.count;
  picture["largest_usable"] = shortage.largest_usable.count;
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

nb::dict counters_of(const ReplayReport& report) { return counters_dict(report.counters); }

EventMode event_mode(const std::string& name) {
  if (name == "immediate") return EventMode::immediate;
  if (name == "recorded") return EventMode::recorded;
  if (name == "lag") return EventMode::lag;
  throw nb::value_error("events must be 'immediate', 'recorded' or 'lag'");
}

}  // namespace

void bind_replay(nb::module_& m) {
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
      .def_prop_ro("counters", &counters_of, nb::sig("def counters(self) -> dict[str, int | float]"),
                   "What only this policy counts.")
      .def_prop_ro("peak_requested", [](const ReplayReport& self) { return self.stats.requested.peak.count; })
      .def_prop_ro("peak_allocated", [](const ReplayReport& self) { return self.stats.allocated.peak.count; })
      .def_prop_ro("peak_held", [](const ReplayReport& self) { return self.stats.held.peak.count; })
      .def_prop_ro("end_held", [](const ReplayReport& self) { return self.stats.held.now.count; })
      .def_prop_ro("retries", [](const ReplayReport& self) { return self.stats.retries; })
      .def_prop_ro("ooms", [](const ReplayReport& self) { return self.stats.ooms; });

  m.def(
      "replay",
      [](Library& emulator, const std::string& policy, const Column<std::uint8_t>& op, const Column<std::uint32_t>& id,
         const Column<std::uint64_t>& bytes, const Column<std::uint16_t>& stream, const nb::int_& capacity,
         const nb::object& limit, const std::string& events, const nb::int_& lag, bool goes_on,
         const nb::int_& rows_per_sample) {
        if (op.size() != id.size() || op.size() != bytes.size() || op.size() != stream.size())
          throw nb::value_error("the columns have different lengths");
        ReplaySettings settings;
        const ChosenPolicy chosen = choose_policy(policy);
        settings.make_space = chosen.space_maker();
        settings.capacity = to_bytes(capacity, "capacity").count;
        if (!limit.is_none()) settings.limit = to_bytes(nb::cast<nb::int_>(limit), "limit").count;
        settings.events = event_mode(events);
        settings.lag = to_count(lag, "lag");
        settings.options = {goes_on, to_count(rows_per_sample, "rows_per_sample"),
                            chosen.entry->capabilities.preallocation};
        const TraceColumns trace{as_span(op), as_span(id), as_span(bytes), as_span(stream)};
        return without_gil([&] { return run(emulator, trace, settings); });
      },
      nb::arg("emulator"), nb::arg("policy"), nb::arg("op"), nb::arg("id"), nb::arg("bytes"), nb::arg("stream"),
      nb::arg("capacity"), nb::arg("limit").none(), nb::arg("events"), nb::arg("lag"), nb::arg("goes_on"),
      nb::arg("rows_per_sample"),
      "Replays a trace on an emulated device of `capacity` bytes that exists for this call. policy: its name with its\n"
      "options, as parse_policy() takes them. limit: what may be held, None for no limit. Runs without the GIL.");
}

}  // namespace memlake::bindings
