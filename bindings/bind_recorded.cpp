#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "columns.hpp"
#include "integers.hpp"
#include "policies/registry/registry.hpp"
#include "policies/torch/torch_policy.hpp"
#include "policies/torch/torch_rules.hpp"
#include "replay/recorded_replay.hpp"
#include "replay/replay_device.hpp"

namespace memlake::bindings {
namespace {

/// nbytes, requested, state, id (-1: none).
using BlockTuple = std::tuple<std::uint64_t, std::uint64_t, std::string, std::int64_t>;
/// address, nbytes, stream, is_small, is_expandable, blocks.
using SegmentTuple = std::tuple<std::uint64_t, std::uint64_t, StreamId, bool, bool, std::vector<BlockTuple>>;
/// row, kind, address, nbytes, stream.
using EventTuple = std::tuple<std::uint64_t, std::string, std::uint64_t, std::uint64_t, StreamId>;

constexpr std::pair<const char*, BlockState> kStates[] = {
    {"free", BlockState::free}, {"live", BlockState::live}, {"pending", BlockState::pending}};
constexpr std::pair<const char*, RecordedEvent::Kind> kKinds[] = {{"segment_alloc", RecordedEvent::Kind::alloc},
                                                                  {"segment_free", RecordedEvent::Kind::free},
                                                                  {"segment_map", RecordedEvent::Kind::map},
                                                                  {"segment_unmap", RecordedEvent::Kind::unmap}};
constexpr std::pair<const char*, TieBreak> kTieBreaks[] = {{"age", TieBreak::age}, {"address", TieBreak::address}};

template <class T, std::size_t n>
T named(const std::pair<const char*, T> (&names)[n], const std::string& name) {
  for (const auto& [known, value] : names)
    if (name == known) return value;
  throw nb::value_error(("there is no " + name).c_str());
}

template <class T, std::size_t n>
std::string name_of(const std::pair<const char*, T> (&names)[n], T value) {
  for (const auto& [known, one] : names)
    if (one == value) return known;
  return "";
}

RecordedSegment from_tuple(const SegmentTuple& given) {
  const auto& [address, nbytes, stream, is_small, is_expandable, blocks] = given;
  RecordedSegment segment{{{address}, {nbytes}}, stream, is_small, is_expandable};
  for (const auto& [size, requested, state, id] : blocks)
    segment.blocks.push_back({{size}, {requested}, named(kStates, state), static_cast<std::uint32_t>(id)});
  return segment;
}

SegmentTuple to_tuple(const RecordedSegment& segment) {
  std::vector<BlockTuple> blocks;
  for (const RecordedBlock& block : segment.blocks)
    blocks.emplace_back(block.size.count, block.requested.count, name_of(kStates, block.state),
                        block.id == RecordedBlock::kNoId ? -1 : std::int64_t{block.id});
  return {segment.range.begin.value, segment.range.size.count, segment.stream,
          segment.is_small,          segment.is_expandable,    std::move(blocks)};
}

RecordedEvent from_tuple(const EventTuple& given) {
  const auto& [row, kind, address, nbytes, stream] = given;
  return {row, named(kKinds, kind), {{address}, {nbytes}}, stream};
}

EventTuple to_tuple(const RecordedEvent& event) {
  return {event.row, name_of(kKinds, event.kind), event.range.begin.value, event.range.size.count, event.stream};
}

template <class T>
auto to_tuples(const std::vector<T>& values) {
  std::vector<decltype(to_tuple(values.front()))> tuples;
  for (const T& value : values) tuples.push_back(to_tuple(value));
  return tuples;
}

}  // namespace

void bind_recorded(nb::module_& m) {
  nb::class_<RecordedOutcome>(m, "RecordedOutcome", "What a policy did with a record, in the record's addresses.")
      .def_ro("addresses", &RecordedOutcome::addresses, "For each row that allocates where it is; 0 for the others.")
      .def_prop_ro(
          "events", [](const RecordedOutcome& self) { return to_tuples(self.events); },
          "Segments that came and went: row, kind, address, nbytes, stream.")
      .def_prop_ro(
          "last", [](const RecordedOutcome& self) { return to_tuples(self.last); },
          "The segments at the end, by address: address, nbytes, stream, is_small, is_expandable, and blocks of "
          "nbytes,\n"
          "requested, state, id (-1: none).")
      .def_prop_ro(
          "failed_row",
          [](const RecordedOutcome& self) {
            return self.failed_row ? nb::object(nb::int_(*self.failed_row)) : nb::none();
          },
          nb::sig("def failed_row(self) -> int | None"), "At which a request found no memory.");

  m.def(
      "replay_record",
      [](Library& emulator, const std::string& policy, const Column<std::uint8_t>& op, const Column<std::uint32_t>& id,
         const Column<std::uint64_t>& bytes, const Column<std::uint16_t>& stream, const nb::int_& first_row,
         const std::vector<SegmentTuple>& initial, const std::vector<EventTuple>& events, const std::string& tie_break,
         const nb::int_& capacity) {
        if (op.size() != id.size() || op.size() != bytes.size() || op.size() != stream.size())
          throw nb::value_error("the columns have different lengths");
        const ChosenPolicy chosen = choose_policy(policy);
        const TorchOptions* const torch = torch_options(*chosen.options);
        if (torch == nullptr) throw nb::value_error("a record is compared with PyTorch's policies only");
        Record record;
        record.first_row = to_count(first_row, "first_row");
        for (const SegmentTuple& segment : initial) record.initial.push_back(from_tuple(segment));
        for (const EventTuple& event : events) record.events.push_back(from_tuple(event));
        const TieBreak ties = named(kTieBreaks, tie_break);
        const Bytes memory = to_bytes(capacity, "capacity");
        using StreamColumn = std::vector<decltype(TraceColumns::stream)::value_type>;
        const StreamColumn streams(stream.data(), stream.data() + stream.size());
        const TraceColumns trace{as_span(op), as_span(id), as_span(bytes), streams};
        return without_gil([&] {
          ReplayDevice device(emulator, memory);
          return replay_record(trace, record, ties, device.device(), std::make_unique<TorchRules>(*torch));
        });
      },
      nb::arg("emulator"), nb::arg("policy"), nb::arg("op"), nb::arg("id"), nb::arg("bytes"), nb::arg("stream"),
      nb::arg("first_row"), nb::arg("initial"), nb::arg("events"), nb::arg("tie_break"), nb::arg("capacity"),
      "Replays a trace from `first_row` on, beginning with the segments of a record, on an emulated device that "
      "exists\n"
      "for this call. policy: one of PyTorch's, as parse_policy() takes it. tie_break: 'age' or 'address'. Runs "
      "without the GIL.");
}

}  // namespace memlake::bindings
