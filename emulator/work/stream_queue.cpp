// The queues of streams: work is queued, run by threads or step by step, waited for, or dropped.

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "system/signals_blocked.hpp"
#include "work/streams.hpp"

namespace memlake::emulator {

namespace {

/// A worker with nothing to do for so long ends. Threads of the program come and go, and each may have had a stream.
constexpr std::chrono::seconds kIdleTime{1};

}  // namespace

void Streams::enqueue(Stream& stream, Work&& work) { static_cast<void>(enqueue_touching(stream, std::move(work))); }

const Work& Streams::enqueue_touching(Stream& stream, Work&& work) {
  capture_rules.check_not_capturing(stream);
  if (!stream.is_manual()) start_worker(stream);  // before anything is queued: the system may refuse a thread
  for (auto& wait : implicit_waits(stream)) work.waits.push_back(std::move(wait));
  const Work& queued = push(stream, std::move(work));
  wake_worker(stream);
  return queued;
}

const Work& Streams::push(Stream& stream, Work&& work) {
  work.completion->stream = &stream;
  work.stream = stream.handle;
  work.position = next_position(stream);
  work.label = std::make_shared<WorkLabel>(WorkLabel{std::move(work.name), work.origin});
  if (work.tells_host || stream.is_manual()) work.point = stream.before;
  stream.last = work.completion;
  if (!stream.is_manual())
    for (const CompletionRef& wait : work.waits)
      if (is_pending(wait)) wait->waiting.push_back(owner_of(stream));
  auto queued = std::make_unique<Queued>(Queued{std::move(work), {}});
  queued->place = in_flight_.add(queued->work);
  return stream.queue.emplace_back(std::move(queued))->work;
}

Streams::Awaited Streams::enqueue_awaited(Stream& stream, Work&& work) {
  const std::vector<CompletionRef> implicit = implicit_waits(stream);
  if (stream.queue.empty() && implicit.empty()) {
    // Work that the calling thread runs is queued all the same, so that everybody sees it while it runs; `is_busy`
    // keeps the stream's own worker away from it.
    capture_rules.check_not_capturing(stream);
    return {push(stream, std::move(work)), true};
  }
  // Asked first: work that writes to the caller's memory must not stay behind when the caller is refused.
  check_will_end(stream.last);
  for (const CompletionRef& wait : implicit) check_will_end(wait);
  return {enqueue_touching(stream, std::move(work)), false};
}

void Streams::finish(Lock& lock, Stream& stream, const Awaited& awaited) {
  const Clock point = stream.before;
  if (awaited.is_first) {
    run_first(lock, stream);
  } else {
    wait(lock, CompletionRef(awaited.work.completion));
  }
  order_.see(point);
}

bool Streams::is_ready(const Stream& stream) const {
  if (stream.is_busy || stream.queue.empty()) return false;
  const Work& work = stream.queue.front()->work;
  return !closed_gates_.contains(work.gate) && std::ranges::none_of(work.waits, is_pending);
}

bool Streams::is_stuck(const Stream& stream) const {
  if (stream.is_busy || stream.queue.empty()) return false;
  const Work& work = stream.queue.front()->work;
  if (closed_gates_.contains(work.gate)) return true;
  return std::ranges::any_of(work.waits,
                             [&](const CompletionRef& wait) { return is_pending(wait) && is_stuck(*wait->stream); });
}

void Streams::run_first(Lock& lock, Stream& stream) {
  Work& work = stream.queue.front()->work;
  stream.is_busy = true;
  work.is_running = true;
  Context* context = contexts_.find(stream.context);
  const bool is_lost = context == nullptr || context->sticky != CUDA_SUCCESS;
  const std::string refusal = is_lost || !work.check ? "" : work.check();
  if (!refusal.empty()) {
    context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    ledger_.note_warning(Origin{.call = "a stream"}, text(work.describe(), " on device ", stream.device->ordinal, ": ",
                                                          refusal, "; its context is lost (sticky 700)"));
    faults_.push_back(stream.device->number);
  } else if (work.body && !is_lost) {
    if (work.tells_host) order_.see(work.point);
    lock.unlock();
    work.body();
    lock.lock();
  }
  stream.is_busy = false;
  finish_first(stream);
}

void Streams::finish_first(Stream& stream) {
  const std::unique_ptr<Queued> queued = std::move(stream.queue.front());
  queued->work.completion->finish();
  in_flight_.remove(queued->place);
  stream.queue.pop_front();
  if (queued->work.at_end) queued->work.at_end();
  for (const auto& action : std::exchange(queued->work.completion->then, {})) action();
  for (const auto& other : std::exchange(queued->work.completion->waiting, {})) wake_worker(*other);
  wake_worker(stream);    // the work may have run in another thread
  changed_.notify_all();  // the threads of the program that wait
  erase_if_finished(stream);
}

void Streams::wake_worker(Stream& stream) {
  if (stream.has_worker && (is_ready(stream) || is_worker_done(stream))) stream.wake.notify_one();
}

bool Streams::is_worker_done(const Stream& stream) { return stream.is_destroyed && stream.queue.empty(); }

void Streams::start_worker(Stream& stream) {
  if (stream.has_worker) return;
  const SignalsBlocked scope;
  try {
    std::thread([this, kept = owner_of(stream)] { work_loop(*kept); }).detach();
  } catch (const std::system_error& error) {
    refuse(CUDA_ERROR_OPERATING_SYSTEM, "the system gives no thread for the stream: ", error.what(),
           " (fewer streams, streams=manual, or a higher ulimit -u help)");
  }
  stream.has_worker = true;
}

void Streams::work_loop(Stream& stream) {
  Lock lock(mutex_);
  while (true) {
    stream.wake.wait_for(lock, kIdleTime, [&] { return is_ready(stream) || is_worker_done(stream); });
    if (is_ready(stream)) {
      run_first(lock, stream);
    } else if (stream.queue.empty()) {
      break;
    }
  }
  stream.has_worker = false;  // the next work gets a new one
}

/// Runs one piece of manual work that `completion` needs; false if it cannot go on by running manual work.
bool Streams::advance(Lock& lock, const CompletionRef& completion) {
  Stream& stream = *completion->stream;
  if (stream.queue.empty() || stream.is_busy) return false;
  const Work& work = stream.queue.front()->work;
  for (const CompletionRef& wait : work.waits)
    if (is_pending(wait)) return advance(lock, CompletionRef(wait));
  if (!stream.is_manual() || closed_gates_.contains(work.gate)) return false;
  run_first(lock, stream);
  return true;
}

void Streams::check_will_end(const CompletionRef& completion) const {
  if (!is_pending(completion) || !completion->stream->is_manual() || closed_gates_.empty()) return;
  // Everything that must run before it. What is queued never gets new work in front, so one look is enough.
  std::vector<const Completion*> needed{completion.get()};
  std::unordered_set<const Completion*> seen;
  while (!needed.empty()) {
    const Completion* last = needed.back();
    needed.pop_back();
    if (!seen.insert(last).second) continue;
    for (const auto& queued : last->stream->queue) {
      const Work& work = queued->work;
      if (closed_gates_.contains(work.gate))
        violate("this wait would never end: ", work.describe(),
                " is closed, and no thread works on manual streams; open it first");
      for (const CompletionRef& wait : work.waits)
        if (is_pending(wait)) needed.push_back(wait.get());
      if (work.completion.get() == last) break;
    }
  }
}

void Streams::wait(Lock& lock, const CompletionRef& completion) {
  check_will_end(completion);
  while (is_pending(completion))
    if (!advance(lock, completion)) changed_.wait(lock);
}

bool Streams::is_done(Stream& stream) {
  capture_rules.check_not_capturing(stream);
  return !is_pending(stream.last) && implicit_waits(stream).empty();
}

bool Streams::query(Stream& stream) {
  if (!is_done(stream)) return false;
  order_.see(before(stream));
  return true;
}

Clock Streams::synchronize(Lock& lock, Stream& stream) {
  capture_rules.check_not_capturing(stream);
  Clock point = before(stream);
  // What the stream would have to wait for is part of it: the legacy stream ends when the blocking streams do.
  const std::vector<CompletionRef> implicit = implicit_waits(stream);
  const CompletionRef last = stream.last;
  if (last != nullptr) wait(lock, last);
  for (const auto& completion : implicit) wait(lock, completion);
  order_.see(point);
  return point;
}

template <class Selects>
Clock Streams::wait_for_streams(Lock& lock, Selects&& selects) {
  std::vector<CompletionRef> pending;
  Clock point;
  for (const auto& [handle, stream] : streams_) {
    if (!selects(*stream)) continue;
    point.merge(stream->before);
    if (is_pending(stream->last)) pending.push_back(stream->last);
  }
  for (const auto& completion : pending) wait(lock, completion);
  order_.see(point);
  return point;
}

Clock Streams::synchronize_context(Lock& lock, const Context& context) {
  const std::uint64_t handle = context.handle;
  Clock point = wait_for_streams(lock, [&](const Stream& stream) { return stream.context == handle; });
  see_ended(handle);
  return point;
}

Clock Streams::synchronize_green(Lock& lock, std::uint64_t view) {
  Clock point = wait_for_streams(lock, [&](const Stream& stream) { return stream.view == view; });
  order_.see_ended(view);
  return point;
}

void Streams::see_ended(std::uint64_t context) {
  order_.see_ended(context);
  for (const auto& [view, green] : contexts_.all_green())
    if (green.primary == context) order_.see_ended(view);
}

void Streams::synchronize_device(Lock& lock, const Device& device) {
  wait_for_streams(lock, [&](const Stream& stream) { return stream.device == &device; });
  for (const auto& [handle, context] : contexts_.all())
    if (context.device == &device) see_ended(handle);
}

void Streams::see_lost(Lock& lock, std::uint64_t context) {
  const auto is_using_memory = [&](const auto& entry) {
    const Stream& stream = *entry.second;
    return stream.context == context && stream.is_busy && !stream.queue.front()->work.touches.empty();
  };
  changed_.wait(lock, [&] { return std::ranges::none_of(streams_, is_using_memory); });
  for (const auto& [handle, stream] : streams_)
    if (stream->context == context) order_.see(stream->before);
  see_ended(context);
}

std::uint64_t Streams::hold(Stream& stream, const Origin& origin) {
  const std::uint64_t gate = next_gate_++;
  closed_gates_.insert(gate);
  try {
    enqueue(stream, Work{.name = text("gate ", gate), .origin = origin, .gate = gate});
  } catch (...) {
    closed_gates_.erase(gate);
    throw;
  }
  return gate;
}

void Streams::open(std::uint64_t gate) {
  if (closed_gates_.erase(gate) == 0) invalid("gate ", gate, " is not closed");
  for (const auto& [handle, stream] : streams_)
    if (!stream->queue.empty() && stream->queue.front()->work.gate == gate) wake_worker(*stream);
  changed_.notify_all();
}

std::size_t Streams::step(Lock& lock, Stream& stream, std::size_t count) {
  if (!stream.is_manual()) invalid("only streams of devices with streams=manual can be stepped");
  const auto kept = owner_of(stream);  // another thread may destroy it while its work runs
  std::size_t ran = 0;
  const auto is_awaited = [&] {
    const auto& question = stream.queue.front()->work.is_awaited;
    return !question || question();  // a step waits for no other process
  };
  while (ran < count && is_ready(stream) && is_awaited()) {
    const Clock point = stream.queue.front()->work.point;
    run_first(lock, stream);
    order_.see(point);  // the test knows that the work ran, because it made it run
    ++ran;
  }
  return ran;
}

void Streams::run_manual(Lock& lock) {
  const auto find_ready = [&]() -> std::shared_ptr<Stream> {
    for (const auto& [handle, stream] : streams_)
      if (stream->is_manual() && is_ready(*stream)) return stream;
    return nullptr;
  };
  while (const std::shared_ptr<Stream> ready = find_ready()) run_first(lock, *ready);
}

void Streams::drop_context(Lock& lock, const Context& context) {
  std::vector<std::shared_ptr<Stream>> dropped;
  for (const auto& [handle, stream] : streams_)
    if (stream->context == context.handle) dropped.push_back(stream);
  for (const auto& stream : dropped) of_dropped_contexts_.insert(stream->handle);
  finish_all(lock, dropped);
  see_ended(context.handle);
  of_gone_streams_.erase(context.handle);
  awaited_.erase(context.handle);
}

void Streams::drop_green(Lock& lock, std::uint64_t view) {
  std::vector<std::shared_ptr<Stream>> dropped;
  for (const auto& [handle, stream] : streams_)
    if (stream->view == view) dropped.push_back(stream);
  for (const auto& stream : dropped) of_dropped_green_.insert(stream->handle);
  finish_all(lock, dropped);
  order_.see_ended(view);
  of_gone_streams_.erase(view);
  awaited_.erase(view);
}

void Streams::finish_all(Lock& lock, const std::vector<std::shared_ptr<Stream>>& dropped) {
  for (const auto& stream : dropped) {
    stream->is_destroyed = true;
    if (stream->kind != Stream::Kind::created)
      std::erase_if(defaults_, [&](const auto& entry) { return entry.second == stream.get(); });
  }
  for (const auto& stream : dropped) {
    while (!stream->queue.empty()) {
      if (is_stuck(*stream)) {
        while (!stream->queue.empty()) finish_first(*stream);
      } else if (!advance(lock, CompletionRef(stream->queue.front()->work.completion))) {
        changed_.wait(lock);
      }
    }
    order_.see(stream->before);
    wake_worker(*stream);  // it has nothing to do any more
    erase_if_finished(*stream);
  }
}

}  // namespace memlake::emulator
