#include "snapshots/events.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "snapshots/address_states.hpp"
#include "snapshots/fields.hpp"
#include "snapshots/limits.hpp"

namespace memlake::snapshots {
namespace {

using pickles::Kind;
using pickles::Value;

// The numbers of memlake.trace.Op.
constexpr std::uint8_t kAllocate = 0;
constexpr std::uint8_t kFree = 1;
constexpr std::uint8_t kRecordStream = 2;
constexpr std::uint8_t kEventDone = 3;

/// What a row takes in these columns.
constexpr std::uint64_t kRowBytes = 64;
/// Ids of allocations that are live when the record begins start here until all of them are known.
constexpr std::uint64_t kCarried = std::uint64_t{1} << 63;
constexpr std::uint64_t kMostAllocations = std::numeric_limits<std::uint32_t>::max();

enum Field : std::size_t { action, addr, size, stream, time_us, device_free, frames, first_label };
using EventFields = Fields<first_label + kLabels.size()>;
using EventValues = FieldValues<first_label + kLabels.size()>;

/// An allocation that is live when the record begins.
struct Carried {
  std::uint64_t address = 0;
  std::uint64_t requested = 0;
  std::uint64_t stream = 0;
  std::uint32_t stack = 0;
  std::int64_t block = -1;
};

class EventReader {
 public:
  EventReader(pickles::Document& document, std::span<const Value> events, Stacks& stacks)
      : document_(document),
        events_(events),
        stacks_(stacks),
        fields_(document, {"action", "addr", "size", "stream", "time_us", "device_free", "frames", kLabels[0],
                           kLabels[1], kLabels[2], kLabels[3]}),
        labels_{Label(document), Label(document), Label(document), Label(document)},
        addresses_(document.allowance),
        alloc_(document.texts.find("alloc")),
        free_requested_(document.texts.find("free_requested")),
        free_completed_(document.texts.find("free_completed")) {
    for (std::size_t kind = 0; kind < kEventKinds.size(); ++kind)
      if (const std::uint32_t text = document.texts.find(kEventKinds[kind]); text != pickles::Texts::kNone)
        other_kinds_.emplace(text, static_cast<std::uint8_t>(kind));
  }

  std::optional<WrongEvent> read_all() {
    look_ahead();
    for (number_ = 0; number_ < events_.size(); ++number_) {
      if (events_[number_].kind() != Kind::dict) return WrongEvent{number_};
      values_ = fields_.of(events_[number_]);
      if (!read()) return WrongEvent{number_};
    }
    return std::nullopt;
  }

  /// Blocks that no event names were live during the whole record.
  void carry_blocks(const SegmentColumns& segments, std::uint32_t device) {
    for_each_block(segments, device, [&](std::size_t segment, std::size_t block) {
      const BlockColumns& blocks = segments.blocks;
      if (blocks.state[block] == static_cast<std::uint8_t>(BlockState::free)) return;
      if (addresses_[blocks.address[block]].state != AddressState::unknown) return;
      result_.has_lost_events = result_.has_lost_events || blocks.stack[block] != 0;
      carry({blocks.address[block], blocks.requested[block], segments.stream[segment], blocks.stack[block],
             static_cast<std::int64_t>(blocks.nbytes[block])});
    });
  }

  DeviceEvents take(const SegmentColumns& segments, std::uint32_t device) {
    const std::vector<std::uint64_t> rank = rank_carried();
    const std::uint64_t shift = carried_.size();
    const auto final_id = [&](std::uint64_t id) { return id >= kCarried ? rank[id - kCarried] : id + shift; };
    for_each_block(segments, device, [&](std::size_t, std::size_t block) {
      const AddressStates::Entry& entry = addresses_[segments.blocks.address[block]];
      const bool is_there = entry.state == AddressState::live || entry.state == AddressState::pending;
      result_.block_id.push_back(is_there ? static_cast<std::int64_t>(final_id(entry.id)) : -1);
    });
    if (num_allocations_ + shift > kMostAllocations) throw pickles::Refused{{.kind = pickles::FaultKind::memory}};
    document_.allowance.spend(shift * kRowBytes);
    RowColumns& rows = result_.rows;
    prepend(rows.op, std::vector<std::uint8_t>(shift, kAllocate));
    rows.id.resize(ids_.size() + shift);
    std::iota(rows.id.begin(), rows.id.begin() + static_cast<std::ptrdiff_t>(shift), 0U);
    std::ranges::transform(ids_, rows.id.begin() + static_cast<std::ptrdiff_t>(shift),
                           [&](std::uint64_t id) { return static_cast<std::uint32_t>(final_id(id)); });
    prepend_carried(rows.nbytes, rank, &Carried::requested);
    prepend_carried(rows.stream, rank, &Carried::stream);
    prepend_carried(rows.address, rank, &Carried::address);
    prepend_carried(rows.stack, rank, &Carried::stack);
    prepend(rows.time, std::vector<std::int64_t>(shift, first_time_));
    prepend_carried(result_.carried_block, rank, &Carried::block);
    for (std::uint64_t& row : result_.others.row) row += shift;
    for (std::size_t label = 0; label < kLabels.size(); ++label) {
      if (!labels_[label].is_used()) continue;
      result_.labels[label] = labels_[label].take();
      prepend(result_.labels[label].number, std::vector<std::uint32_t>(shift, 0));
    }
    result_.num_carried = shift;
    return std::move(result_);
  }

 private:
  template <class Work>
  static void for_each_block(const SegmentColumns& segments, std::uint32_t device, Work work) {
    for (std::size_t segment = 0; segment < segments.device.size(); ++segment)
      if (segments.device[segment] == device)
        for (std::size_t block = segments.first_block[segment]; block < segments.first_block[segment + 1]; ++block)
          work(segment, block);
  }

  template <class T>
  static void prepend(std::vector<T>& column, const std::vector<T>& first) {
    if (!first.empty()) column.insert(column.begin(), first.begin(), first.end());
  }
  template <class T, class Member>
  void prepend_carried(std::vector<T>& column, const std::vector<std::uint64_t>& rank, Member member) {
    std::vector<T> first(carried_.size());
    for (std::size_t number = 0; number < carried_.size(); ++number) first[rank[number]] = carried_[number].*member;
    prepend(column, first);
  }

  /// The place of each carried allocation in the order of addresses.
  [[nodiscard]] std::vector<std::uint64_t> rank_carried() const {
    std::vector<std::uint64_t> order(carried_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [this](std::uint64_t number) { return carried_[number].address; });
    std::vector<std::uint64_t> rank(carried_.size());
    for (std::size_t place = 0; place < order.size(); ++place) rank[order[place]] = place;
    return rank;
  }

  [[nodiscard]] static bool is_text(std::optional<Value> field, std::uint32_t text) {
    return field && *field == Value(Kind::text, text) && text != pickles::Texts::kNone;
  }

  /// Finds out what the whole record has before the first event is read.
  void look_ahead() {
    result_.has_times = !events_.empty();
    bool was_requested = false;
    std::uint64_t num_requests = 0;
    std::uint64_t num_lone_completions = 0;
    bool is_first = true;
    for (const Value event : events_) {
      if (event.kind() != Kind::dict) {
        result_.has_times = false;
        continue;
      }
      const EventValues values = fields_.of(event);
      const bool is_completed = is_text(values[action], free_completed_);
      const bool is_requested = is_text(values[action], free_requested_);
      if (is_first) result_.begins_within_a_free = is_completed;
      is_first = false;
      num_requests += is_requested;
      num_lone_completions += is_completed && !was_requested;
      was_requested = is_requested;
      result_.num_allocation_events += is_text(values[action], alloc_);
      has_completions_ = has_completions_ || is_completed;
      result_.has_times = result_.has_times && values[time_us] && document_.is_whole(*values[time_us]);
    }
    if (num_requests == 0 || num_lone_completions != 1) result_.begins_within_a_free = false;
  }

  /// False if a field of the event is wrong.
  bool read() {
    if (!values_[action] || values_[action]->kind() != Kind::text) return false;
    if (result_.has_times) {
      const auto time = number_in(document_, values_[time_us], kLargestSize);
      if (!time) return false;
      now_ = static_cast<std::int64_t>(*time);
      if (number_ == 0) first_time_ = now_;
    }
    if (is_text(values_[action], alloc_)) return read_allocation();
    if (is_text(values_[action], free_requested_)) return read_free(false);
    if (is_text(values_[action], free_completed_)) return read_free(true);
    const auto text = static_cast<std::uint32_t>(values_[action]->place());
    const auto known = other_kinds_.find(text);
    if (known != other_kinds_.end()) return read_other(known->second);
    const auto [found, is_new] = ignored_.try_emplace(text, result_.ignored.size());
    if (is_new) {
      document_.allowance.spend(kRowBytes + document_.texts[text].size());
      result_.ignored.emplace_back(document_.texts[text], 0);
    }
    ++result_.ignored[found->second].second;
    return true;
  }

  bool read_allocation() {
    const auto address = number_in(document_, values_[addr], ~std::uint64_t{0});
    const auto nbytes = number_in(document_, values_[size], kLargestSize);
    const auto handle = stream_in(document_, values_[stream]);
    if (!address || !nbytes || !handle) return false;
    AddressStates::Entry& entry = addresses_[*address];
    if (entry.state == AddressState::live) {
      // Two live allocations cannot have one address, so the event of the free is missing from the record.
      add({.op = kFree, .id = entry.id});
      ++result_.implied_frees;
    } else if (entry.state == AddressState::pending) {
      add({.op = kEventDone, .id = entry.id});
    }
    entry.state = AddressState::live;
    entry.id = num_allocations_++;
    add({kAllocate, entry.id, *nbytes, *handle, *address}, true);
    return true;
  }

  bool read_free(bool is_completed) {
    const auto address = number_in(document_, values_[addr], ~std::uint64_t{0});
    if (!address) return false;
    AddressStates::Entry* entry = &addresses_[*address];
    if (is_completed && entry->state == AddressState::pending) {
      add({.op = kEventDone, .id = entry->id}, true);
      entry->state = AddressState::gone;
      return true;
    }
    if (entry->state == AddressState::gone || entry->state == AddressState::pending) {
      if (!completes(number_, *address)) ++result_.unmatched_frees;
      return true;
    }
    if (entry->state == AddressState::unknown) {
      const auto nbytes = number_in(document_, values_[size], kLargestSize);
      const auto handle = stream_in(document_, values_[stream]);
      if (!nbytes || !handle) return false;
      carry({.address = *address, .requested = *nbytes, .stream = *handle});
      entry = &addresses_[*address];
    }
    entry->state = AddressState::gone;
    if (!is_completed && has_completions_ && !completes(number_ + 1, *address)) {
      // The block waits for a stream that the snapshot does not name.
      result_.has_unknown_stream = true;
      add({.op = kRecordStream, .id = entry->id, .stream = kUnknownStream}, true);
      entry->state = AddressState::pending;
    }
    add({.op = kFree, .id = entry->id}, true);
    return true;
  }

  /// Whether this event completes the free at this address that the previous event requested.
  bool completes(std::uint64_t number, std::uint64_t address) {
    if (number == 0 || number >= events_.size()) return false;
    const Value before = events_[number - 1];
    const Value event = events_[number];
    if (before.kind() != Kind::dict || event.kind() != Kind::dict) return false;
    const EventValues first = fields_.of(before);
    const EventValues second = fields_.of(event);
    return is_text(second[action], free_completed_) && is_text(first[action], free_requested_) &&
           number_in(document_, first[addr], ~std::uint64_t{0}) == address &&
           number_in(document_, second[addr], ~std::uint64_t{0}) == address;
  }

  bool read_other(std::uint8_t kind) {
    const bool is_oom = kEventKinds[kind] == "oom";
    const auto free = is_oom ? number_in(document_, values_[device_free], ~std::uint64_t{0}, 0) : 0;
    const auto address = number_in(document_, values_[addr], ~std::uint64_t{0}, 0);
    const auto nbytes = number_in(document_, values_[size], kLargestSize, 0);
    const auto handle = stream_in(document_, values_[stream]);
    if (!free || !address || !nbytes || !handle) return false;
    // Later each of them is an object of Python.
    document_.allowance.spend(4 * kRowBytes);
    OtherEvents& others = result_.others;
    others.row.push_back(ids_.size());
    others.kind.push_back(kind);
    others.address.push_back(*address);
    others.nbytes.push_back(*nbytes);
    others.stream.push_back(*handle);
    others.time.push_back(now_);
    others.device_free.push_back(*free);
    others.stack.push_back(stack());
    if (is_oom) {
      const std::uint64_t id = num_allocations_++;
      add({kAllocate, id, *nbytes, *handle}, true);
      add({.op = kFree, .id = id});
    }
    return true;
  }

  void carry(const Carried& carried) {
    document_.allowance.spend(sizeof(Carried));
    AddressStates::Entry& entry = addresses_[carried.address];
    entry.state = AddressState::live;
    entry.id = kCarried + carried_.size();
    carried_.push_back(carried);
  }

  struct Row {
    std::uint8_t op = 0;
    std::uint64_t id = 0;
    std::uint64_t nbytes = 0;
    std::uint64_t stream = 0;
    std::uint64_t address = 0;
  };

  /// `is_of_event`: the row has the stack and the labels of the current event.
  void add(const Row& row, bool is_of_event = false) {
    document_.allowance.spend(kRowBytes);
    RowColumns& rows = result_.rows;
    rows.op.push_back(row.op);
    ids_.push_back(row.id);
    rows.nbytes.push_back(row.nbytes);
    rows.stream.push_back(row.stream);
    rows.time.push_back(now_);
    rows.address.push_back(row.address);
    rows.stack.push_back(is_of_event ? stack() : 0);
    for (std::size_t label = 0; label < kLabels.size(); ++label)
      labels_[label].add(is_of_event ? labels_[label].number_of(values_[first_label + label]) : 0);
  }

  std::uint32_t stack() { return values_[frames] ? stacks_.number_of(*values_[frames]) : 0; }

  pickles::Document& document_;
  std::span<const Value> events_;
  Stacks& stacks_;
  EventFields fields_;
  std::array<Label, kLabels.size()> labels_;
  AddressStates addresses_;
  std::uint32_t alloc_;
  std::uint32_t free_requested_;
  std::uint32_t free_completed_;
  std::unordered_map<std::uint32_t, std::uint8_t> other_kinds_;
  std::unordered_map<std::uint32_t, std::size_t> ignored_;
  std::vector<Carried> carried_;
  std::vector<std::uint64_t> ids_;
  std::uint64_t num_allocations_ = 0;
  bool has_completions_ = false;
  std::int64_t first_time_ = 0;
  // The current event.
  std::uint64_t number_ = 0;
  EventValues values_;
  std::int64_t now_ = 0;
  DeviceEvents result_;
};

}  // namespace

std::variant<DeviceEvents, WrongEvent> read_events(pickles::Document& document, std::span<const Value> events,
                                                   const SegmentColumns& segments, std::uint32_t device,
                                                   Stacks& stacks) {
  EventReader reader(document, events, stacks);
  if (const auto wrong = reader.read_all()) return *wrong;
  reader.carry_blocks(segments, device);
  return reader.take(segments, device);
}

}  // namespace memlake::snapshots
