#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bindings.hpp"
#include "integers.hpp"
#include "pickle_objects.hpp"
#include "snapshots/events.hpp"
#include "snapshots/segments.hpp"
#include "snapshots/stacks.hpp"

namespace memlake::bindings {
namespace {

/// A NumPy array that takes over the numbers.
template <class T>
nb::object to_array(std::vector<T>&& numbers) {
  auto* kept = new std::vector<T>(std::move(numbers));
  const nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

nb::object to_texts(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(to_str(text));
  return list;
}

/// Reads the parts of one snapshot. Their stacks are in one table.
struct SnapshotReader {
  explicit SnapshotReader(const PickleNode& node)
      : file(node.file), stacks(std::make_unique<snapshots::Stacks>(*file->document)) {}

  std::shared_ptr<PickleFile> file;
  std::unique_ptr<snapshots::Stacks> stacks;
};

/// What `work` returns, or the refusal for lack of memory.
template <class Work>
nb::object or_fault(Work work) {
  try {
    return work();
  } catch (const pickles::Refused& refused) {
    return nb::cast(refused.fault);
  }
}

/// The items of a list of the reader's own pickle; none if there is no list.
std::span<const pickles::Value> items_of(const SnapshotReader& self, const std::optional<PickleNode>& list) {
  if (!list) return {};
  if (list->file != self.file || list->value.kind() != pickles::Kind::list)
    throw nb::type_error("the node must be a list of the reader's pickle");
  return self.file->document->items(list->value);
}

nb::object read_segments_of(SnapshotReader& self, const std::optional<PickleNode>& list) {
  const std::span<const pickles::Value> items = items_of(self, list);
  return or_fault([&]() -> nb::object {
    auto result = without_gil([&] { return snapshots::read_segments(*self.file->document, items, *self.stacks); });
    if (const auto* wrong = std::get_if<snapshots::WrongSegment>(&result))
      return nb::make_tuple(wrong->segment, wrong->block ? nb::object(nb::int_(*wrong->block)) : nb::none());
    return nb::cast(std::get<snapshots::SegmentColumns>(std::move(result)));
  });
}

nb::object read_events_of(SnapshotReader& self, const std::optional<PickleNode>& list,
                          const snapshots::SegmentColumns& segments, const nb::int_& device) {
  const std::span<const pickles::Value> items = items_of(self, list);
  const int number = to_int(device, "device");
  return or_fault([&]() -> nb::object {
    auto result = without_gil([&] {
      return snapshots::read_events(*self.file->document, items, segments, static_cast<std::uint32_t>(number),
                                    *self.stacks);
    });
    if (const auto* wrong = std::get_if<snapshots::WrongEvent>(&result)) return nb::int_(wrong->event);
    return nb::cast(std::get<snapshots::DeviceEvents>(std::move(result)));
  });
}

nb::dict segment_columns(const snapshots::SegmentColumns& self) {
  nb::dict columns;
  columns["device"] = to_array(std::vector(self.device));
  columns["address"] = to_array(std::vector(self.address));
  columns["nbytes"] = to_array(std::vector(self.nbytes));
  columns["stream"] = to_array(std::vector(self.stream));
  columns["is_small"] = to_array(std::vector(self.is_small));
  columns["is_expandable"] = to_array(std::vector(self.is_expandable));
  columns["pool_first"] = to_array(std::vector(self.pool_first));
  columns["pool_second"] = to_array(std::vector(self.pool_second));
  columns["first_block"] = to_array(std::vector(self.first_block));
  columns["block_address"] = to_array(std::vector(self.blocks.address));
  columns["block_nbytes"] = to_array(std::vector(self.blocks.nbytes));
  columns["block_requested"] = to_array(std::vector(self.blocks.requested));
  columns["block_state"] = to_array(std::vector(self.blocks.state));
  columns["block_stack"] = to_array(std::vector(self.blocks.stack));
  return columns;
}

nb::dict take_rows(snapshots::DeviceEvents& self) {
  nb::dict columns;
  columns["op"] = to_array(std::move(self.rows.op));
  columns["id"] = to_array(std::move(self.rows.id));
  columns["nbytes"] = to_array(std::move(self.rows.nbytes));
  columns["stream"] = to_array(std::move(self.rows.stream));
  columns["time"] = to_array(std::move(self.rows.time));
  columns["address"] = to_array(std::move(self.rows.address));
  columns["stack"] = to_array(std::move(self.rows.stack));
  columns["carried_block"] = to_array(std::move(self.carried_block));
  columns["block_id"] = to_array(std::move(self.block_id));
  return columns;
}

nb::dict take_others(snapshots::DeviceEvents& self) {
  nb::dict columns;
  columns["row"] = to_array(std::move(self.others.row));
  columns["kind"] = to_array(std::move(self.others.kind));
  columns["address"] = to_array(std::move(self.others.address));
  columns["nbytes"] = to_array(std::move(self.others.nbytes));
  columns["stream"] = to_array(std::move(self.others.stream));
  columns["time"] = to_array(std::move(self.others.time));
  columns["device_free"] = to_array(std::move(self.others.device_free));
  columns["stack"] = to_array(std::move(self.others.stack));
  return columns;
}

nb::dict take_labels(snapshots::DeviceEvents& self) {
  nb::dict labels;
  for (std::size_t label = 0; label < snapshots::kLabels.size(); ++label) {
    snapshots::LabelColumn& column = self.labels[label];
    if (column.texts.size() < 2) continue;
    nb::object texts = to_texts(column.texts);
    labels[to_str(snapshots::kLabels[label])] = nb::make_tuple(to_array(std::move(column.number)), texts);
  }
  return labels;
}

nb::list ignored_actions(const snapshots::DeviceEvents& self) {
  nb::list ignored;
  for (const auto& [action, count] : self.ignored) ignored.append(nb::make_tuple(to_str(action), count));
  return ignored;
}

nb::dict take_stacks(SnapshotReader& self) {
  snapshots::StackTable table = self.stacks->take();
  nb::dict columns;
  columns["starts"] = to_array(std::move(table.starts));
  columns["frames"] = to_array(std::move(table.frames));
  columns["filename"] = to_array(std::move(table.filename));
  columns["line"] = to_array(std::move(table.line));
  columns["name"] = to_array(std::move(table.name));
  columns["texts"] = to_texts(table.texts);
  return columns;
}

nb::list event_kinds() {
  nb::list kinds;
  for (const std::string_view kind : snapshots::kEventKinds) kinds.append(to_str(kind));
  return kinds;
}

}  // namespace

void bind_snapshots(nb::module_& m) {
  nb::class_<snapshots::SegmentColumns>(m, "SegmentColumns", "The segments of a snapshot and their blocks.")
      .def("columns", &segment_columns, nb::sig("def columns(self) -> dict[str, NDArray[Any]]"),
           "One array for each column. Those of blocks begin with block_; first_block has one more than segments.\n"
           "States of blocks: 0 live, 1 pending, 2 free.");

  nb::class_<snapshots::DeviceEvents>(m, "DeviceEvents", "The events of one device as rows of a trace.")
      .def("take_rows", &take_rows, nb::sig("def take_rows(self) -> dict[str, NDArray[Any]]"),
           "One array for each column. Call it once: the arrays move to the caller.")
      .def("take_others", &take_others, nb::sig("def take_others(self) -> dict[str, NDArray[Any]]"),
           "The events that are no rows. Call it once.")
      .def("take_labels", &take_labels, nb::sig("def take_labels(self) -> dict[str, tuple[NDArray[Any], list[str]]]"),
           "For each label that a row has: a number for each row, and the text of each number. Call it once.")
      .def_prop_ro("ignored", &ignored_actions, nb::sig("def ignored(self) -> list[tuple[str, int]]"),
                   "Unknown actions and how many there were.")
      .def_ro("has_times", &snapshots::DeviceEvents::has_times)
      .def_ro("has_unknown_stream", &snapshots::DeviceEvents::has_unknown_stream)
      .def_ro("num_carried", &snapshots::DeviceEvents::num_carried)
      .def_ro("num_allocation_events", &snapshots::DeviceEvents::num_allocation_events)
      .def_ro("begins_within_a_free", &snapshots::DeviceEvents::begins_within_a_free)
      .def_ro("has_lost_events", &snapshots::DeviceEvents::has_lost_events)
      .def_ro("implied_frees", &snapshots::DeviceEvents::implied_frees)
      .def_ro("unmatched_frees", &snapshots::DeviceEvents::unmatched_frees);

  nb::class_<SnapshotReader>(m, "SnapshotReader", "Reads the parts of one snapshot; their stacks are in one table.")
      .def(nb::init<const PickleNode&>(), nb::arg("node"))
      .def("read_segments", &read_segments_of, nb::arg("segments").none(),
           nb::sig("def read_segments(self, segments: PickleNode | None) -> SegmentColumns | tuple[int, int | None] | "
                   "PickleFault"),
           "The segments of a list; or the first wrong one, with the place of its first wrong block or None.")
      .def("read_events", &read_events_of, nb::arg("events").none(), nb::arg("segments"), nb::arg("device"),
           nb::sig("def read_events(self, events: PickleNode | None, segments: SegmentColumns, device: int) -> "
                   "DeviceEvents | "
                   "int | PickleFault"),
           "The events of a list; or the first wrong one.")
      .def("take_stacks", &take_stacks, nb::sig("def take_stacks(self) -> dict[str, Any]"),
           "The table of stacks: starts, frames; filename, line and name of each frame; texts. Call it once.");

  m.def("event_kinds", &event_kinds, nb::sig("def event_kinds() -> list[str]"),
        "The kinds of DeviceEvents.take_others().");
}

}  // namespace memlake::bindings
