#include "runtime/published_figures.hpp"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <string_view>
#include <variant>

namespace memlake {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kQuestion = '?';
constexpr std::chrono::seconds kBetweenLooks{10};
constexpr std::size_t kLengthBytes = 4;
// Walks that take no longer than this together are made for every answer: 0.02 % of a core at ten answers a second.
constexpr std::chrono::microseconds kShortWalks{20};
// Longer ones take this part of a core: 0.02 %.
constexpr int kPartOfCore = 5000;

std::atomic<std::uint64_t> changes{0};

template <class Number>
void append_number(std::string& text, Number number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

void append_list(std::string& text, std::initializer_list<std::uint64_t> numbers) {
  for (const std::uint64_t number : numbers) {
    append_number(text, number);
    text += ',';
  }
}

void append_figures(std::string& text, const LiveStats& stats) {
  text += ",\"moves\":";
  const std::size_t before = text.size();
  for (const auto& [name, value] : stats.policy_counters)
    if (const auto* moves = std::get_if<std::uint64_t>(&value);
        moves != nullptr && name == std::string_view("moved_chunks"))
      append_number(text, *moves);
  if (text.size() == before) text += "null";
  text += ",\"now\":[";
  const PoolStats& pool = stats.pool;
  append_list(text, {stats.limit.count, pool.held.now.count, pool.held_on_host.now.count, pool.allocated.now.count,
                     pool.active.now.count, stats.live_count, pool.retries, pool.ooms, stats.host_waits});
  append_number(text, stats.modelled_us);
  text += "],\"streams\":";
}

std::string stream_list(const std::vector<LiveStats::OfStream>& streams) {
  std::string text = "[";
  for (const LiveStats::OfStream& of : streams) {
    text += '[';
    append_list(text, {reinterpret_cast<std::uint64_t>(of.stream), of.live.count, of.pending.count, of.free.count});
    text.back() = ']';
    text += ',';
  }
  if (text.back() == ',') text.pop_back();
  return text += ']';
}

std::chrono::nanoseconds cpu_time_of_thread() noexcept {
  timespec time{};
  static_cast<void>(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool send_all(int socket, std::string_view data) {
  while (!data.empty()) {
    const ssize_t sent = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_question(int socket) {
  char byte = 0;
  ssize_t received = 0;
  do received = ::recv(socket, &byte, 1, 0);
  while (received < 0 && errno == EINTR);
  return received == 1 && byte == kQuestion;
}

}  // namespace

void publication_changed() noexcept { changes.fetch_add(1, std::memory_order_release); }

StreamFigures::StreamFigures() noexcept : StreamFigures(cpu_time_of_thread) {}

void StreamFigures::begin(Clock::time_point now) noexcept {
  const bool is_due = spent_ <= kShortWalks || now >= looked_ + kPartOfCore * spent_;
  if (!is_due) return;
  looked_ = now;
  spent_ = {};
  known_.clear();  // also of pools that are gone, whose addresses may be used again
}

const std::string& StreamFigures::of(const LivePool& pool) {
  std::string& text = known_[&pool];
  if (text.empty()) {
    const auto before = thread_time_();
    text = stream_list(pool.figures().by_stream());
    spent_ += thread_time_() - before;
  }
  return text;
}

std::string figures_text(const Publication& publication, StreamFigures& streams) {
  streams.begin(StreamFigures::Clock::now());
  std::string text = publication.head + ",\"pools\":[";
  for (const PublishedPool& one : publication.pools) {
    const std::shared_ptr<LivePool> pool = one.pool.lock();
    if (pool == nullptr) continue;
    const std::size_t before = text.size();
    try {
      if (text.back() != '[') text += ',';
      text += one.fixed;
      append_figures(text, pool->figures().totals());
      text += streams.of(*pool);
      text += '}';
    } catch (const Error&) {  // another thread has closed it
      text.resize(before);
    }
  }
  return text += "]}";
}

void answer_reader(int socket, const std::function<Publication()>& look) {
  Publication publication;
  StreamFigures streams;
  std::uint64_t seen = 0;
  Clock::time_point next_look = Clock::time_point::min();
  while (receive_question(socket)) {
    const std::uint64_t now_changed = changes.load(std::memory_order_acquire);
    if (const auto now = Clock::now(); now_changed != seen || now >= next_look) {
      publication = look();
      seen = now_changed;
      next_look = now + kBetweenLooks;
    }
    const std::string text = figures_text(publication, streams);
    std::string answer;
    answer.reserve(kLengthBytes + text.size());
    for (std::size_t i = kLengthBytes; i-- > 0;) answer += static_cast<char>(text.size() >> (8 * i) & 0xff);
    answer += text;
    if (!send_all(socket, answer)) return;
  }
}

}  // namespace memlake
