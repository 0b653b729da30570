// What readers of other processes get: figures of this moment, without pools that are closed, and a new publication
// when it changes.

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "policies/torch/torch_options.hpp"
#include "random_program.hpp"
#include "runtime/published_figures.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::take;

const char* const kDevice = "devices=1,memory=512MiB,backing=none";

std::shared_ptr<LivePool> make_pool(const test::EmulatedDevices& devices, const char* policy) {
  return LivePool::make({devices[0]}, choose_policy(policy).space_maker(), Bytes{512 * MiB.count});
}

/// Two connected sockets.
class Pair {
 public:
  Pair() { EXPECT(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()) == 0); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    for (const int end : ends_) ::close(end);
  }
  [[nodiscard]] int reader() const noexcept { return ends_[0]; }
  [[nodiscard]] int publisher() const noexcept { return ends_[1]; }

  /// The next answer.
  [[nodiscard]] std::string ask() const {
    EXPECT(::send(reader(), "?", 1, 0) == 1);
    const std::string length = receive(4);
    std::size_t size = 0;
    for (const char byte : length) size = size << 8 | static_cast<unsigned char>(byte);
    return receive(size);
  }

 private:
  [[nodiscard]] std::string receive(std::size_t size) const {
    std::string found(size, '\0');
    for (std::size_t done = 0; done < size;) {
      const ssize_t part = ::recv(reader(), found.data() + done, size - done, 0);
      EXPECT(part > 0);
      done += static_cast<std::size_t>(part);
    }
    return found;
  }

  std::array<int, 2> ends_{};
};

TEST(the_figures_of_pools_are_json_of_this_moment) {
  const test::EmulatedDevices devices(kDevice);
  const auto lake = make_pool(devices, "lake");
  const auto caching = make_pool(devices, "caching");
  const Publication publication{"{\"program\":\"x\"", {{lake, "{\"pool\":1"}, {caching, "{\"pool\":2"}}};
  const Lease lease = take(*caching, MiB * 24);
  StreamFigures streams;
  const std::string text = figures_text(publication, streams);
  EXPECT(text.starts_with("{\"program\":\"x\",\"pools\":[{\"pool\":1,\"moves\":0,\"now\":[536870912,0,0,0,0,0,0,0,0,"));
  EXPECT(text.find(
             "],\"streams\":[]},{\"pool\":2,\"moves\":null,\"now\":[536870912,25165824,0,25165824,25165824,1,0,0,0,") !=
         std::string::npos);
  EXPECT(text.ends_with("],\"streams\":[[0,25165824,0,0]]}]}"));
}

// The tests measure a walk with a clock of their own: how long a real walk takes depends on the machine and its load.
std::chrono::nanoseconds counted_time{0};
std::chrono::nanoseconds counted_step{0};
std::chrono::nanoseconds next_counted_time() noexcept { return counted_time += counted_step; }

TEST(the_streams_of_a_pool_whose_walk_is_short_are_those_of_this_moment) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, "caching");
  counted_step = std::chrono::microseconds(1);
  StreamFigures streams(next_counted_time);
  const auto begin = StreamFigures::Clock::now();
  for (std::uint64_t mib : {4, 8, 12}) {
    const Lease lease = take(*pool, MiB * mib);
    streams.begin(begin);
    EXPECT(streams.of(*pool).find("[[0," + std::to_string(mib * MiB.count) + ",") == 0);
  }
}

TEST(the_streams_of_a_pool_whose_walk_is_long_are_looked_at_again_after_a_while) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, "caching");
  const Lease first_lease = take(*pool, MiB * 4);
  counted_step = std::chrono::milliseconds(10);
  StreamFigures streams(next_counted_time);
  const auto begin = StreamFigures::Clock::now();
  streams.begin(begin);
  const std::string first = streams.of(*pool);
  const Lease second_lease = take(*pool, MiB * 8);
  streams.begin(begin + std::chrono::milliseconds(1));
  EXPECT(streams.of(*pool) == first);
  streams.begin(begin + std::chrono::hours(1));
  EXPECT(streams.of(*pool) != first);
}

TEST(a_walk_is_measured_in_the_processor_time_of_the_thread) {
  const test::EmulatedDevices devices("devices=1,memory=64GiB,backing=none");
  const auto pool = LivePool::make({devices[0]}, choose_policy("caching").space_maker(), TorchOptions::kUnlimited);
  std::vector<Lease> leases;
  // Enough for a walk that takes far longer than a short one on any machine.
  for (int i = 0; i < 30000; ++i) leases.push_back(take(*pool, MiB * 2));
  StreamFigures streams;
  const auto begin = StreamFigures::Clock::now();
  streams.begin(begin);
  const std::string first = streams.of(*pool);
  leases.pop_back();
  streams.begin(begin);
  EXPECT(streams.of(*pool) == first);
}

TEST(closed_pools_and_those_that_are_gone_are_left_out_of_the_figures) {
  const test::EmulatedDevices devices(kDevice);
  const auto closed = make_pool(devices, "lake");
  auto gone = make_pool(devices, "lake");
  const auto open = make_pool(devices, "lake");
  const Publication publication{"{\"a\":1", {{closed, "{\"pool\":1"}, {gone, "{\"pool\":2"}, {open, "{\"pool\":3"}}};
  closed->close();
  gone.reset();
  StreamFigures streams;
  const std::string text = figures_text(publication, streams);
  EXPECT(text.starts_with("{\"a\":1,\"pools\":[{\"pool\":3,"));
  open->close();
  EXPECT(figures_text(publication, streams) == "{\"a\":1,\"pools\":[]}");
}

TEST(a_reader_gets_a_new_publication_when_it_has_changed_and_the_answers_end_with_the_socket) {
  const Pair pair;
  int looks = 0;
  std::thread publisher([&] {
    answer_reader(pair.publisher(), [&] { return Publication{"{\"looks\":" + std::to_string(++looks), {}}; });
  });
  EXPECT(pair.ask() == "{\"looks\":1,\"pools\":[]}");
  publication_changed();
  EXPECT(pair.ask() == "{\"looks\":2,\"pools\":[]}");
  ::shutdown(pair.reader(), SHUT_RDWR);
  publisher.join();
}

TEST(a_byte_that_is_no_question_ends_the_answers_and_so_does_a_publication_that_fails) {
  const Pair pair;
  EXPECT(::send(pair.reader(), "!", 1, 0) == 1);
  answer_reader(pair.publisher(), []() -> Publication { throw std::logic_error("nobody asked"); });
  EXPECT(::send(pair.reader(), "?", 1, 0) == 1);
  bool has_thrown = false;
  try {
    answer_reader(pair.publisher(), []() -> Publication { throw std::runtime_error("no driver"); });
  } catch (const std::runtime_error&) {
    has_thrown = true;
  }
  EXPECT(has_thrown);
}

}  // namespace
}  // namespace memlake
