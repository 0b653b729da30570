#include "streams/stream_table.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace memlake {

namespace {

// A new stream looks at so many numbers for one that it can take over. With more than one, ended streams are found
// faster than new ones come.
constexpr int kLooks = 4;

/// The number of a thread, and whether the thread is over.
struct ThreadLife {
  std::uint64_t number;
  std::shared_ptr<std::atomic<bool>> is_over = std::make_shared<std::atomic<bool>>(false);

  explicit ThreadLife(std::uint64_t n) : number(n) {}
  ThreadLife(const ThreadLife&) = delete;
  ThreadLife& operator=(const ThreadLife&) = delete;
  ~ThreadLife() { is_over->store(true); }
};

const ThreadLife& this_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const ThreadLife life(++last);
  return life;
}

}  // namespace

std::uint64_t this_thread_number() noexcept { return this_thread().number; }

bool StreamTable::is_same(const Entry& entry, const StreamName& stream) {
  if (entry.handle != stream.handle || entry.thread != stream.thread) return false;
  if (entry.identity != 0 && stream.identity != 0 && entry.identity != stream.identity) return false;
  // Two owners never hold one handle at the same time, so an owner that is gone had another stream.
  if (entry.end == nullptr) return true;
  const auto owner = entry.owner.lock();
  return stream.owner != nullptr ? owner == stream.owner : owner != nullptr && owner->is_open();
}

std::optional<StreamId> StreamTable::latest_with(const StreamName& stream) const {
  if (is_created(stream.handle)) {
    const auto found = by_handle_.find(stream.handle);
    return found == by_handle_.end() ? std::nullopt : std::optional(found->second);
  }
  const auto found = defaults_.find({stream.device, stream.thread});
  return found == defaults_.end() ? std::nullopt : std::optional(found->second);
}

void StreamTable::set_latest(const StreamName& stream, StreamId number) {
  if (is_created(stream.handle)) {
    by_handle_[stream.handle] = number;
  } else {
    defaults_[{stream.device, stream.thread}] = number;
  }
}

std::optional<StreamId> StreamTable::known_number_of(const StreamName& stream) const {
  const bool is_default = stream.handle == nullptr || stream.handle == kLegacyStream;
  if (is_default && stream.device == 0) return 0;
  const auto latest = latest_with(stream);
  return latest && (is_default || is_same(streams_[*latest], stream)) ? latest : std::nullopt;
}

StreamId StreamTable::number_of(const StreamName& stream, const IsComplete& is_complete) {
  if (stream.handle == kPerThreadStream && stream.thread == 0)
    throw Error(ErrorKind::config,
                "the per-thread default stream is another stream in every thread, so a pool cannot order memory by it; "
                "make a stream and use that");
  if (const auto known = known_number_of(stream)) {
    Entry& entry = streams_[*known];
    if (stream.owner != nullptr && entry.end == nullptr) {  // known by its handle until now
      entry.owner = stream.owner;
      entry.end = stream.owner->end();
    }
    return *known;
  }
  // The handle belongs to another stream now.
  if (const auto before = latest_with(stream)) note_end(*before);
  const auto ended = is_complete ? find_ended(stream, is_complete) : std::nullopt;
  const auto number = ended.value_or(static_cast<StreamId>(streams_.size()));
  if (!ended) streams_.emplace_back();
  Entry& entry = streams_[number];
  if (const auto old = by_handle_.find(entry.handle); old != by_handle_.end() && old->second == number)
    by_handle_.erase(old);
  if (entry.thread != 0) defaults_.erase({entry.device, entry.thread});
  entry = {.handle = stream.handle == kLegacyStream ? nullptr : stream.handle,
           .device = stream.device,
           .context = stream.context,
           .owner = stream.owner,
           .end = stream.owner == nullptr ? nullptr : stream.owner->end(),
           .thread = stream.thread,
           .thread_is_over = stream.thread == 0 ? nullptr : this_thread().is_over,
           .identity = stream.identity,
           .generation = entry.generation + 1,
           .named_at = calls_ + 1};  // by the call that is under way
  set_latest(stream, number);
  latest_ = 0;  // of two streams with one handle the newer is meant
  return number;
}

std::optional<StreamId> StreamTable::find_ended(const StreamName& heir, const IsComplete& is_complete) {
  const auto is_like_heir = [&](const Entry& entry) {
    return entry.device == heir.device && entry.context == heir.context;
  };
  if (forgotten_count() > 0) {
    const auto vacant =
        std::ranges::find_if(forgotten_, [&](KnownStream stream) { return is_like_heir(streams_[stream.number]); });
    if (vacant != forgotten_.end()) return vacant->number;
  }
  for (int looks = 0; looks < kLooks && streams_.size() > 1; ++looks) {
    next_look_ = next_look_ + 1 < streams_.size() ? next_look_ + 1 : 1;
    const StreamId number = next_look_;
    Entry& entry = streams_[number];
    if (entry.thread_is_over != nullptr && entry.thread_is_over->load()) note_end(number);
    if (is_like_heir(entry) && has_ended(entry) && is_complete(number)) return number;
  }
  return std::nullopt;
}

StreamUse StreamTable::use(StreamId stream) const {
  const Entry& entry = streams_[stream];
  return {entry.handle, entry.end.get(), is_of_other_thread(stream) || may_be_gone(entry)};
}

std::optional<StreamId> StreamTable::find(CUstream created) const {
  const auto found = known_number_of(StreamName{.handle = created});
  latest_ = found.value_or(0);
  return found;
}

void StreamTable::note_end(StreamId stream) {
  Entry& entry = streams_[stream];
  const bool is_default = !is_created(entry.handle) && entry.thread == 0;  // lives as long as its device
  if (entry.end != nullptr || is_default) return;
  entry.end = std::make_shared<StreamEnd>();
  entry.end->is_over = true;
}

void StreamTable::forget(StreamId stream) {
  note_end(stream);
  note_complete(stream);
  forgotten_.push_back(known(stream));
}

void StreamTable::note_complete(StreamId stream) {
  if (const auto& end = streams_[stream].end; end != nullptr && end->is_over) end->is_complete.store(true);
}

}  // namespace memlake
