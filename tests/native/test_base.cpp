#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/address.hpp"
#include "base/bytes.hpp"
#include "base/ownership.hpp"
#include "base/process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

TEST(bytes_know_their_multiples) {
  EXPECT(Bytes{4096}.is_multiple_of(Bytes{1024}));
  EXPECT(Bytes{0}.is_multiple_of(Bytes{1024}));
  EXPECT(!Bytes{1000}.is_multiple_of(Bytes{1024}));
  EXPECT(!Bytes{4096}.is_multiple_of(Bytes{0}));
}

TEST(a_sum_that_does_not_fit_is_nothing) {
  EXPECT(checked_add(MiB, GiB) == Bytes{(1u << 20) + (1u << 30)});
  EXPECT(!checked_add(Bytes{~0ull}, Bytes{1}));
  EXPECT(checked_add(Bytes{~0ull}, Bytes{0}).has_value());
}

TEST(ranges_are_half_open) {
  const AddressRange range{{100}, {50}};
  EXPECT(range.contains(Address{100}) && range.contains(Address{149}));
  EXPECT(!range.contains(Address{150}) && !range.contains(Address{99}));
  EXPECT(range.contains(AddressRange{{120}, {30}}) && !range.contains(AddressRange{{120}, {31}}));
  EXPECT(range.overlaps({{149}, {10}}) && !range.overlaps({{150}, {10}}) && !range.overlaps({{90}, {10}}));
  EXPECT(range.touches({{150}, {10}}) && range.touches({{90}, {10}}) && !range.touches({{89}, {10}}));
}

TEST(an_error_says_everything_the_driver_said) {
  const Error error(ErrorKind::out_of_memory,
                    DriverAnswer{"cuMemCreate", 2, "CUDA_ERROR_OUT_OF_MEMORY", "full", "why"});
  EXPECT_EQ(std::string(error.what()), "cuMemCreate failed with CUDA_ERROR_OUT_OF_MEMORY (2): full [why]");
  EXPECT_EQ(std::string(kind_name(error.kind())), "out_of_memory");
  EXPECT_EQ(error.answer()->code, 2);
  EXPECT(Error(ErrorKind::closed, "closed").answer() == nullptr);
}

TEST(ownership_ends_once) {
  Ownership ownership;
  int undone = 0;
  ownership.end("it", [&] { ++undone; });
  EXPECT(!ownership.is_held());
  EXPECT_ERROR(invalid_free, ownership.end("it", [&] { ++undone; }));
  EXPECT_ERROR(closed, ownership.require("it"));
  ownership.end_quietly([&] { ++undone; });
  EXPECT_EQ(undone, 1);
}

TEST(ownership_stays_when_the_undo_fails) {
  Ownership ownership;
  EXPECT_ERROR(other, ownership.end("it", [] { throw Error(ErrorKind::other, "no"); }));
  EXPECT(ownership.is_held());
}

TEST(ownership_moves) {
  Ownership first;
  Ownership second(std::move(first));
  EXPECT(second.is_held());
  EXPECT(!first.is_held());  // NOLINT: what a moved-from owner answers is the point
}

TEST(ownership_ends_once_in_many_threads) {
  for (int round = 0; round < 200; ++round) {
    Ownership ownership;
    std::atomic<int> undone{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ownership.end_quietly([&] { ++undone; }); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(undone.load(), 1);
  }
}

std::vector<ErrorKind> reported;  // NOLINT: a hook is a plain function

TEST(failing_undos_reach_the_hook_unless_the_driver_is_gone) {
  reported.clear();
  const UndoFailureHook before = set_undo_failure_hook([](const Error& error) { reported.push_back(error.kind()); });
  Ownership{}.end_quietly([] { throw Error(ErrorKind::contract_violation, "in use"); });
  Ownership{}.end_quietly([] { throw Error(ErrorKind::driver_gone, "shut down"); });
  set_undo_failure_hook(before);
  Ownership{}.end_quietly([] { throw Error(ErrorKind::other, "nobody listens"); });
  EXPECT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported.at(0), ErrorKind::contract_violation);
}

TEST(a_forked_child_is_another_process) {
  const unsigned here = process_generation();
  const pid_t child = fork();
  if (child == 0) _exit(process_generation() == here ? 1 : 0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(process_generation(), here);
}

TEST(a_dropped_owner_undoes_nothing_once_exit_has_begun) {
  const pid_t child = fork();
  if (child == 0) {
    int undone = 0;
    Ownership dropped;
    Ownership closed;
    begin_exit();
    dropped.end_quietly([&] { ++undone; });
    closed.end("it", [&] { undone += 10; });
    _exit(undone);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 10);
}

}  // namespace
}  // namespace memlake
