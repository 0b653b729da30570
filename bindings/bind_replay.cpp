#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <tuple>

#include "bindings.hpp"
#include "columns.hpp"
#include "integers.hpp"
#include "policies.hpp"
#include "replay/replay_run.hpp"

namespace memlake::bindings {
namespace {

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
  picture["largest_free"] = shortage.largest_contiguous.count;
  picture["largest_usable"] = shortage.largest_usable.count;
  return picture;
}

/// The columns of the timeline: rows, allocated bytes, held bytes, modelled driver time.
nb::tuple timeline_of(const ReplayReport& report) {
  nb::list rows;
  nb::list allocated;
  nb::list held;
  nb::list driver_us;
  for (const Sample& sample : report.outcome.timeline) {
    rows.append(sample.row);
    allocated.append(sample.allocated.count);
    held.append(sample.held.count);
    driver_us.append(sample.driver_us);
  }
  return nb::make_tuple(rows, allocated, held, driver_us);
}

template <class T>
nb::bytes bytes_of(const std::vector<T>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

/// The rows of the moments, where the blocks of each begin, and all blocks.
nb::tuple moments_of(const ReplayReport& report) {
  const Moments& moments = report.outcome.moments;
  return nb::make_tuple(bytes_of(moments.rows), bytes_of(moments.starts), bytes_of(moments.blocks));
}

nb::dict calls_of(const ReplayReport& report) {
  nb::dict calls;
  for (const auto& [name, count] : report.calls) calls[name] = count;
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
      .def_prop_ro(
          "timeline", &timeline_of,
          nb::sig("def timeline(self) -> tuple[list[int], list[int], list[int], list[float]]"),
          "Rows, the most bytes allocated and held from each row to the next one, and the driver time in microseconds "
          "before the row; the last is the end.")
      .def_prop_ro(
          "moments", &moments_of, nb::sig("def moments(self) -> tuple[bytes, bytes, bytes]"),
          "64-bit numbers: the row of each moment; where its blocks begin; ten for each block: segment, its size, "
          "its page, address, size, requested, stream, state, is small, id.")
      .def_prop_ro("calls", &calls_of, nb::sig("def calls(self) -> dict[str, int]"), "Driver calls by CUDA name.")
      .def_ro("modelled_us", &ReplayReport::modelled_us, "Driver time by the cost table.")
      .def_prop_ro(
          "longest_us", [](const ReplayReport& self) { return self.outcome.longest_us; },
          "Driver time of the request that took the most, by the cost table.")
      .def_ro("host_waits", &ReplayReport::host_waits)
      .def_prop_ro("counters", &counters_of, nb::sig("def counters(self) -> dict[str, int | float | str]"),
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
         const nb::int_& rows_per_sample, const nb::int_& first_sample,
         const std::optional<Column<std::uint32_t>>& pool, const std::optional<Column<std::uint64_t>>& moments) {
        if (op.size() != id.size() || op.size() != bytes.size() || op.size() != stream.size() ||
            (pool && op.size() != pool->size()))
          throw nb::value_error("the columns have different lengths");
        const ReplaySettings settings{
            .policy = choose_policy(policy),
            .capacity = to_bytes(capacity, "capacity"),
            .limit = limit.is_none() ? Budget::kUnlimited : to_bytes(nb::cast<nb::int_>(limit), "limit"),
            .events = event_mode(events),
            .lag = to_count(lag, "lag"),
            .goes_on = goes_on,
            .rows_per_sample = to_count(rows_per_sample, "rows_per_sample"),
            .first_sample = to_count(first_sample, "first_sample"),
            .moments = moments ? as_span(*moments) : std::span<const std::uint64_t>{}};
        const TraceColumns trace{as_span(op), as_span(id), as_span(bytes), as_span(stream),
                                 pool ? as_span(*pool) : std::span<const std::uint32_t>{}};
        return without_gil([&] { return run_replay(emulator, trace, settings); });
      },
      nb::arg("emulator"), nb::arg("policy"), nb::arg("op"), nb::arg("id"), nb::arg("bytes"), nb::arg("stream"),
      nb::arg("capacity"), nb::arg("limit").none(), nb::arg("events"), nb::arg("lag"), nb::arg("goes_on"),
      nb::arg("rows_per_sample"), nb::arg("first_sample") = 0, nb::arg("pool") = nb::none(),
      nb::arg("moments") = nb::none(),
      "Replays a trace on an emulated device of `capacity` bytes that exists for this call. policy: its name with its\n"
      "options, as parse_policy() takes them. limit: what may be held, None for no limit. pool: the graph pool of "
      "each\n"
      "row, 0 for none. moments: rows after which the blocks are noted, ascending. Runs without the GIL.");
}

}  // namespace memlake::bindings
