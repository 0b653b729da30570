// The window of addresses: what the kernel shows there, and where its limits are met.

#include "memory/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "basics/refusal.hpp"
#include "cpu_access.hpp"
#include "own_process.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::test {

using namespace memlake::emulator;

namespace {

constexpr std::uint64_t kPiece = 64 << 10;

struct File {
  explicit File(std::uint64_t length) : fd(memfd_create("test", MFD_CLOEXEC)) {
    if (ftruncate(fd, static_cast<off_t>(length)) != 0) throw std::runtime_error("the system gives no file");
  }
  ~File() { close(fd); }
  int fd;
};

/// How many mappings the kernel counts in the window.
std::size_t kernel_mappings(const Arena& arena) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (arena.contains(std::stoull(line, nullptr, 16))) ++count;
  return count;
}

unsigned char& byte_at(std::uint64_t address) { return *reinterpret_cast<unsigned char*>(address); }

bool is_refused_with(const std::string& part, const std::function<void()>& step) {
  try {
    step();
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code, CUDA_ERROR_OUT_OF_MEMORY);
    return refusal.sentence.find(part) != std::string::npos;
  }
  return false;
}

}  // namespace

PROCESS_TEST(one_file_shown_at_two_places_has_the_same_bytes) {
  Arena arena;
  const File file(4 * kPiece);
  const std::uint64_t at = *arena.addresses().take(8 * kPiece, kPiece);
  for (const std::uint64_t address : {at, at + 4 * kPiece}) {
    arena.show(address, kPiece, file.fd, kPiece);
    Arena::protect(address, kPiece, 3);
  }
  byte_at(at) = 77;
  EXPECT_EQ(+byte_at(at + 4 * kPiece), 77);
  const View view = arena.view(2 * kPiece, file.fd);
  EXPECT_EQ(+byte_at(view.address() + kPiece), 77);
  arena.hide(at, kPiece, 1);
  EXPECT_EQ(+byte_at(at + 4 * kPiece), 77);
}

PROCESS_TEST(a_shown_range_is_closed_until_it_is_opened_and_closed_when_it_is_hidden) {
  Arena arena;
  const File file(kPiece);
  const std::uint64_t at = *arena.addresses().take(kPiece, kPiece);
  EXPECT_EQ(cpu_access(at), 0U);
  arena.show(at, kPiece, file.fd, 0);
  for (const unsigned access : {0U, 1U, 3U, 1U, 0U, 3U}) {
    Arena::protect(at, kPiece, access);
    EXPECT_EQ(cpu_access(at), access);
  }
  arena.hide(at, kPiece, 1);
  EXPECT_EQ(cpu_access(at), 0U);
}

PROCESS_TEST(many_ranges_are_refused_before_the_kernel_refuses_and_all_can_be_hidden) {
  Arena arena;
  const File file(std::uint64_t{1} << 40);
  const std::size_t before = kernel_mappings(arena);
  std::vector<std::uint64_t> shown;
  const auto show_one_more = [&] {
    const std::uint64_t at = *arena.addresses().take(2 * kPiece, 2 * kPiece);  // every other piece: no neighbours
    arena.check_room_to_show(at, kPiece);
    arena.show(at, kPiece, file.fd, at % (std::uint64_t{1} << 39));
    shown.push_back(at);
  };
  while (shown.size() < most_mappings() && !is_refused_with("vm.max_map_count", show_one_more)) continue;
  EXPECT(shown.size() > most_mappings() / 3 && shown.size() < most_mappings());
  EXPECT(is_refused_with("vm.max_map_count", [&] { arena.cut(); }));
  EXPECT(is_refused_with("vm.max_map_count", [&] { arena.view(kPiece, file.fd); }));
  // What is left is the program's: it can map, open and close.
  EXPECT(kernel_mappings(arena) <= most_mappings());
  void* own = mmap(nullptr, kPiece, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(own != MAP_FAILED);
  for (const std::uint64_t at : shown) Arena::protect(at, kPiece, 3);
  for (const std::uint64_t at : shown) arena.hide(at, kPiece, 1);
  EXPECT_EQ(kernel_mappings(arena), before);
  show_one_more();
}

PROCESS_TEST(neighbours_are_hidden_with_one_call_and_in_pieces) {
  Arena arena;
  const File file(kPiece);
  const std::size_t before = kernel_mappings(arena);
  const std::uint64_t at = *arena.addresses().take(9 * kPiece, kPiece) + kPiece;  // not at the window's edge
  for (std::uint64_t i = 0; i < 8; ++i) arena.show(at + i * kPiece, kPiece, file.fd, 0);
  EXPECT_EQ(kernel_mappings(arena), before + 8 + 1);  // the window is in two now
  arena.hide(at + 2 * kPiece, 3 * kPiece, 3);
  arena.hide(at, kPiece, 1);
  arena.hide(at + 6 * kPiece, 2 * kPiece, 2);
  EXPECT_EQ(kernel_mappings(arena), before + 2 + 2);
  arena.hide(at + kPiece, kPiece, 1);
  arena.hide(at + 5 * kPiece, kPiece, 1);
  EXPECT_EQ(kernel_mappings(arena), before);
}

}  // namespace memlake::test
