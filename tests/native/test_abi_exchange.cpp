// memlake_torch_export and memlake_torch_import: memory of PyTorch's pools in another process, through C functions
// only.

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kConf = "policy:lake,driver:emulated,devices:1,memory:256MiB,backing:host";

bool says(const std::string& part) { return std::string(memlake_last_error()).find(part) != std::string::npos; }

struct Exported {
  std::uint64_t offset = 0;
  std::vector<int> fds;
  std::vector<std::uint64_t> sizes;

  Exported() = default;
  Exported(Exported&&) = default;
  Exported& operator=(Exported&&) = delete;
  ~Exported() {
    for (const int fd : fds) close(fd);
  }
};

Exported export_of(const void* memory) {
  Exported exported;
  EXPECT_EQ(memlake_torch_export(
                memory, 0, &exported.offset,
                [](int fd, std::uint64_t size, void* to) {
                  static_cast<Exported*>(to)->fds.push_back(fd);
                  static_cast<Exported*>(to)->sizes.push_back(size);
                },
                &exported),
            MEMLAKE_OK);
  return exported;
}

void send(int to, const void* bytes, std::size_t size) {
  EXPECT_EQ(write(to, bytes, size), static_cast<ssize_t>(size));
}
bool receive(int from, void* bytes, std::size_t size) { return read(from, bytes, size) == static_cast<ssize_t>(size); }

std::uint64_t held(memlake_pool* pool) {
  memlake_pool_stats_t stats{};
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(memlake_pool_stats(pool, &stats), MEMLAKE_OK);
  return stats.held;
}

/// The receiver of one buffer, in its own process: expects `seen` at its begin and writes `answer` there.
int receiver(int from, pid_t sender, int done) {
  std::uint64_t header[2];  // the offset, and the number of chunks
  if (!receive(from, header, sizeof header)) return 10;
  std::vector<int> theirs(header[1]);
  std::vector<std::uint64_t> sizes(header[1]);
  if (!receive(from, theirs.data(), theirs.size() * sizeof(int))) return 11;
  if (!receive(from, sizes.data(), sizes.size() * sizeof(std::uint64_t))) return 12;
  const int process = static_cast<int>(syscall(SYS_pidfd_open, sender, 0));
  std::vector<int> fds;
  for (const int fd : theirs) fds.push_back(static_cast<int>(syscall(SYS_pidfd_getfd, process, fd, 0)));
  void* first = nullptr;
  memlake_import* const import = memlake_torch_import(kConf, 0, fds.size(), fds.data(), sizes.data(), &first);
  if (import == nullptr) return 13;
  char* const memory = static_cast<char*>(first) + header[0];
  if (std::strcmp(memory, "from the sender") != 0) return 14;
  std::strcpy(memory, "from the receiver");
  if (memlake_torch_end_import(import) != MEMLAKE_OK) return 15;
  return write(done, "d", 1) == 1 ? 0 : 16;
}

/// `graph`: 0, or the number of the graph pool that the memory is allocated from.
void send_memory_to_another_process(std::uint64_t graph) {
  int pipe_to[2];
  int pipe_back[2];
  EXPECT_EQ(pipe(pipe_to), 0);
  EXPECT_EQ(pipe(pipe_back), 0);
  const test::Ended ended = test::run_in_child([&] {
    const pid_t sender = getpid();
    const pid_t other = fork();  // before either of them uses a driver
    if (other == 0) _exit(receiver(pipe_to[0], sender, pipe_back[1]));
    memlake_pool* const pool = memlake_torch_pool(0, kConf);
    EXPECT(pool != nullptr);
    if (graph != 0) EXPECT_EQ(memlake_pool_use_graph(pool, 0, graph), MEMLAKE_OK);
    const auto allocate = [&](std::size_t size) {
      return graph == 0 ? memlake_pool_allocate(pool, size, nullptr)
                        : memlake_pool_try_allocate_in_graph(pool, 0, graph, size, nullptr);
    };
    void* const neighbour = allocate(3 * kMiB);
    void* const memory = allocate(45 * kMiB + 512);
    std::strcpy(static_cast<char*>(memory), "from the sender");
    const Exported exported = export_of(memory);
    EXPECT(exported.fds.size() > 1);
    const std::uint64_t header[2] = {exported.offset, exported.fds.size()};
    send(pipe_to[1], header, sizeof header);
    send(pipe_to[1], exported.fds.data(), exported.fds.size() * sizeof(int));
    send(pipe_to[1], exported.sizes.data(), exported.sizes.size() * sizeof(std::uint64_t));
    int status = -1;
    EXPECT_EQ(waitpid(other, &status, 0), other);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(std::string(static_cast<char*>(memory)), "from the receiver");
    EXPECT_EQ(memlake_pool_free(pool, memory), MEMLAKE_OK);
    EXPECT_EQ(memlake_pool_free(pool, neighbour), MEMLAKE_OK);
    if (graph != 0) EXPECT_EQ(memlake_pool_release_graph(pool, 0, graph, 1), MEMLAKE_OK);
    EXPECT_EQ(memlake_pool_trim(pool, 0), MEMLAKE_OK);
    EXPECT_EQ(held(pool), 0U);
  });
  EXPECT_EQ(ended, test::Ended{.code = 0});
}

TEST(memory_reaches_another_process_by_the_chunks_under_it) { send_memory_to_another_process(0); }

TEST(memory_of_a_graph_pool_reaches_another_process_by_the_chunks_under_it) { send_memory_to_another_process(7); }

PROCESS_TEST(small_memory_is_exported_with_the_chunk_that_it_shares) {
  memlake_pool* const pool = memlake_torch_pool(0, kConf);
  void* const first = memlake_pool_allocate(pool, 1000, nullptr);
  void* const second = memlake_pool_allocate(pool, 1000, nullptr);
  const Exported one = export_of(first);
  const Exported two = export_of(second);
  EXPECT_EQ(one.fds.size(), 1U);
  EXPECT_EQ(one.sizes.front(), 2 * kMiB);
  EXPECT_EQ(static_cast<char*>(first) - static_cast<char*>(second),
            static_cast<std::ptrdiff_t>(one.offset) - static_cast<std::ptrdiff_t>(two.offset));
}

PROCESS_TEST(what_cannot_be_exported_is_an_error_and_calls_nothing) {
  std::uint64_t offset = 7;
  int calls = 0;
  const auto count = [](int, std::uint64_t, void* calls_made) { ++*static_cast<int*>(calls_made); };
  memlake_pool* const pool = memlake_torch_pool(0, "policy:caching,driver:emulated,memory:256MiB,backing:none");
  void* const memory = memlake_pool_allocate(pool, 3 * kMiB, nullptr);
  EXPECT_EQ(memlake_torch_export(memory, 0, &offset, count, &calls), MEMLAKE_ERROR_CONFIG);
  EXPECT(says("lake"));
  EXPECT_EQ(memlake_torch_export(&offset, 0, &offset, count, &calls), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(memlake_torch_export(nullptr, 0, &offset, count, &calls), MEMLAKE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(offset, 7U);
  EXPECT_EQ(calls, 0);
}

PROCESS_TEST(a_pool_that_a_program_made_itself_has_no_chunks_for_other_processes) {
  std::uint64_t offset = 0;
  memlake_pool* const pool = memlake_pool_create(kConf, 0);
  EXPECT_EQ(memlake_torch_set_pool(0, pool), MEMLAKE_OK);
  void* const memory = memlake_pool_allocate(pool, 3 * kMiB, nullptr);
  const auto none = [](int, std::uint64_t, void*) {};
  EXPECT_EQ(memlake_torch_export(memory, 0, &offset, none, nullptr), MEMLAKE_ERROR_CONFIG);
  EXPECT(says("were not made to be passed"));
}

PROCESS_TEST(descriptors_that_are_no_memory_are_an_error) {
  void* address = nullptr;
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const std::uint64_t sizes[2] = {2 * kMiB, 2 * kMiB};
  EXPECT(memlake_torch_import(kConf, 0, 2, fds, sizes, &address) == nullptr);
  EXPECT(says("chunk 0 of 2"));
  EXPECT(memlake_torch_import(kConf, 0, 0, fds, sizes, &address) == nullptr);
  EXPECT(memlake_torch_import("polcy:lake", 0, 2, fds, sizes, &address) == nullptr);
  EXPECT_EQ(memlake_last_error_code(), MEMLAKE_ERROR_CONFIG);
  EXPECT_EQ(memlake_torch_end_import(nullptr), MEMLAKE_OK);
}

}  // namespace
}  // namespace memlake
