// Files that hold exportable memory, and what is not one.

#include "system/shareable.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "basics/refusal.hpp"
#include "own_process.hpp"

namespace memlake::test {

using namespace memlake::emulator;

namespace {

constexpr std::uint64_t kSize = 2 << 20;
constexpr std::uint64_t kHeaderRoom = 4096;
constexpr int kAllSeals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

CUmemAllocationProp prop_of(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return prop;
}

int good_file() {
  Identity identity{};
  return make_shareable_file(Shared::chunk, 0, kSize, prop_of(0), identity);
}

/// A memfd of somebody else that says what `edit` makes of a good header.
template <class Edit>
int forged_file(Edit&& edit, int seals = kAllSeals, std::uint64_t length = kSize + kHeaderRoom) {
  const int good = good_file();
  ShareableHeader header = *read_shareable_header(good, Shared::chunk);
  close(good);
  edit(header);
  const int fd = memfd_create("forged", MFD_ALLOW_SEALING);
  const bool is_made = ftruncate(fd, static_cast<off_t>(length)) == 0 &&
                       pwrite(fd, &header, sizeof header, static_cast<off_t>(length - kHeaderRoom)) == sizeof header &&
                       fcntl(fd, F_ADD_SEALS, seals) == 0;
  if (!is_made) throw std::runtime_error("the system gives no file");
  return fd;
}

bool is_believed(int fd) {
  const bool is = read_shareable_header(fd, Shared::chunk).has_value();
  close(fd);
  return is;
}

}  // namespace

TEST(a_shareable_file_says_what_it_is) {
  Identity identity{};
  const int fd = make_shareable_file(Shared::chunk, 3, kSize, prop_of(3), identity);
  const auto header = read_shareable_header(fd, Shared::chunk);
  EXPECT(header.has_value());
  EXPECT_EQ(header->size, kSize);
  EXPECT_EQ(header->device, 3);
  EXPECT(header->identity == identity);
  EXPECT_EQ(ftruncate(fd, 100), -1);  // its length is sealed
  close(fd);
}

TEST(a_descriptor_that_is_no_memory_of_ours_is_not_believed) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT(is_believed(good_file()));
  for (const int fd :
       {-1, 9999, ends[0], ends[1], open("/dev/null", O_RDWR), open("/dev/zero", O_RDWR),
        open("/", O_RDONLY | O_DIRECTORY), open("/proc/self/exe", O_RDONLY), memfd_create("empty", MFD_ALLOW_SEALING)})
    EXPECT(!is_believed(fd));
}

TEST(a_regular_file_with_the_right_content_is_not_believed_because_it_can_shrink) {
  const auto keep = [](ShareableHeader&) {};
  const int forged = forged_file(keep);
  std::FILE* file = std::tmpfile();
  const int fd = dup(fileno(file));
  std::fclose(file);
  std::string bytes(kSize + kHeaderRoom, '\0');
  EXPECT_EQ(pread(forged, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT(is_believed(forged));
  EXPECT(!is_believed(fd));
}

TEST(a_memfd_that_can_change_its_length_is_not_believed) {
  const auto keep = [](ShareableHeader&) {};
  EXPECT(is_believed(forged_file(keep)));
  EXPECT(!is_believed(forged_file(keep, 0)));
  EXPECT(!is_believed(forged_file(keep, F_SEAL_SHRINK)));
  EXPECT(!is_believed(forged_file(keep, F_SEAL_GROW | F_SEAL_SHRINK)));
}

TEST(a_header_that_makes_no_sense_is_not_believed) {
  EXPECT(!is_believed(forged_file([](auto& header) { header.magic[0] = 'M'; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.version = 3; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.kind = Shared::pool; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.size += 1; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.size = UINT64_MAX; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.size = 0; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.device = -1; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.device = 1; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.prop.type = CU_MEM_ALLOCATION_TYPE_INVALID; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.prop.location.type = CU_MEM_LOCATION_TYPE_HOST; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE; })));
  EXPECT(!is_believed(forged_file([](auto& header) { header.prop.win32HandleMetaData = &header; })));
}

TEST(an_exported_description_is_noticed_until_its_last_copy_is_closed) {
  const int fd = good_file();
  EXPECT(!is_shared(fd));
  const int exported = open_shared(fd);
  const int copy = dup(exported);
  EXPECT(is_shared(fd));
  close(exported);
  EXPECT(is_shared(fd));
  close(copy);
  EXPECT(!is_shared(fd));
  close(fd);
}

TEST(a_process_that_dies_with_an_exported_descriptor_gives_it_up) {
  const int fd = good_file();
  const int exported = open_shared(fd);
  int ready[2];
  EXPECT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(fd);
    static_cast<void>(!write(ready[1], "x", 1));
    pause();
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(exported);
  EXPECT(is_shared(fd));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT(!is_shared(fd));
  for (const int end : {ready[0], ready[1], fd}) close(end);
}

}  // namespace memlake::test
