// Legacy sharing between processes: memory of cuMemAlloc, and events. Each test has a second process, which was forked
// before the driver was started, so that it may use it as well.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>

#include "abi.hpp"

namespace memlake::test {

namespace {

constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;
constexpr const char* kDevices = "devices=2,memory=256MiB";

/// Two pipes, from the side of one of the two processes.
class Channel {
 public:
  Channel(int in, int out) : in_(in), out_(out) {}

  template <class T>
  void send(const T& value) const {
    must(running_test_has_failed() ? 1 : 0);  // ends the other process, so that the first one notices
    must(write(out_, &value, sizeof value) == sizeof value ? 0 : 1);
  }
  template <class T>
  T receive() const {
    T value{};
    must(read(in_, &value, sizeof value) == sizeof value ? 0 : 1);
    return value;
  }

 private:
  int in_;
  int out_;
};

/// The other process. It runs `program`, says so when that has returned, and waits until it is killed.
class Other {
 public:
  explicit Other(const std::function<void(const Channel&)>& program) {
    must(pipe(to_other_));
    must(pipe(from_other_));
    process_ = fork();
    if (process_ != 0) return;
    try {
      program(Channel(to_other_[0], from_other_[1]));
    } catch (const std::exception& error) {
      static_cast<void>(!write(STDERR_FILENO, error.what(), std::strlen(error.what())));
      _exit(1);  // the reader gets the end of the pipe, and its test fails
    }
    while (true) pause();
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() { end(); }

  /// Closes the other side's ends, so that a dead process is noticed.
  [[nodiscard]] Channel channel() {
    close(to_other_[0]);
    close(from_other_[1]);
    return {from_other_[0], to_other_[1]};
  }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  int to_other_[2] = {};
  int from_other_[2] = {};
  pid_t process_ = 0;
};

std::uint64_t plain(std::uint64_t size) {
  CUdeviceptr address = 0;
  must(cuMemAlloc_v2(&address, size));
  return address;
}

CUipcMemHandle handle_of(std::uint64_t address) {
  CUipcMemHandle handle{};
  must(cuIpcGetMemHandle(&handle, address));
  return handle;
}

std::uint64_t open(const CUipcMemHandle& handle) {
  CUdeviceptr address = 0;
  must(cuIpcOpenMemHandle_v2(&address, handle, kLazy));
  return address;
}

unsigned char first_byte(std::uint64_t address) {
  unsigned char byte = 0;
  must(cuMemcpyDtoH_v2(&byte, address, 1));
  return byte;
}

void fill(std::uint64_t address, unsigned char value, std::uint64_t size) {
  must(cuMemsetD8_v2(address, value, size));
  must(cuCtxSynchronize());
}

CUevent new_shared_event() {
  CUevent event{};
  must(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  return event;
}

CUipcEventHandle handle_of(CUevent event) {
  CUipcEventHandle handle{};
  must(cuIpcGetEventHandle(&handle, event));
  return handle;
}

CUevent open(const CUipcEventHandle& handle) {
  CUevent event{};
  must(cuIpcOpenEventHandle(&event, handle));
  return event;
}

/// Memory of this size, written here, read and written in the other process.
void share(std::uint64_t size) {
  Other other([size](const Channel& channel) {
    const World world(kDevices);
    const auto handle = channel.receive<CUipcMemHandle>();
    const std::uint64_t free = free_memory();
    const std::uint64_t address = open(handle);
    EXPECT(free_memory() < free);
    EXPECT_EQ(open(handle), address);  // the same context: one more opening, the same address
    EXPECT_EQ(first_byte(address), 5);
    EXPECT_EQ(first_byte(address + size - 1), 5);
    EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    EXPECT(error_says("cuIpcCloseMemHandle"));
    CUipcMemHandle again{};
    EXPECT_EQ(cuIpcGetMemHandle(&again, address), CUDA_ERROR_INVALID_VALUE);
    fill(address, 6, size);
    must(cuIpcCloseMemHandle(address));
    EXPECT_EQ(first_byte(address), 6);
    channel.send(true);
    channel.receive<bool>();
    must(cuIpcCloseMemHandle(address));
    EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(free_memory(), free);
    channel.send(true);
  });
  const Channel channel = other.channel();
  const World world(kDevices);
  const std::uint64_t memory = plain(size);
  fill(memory, 5, size);
  channel.send(handle_of(memory));
  channel.receive<bool>();
  EXPECT_EQ(first_byte(memory), 6);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("another process has it open"));
  channel.send(true);
  channel.receive<bool>();
  must(cuMemFree_v2(memory));
  must(memlakeEmulatorCloseDevices(world.first, 2));
}

}  // namespace

PROCESS_TEST(another_process_opens_memory_by_its_handle_and_both_see_the_same_bytes) { share(3 * kMiB); }

PROCESS_TEST(small_memory_is_opened_by_its_handle_as_well) { share(700); }

PROCESS_TEST(a_killed_process_has_nothing_open_and_a_handle_of_freed_memory_is_void) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    const std::uint64_t address = open(channel.receive<CUipcMemHandle>());
    channel.send(address);
    CUdeviceptr stale = 0;
    channel.send(cuIpcOpenMemHandle_v2(&stale, channel.receive<CUipcMemHandle>(), kLazy));
  });
  const Channel channel = other.channel();
  const World world(kDevices);
  const std::uint64_t freed = plain(kMiB);
  const CUipcMemHandle stale = handle_of(freed);
  must(cuMemFree_v2(freed));
  const std::uint64_t memory = plain(kMiB);
  const CUipcMemHandle handle = handle_of(memory);
  EXPECT(std::memcmp(&handle, &stale, sizeof handle) != 0);
  const CUipcMemHandle again = handle_of(memory);
  EXPECT(std::memcmp(&handle, &again, sizeof handle) == 0);
  channel.send(handle);
  channel.receive<std::uint64_t>();
  channel.send(stale);
  EXPECT_EQ(channel.receive<CUresult>(), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_LAUNCH_FAILED);
  other.end();
  must(cuMemFree_v2(memory));
}

PROCESS_TEST(the_importer_keeps_the_bytes_when_the_exporter_is_killed) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    const std::uint64_t memory = plain(kMiB);
    fill(memory, 9, kMiB);
    channel.send(handle_of(memory));
  });
  const Channel channel = other.channel();
  const World world(kDevices);
  const auto handle = channel.receive<CUipcMemHandle>();
  const std::uint64_t address = open(handle);
  other.end();
  EXPECT_EQ(first_byte(address), 9);
  must(cuIpcCloseMemHandle(address));
  CUdeviceptr late = 0;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&late, handle, kLazy), CUDA_ERROR_INVALID_HANDLE);
  EXPECT(error_says("is gone"));
}

PROCESS_TEST(memory_that_was_freed_under_an_importer_stays_until_it_is_closed_where_that_is_allowed) {
  Other other([](const Channel& channel) {
    const World world("memory=256MiB,profile=nvidia");
    const std::uint64_t address = open(channel.receive<CUipcMemHandle>());
    channel.send(true);
    channel.receive<bool>();
    channel.send(first_byte(address));
    must(cuIpcCloseMemHandle(address));
    channel.send(true);
  });
  const Channel channel = other.channel();
  const World world("memory=256MiB,profile=nvidia");
  const std::uint64_t free = free_memory();
  const std::uint64_t memory = plain(2 * kMiB);
  fill(memory, 3, 2 * kMiB);
  channel.send(handle_of(memory));
  channel.receive<bool>();
  must(cuMemFree_v2(memory));
  EXPECT(free_memory() < free);
  fill(plain(2 * kMiB), 4, 2 * kMiB);  // it does not get the bytes that the other process sees
  channel.send(true);
  EXPECT_EQ(channel.receive<unsigned char>(), 3);
  channel.receive<bool>();
  EXPECT_EQ(free_memory(), free - 2 * kMiB);
}

PROCESS_TEST(what_cannot_be_exported_or_opened_is_refused) {
  const World world(kDevices);
  CUipcMemHandle handle{};
  CUdeviceptr address = 0;
  EXPECT_EQ(cuIpcGetMemHandle(&handle, new_mapping(world.first)), CUDA_ERROR_INVALID_VALUE);
  const CUstream stream = new_stream();
  EXPECT_EQ(cuIpcGetMemHandle(&handle, allocate(new_pool(pool_props(world.first)), kMiB, stream)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, 64), CUDA_ERROR_INVALID_VALUE);
  const std::uint64_t memory = plain(kMiB);
  EXPECT_EQ(cuIpcGetMemHandle(nullptr, memory), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, memory + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("is inside an allocation"));
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&address, handle, kLazy), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("no IPC handle"));
  must(cuIpcGetMemHandle(&handle, memory));
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&address, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&address, handle, kLazy), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT(error_says("was made in this process"));
  EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
  CUipcEventHandle as_event{};
  std::memcpy(&as_event, &handle, sizeof handle);
  CUevent event{};
  EXPECT_EQ(cuIpcOpenEventHandle(&event, as_event), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetEventHandle(&as_event, new_event()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  as_event = handle_of(new_shared_event());
  EXPECT_EQ(cuIpcOpenEventHandle(&event, as_event), CUDA_ERROR_INVALID_CONTEXT);
  int is_supported = 0;
  must(cuDeviceGetAttribute(&is_supported, static_cast<CUdevice_attribute>(125), world.first));
  EXPECT_EQ(is_supported, 1);
  const World without("memory=256MiB,backing=none");
  EXPECT_EQ(cuIpcGetMemHandle(&handle, plain(kMiB)), CUDA_ERROR_NOT_SUPPORTED);
}

PROCESS_TEST(a_peer_opens_memory_and_a_device_that_is_no_peer_cannot) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    channel.send(handle_of(plain(kMiB)));
  });
  const Channel channel = other.channel();
  const World world("devices=3,memory=256MiB,peers=011/101/000");
  const auto handle = channel.receive<CUipcMemHandle>();
  world.use(2);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&address, handle, kLazy), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  world.use(1);
  address = open(handle);
  const memlakeEmulatorRange range{address, 64, 1};
  must(memlakeEmulatorLaunch(nullptr, "a kernel of the peer", &range, 1));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  must(cuMemsetD8Async(address, 1, 64, nullptr));
  EXPECT_EQ(cuIpcCloseMemHandle(address), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("the host has not waited for"));
  must(cuCtxSynchronize());
  must(cuIpcCloseMemHandle(address));
}

PROCESS_TEST(a_stream_waits_for_an_event_that_another_process_records) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    const CUstream stream = new_stream();
    const CUevent event = open(channel.receive<CUipcEventHandle>());
    EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);  // never recorded
    const std::uint64_t gate = hold(stream);
    must(cuEventRecord(event, stream));
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    channel.send(true);
    channel.receive<bool>();
    must(memlakeEmulatorOpen(gate));
    must(cuEventSynchronize(event));
    channel.receive<bool>();
    must(cuEventSynchronize(event));  // of the first process's record
    channel.send(true);
  });
  const Channel channel = other.channel();
  const World world(kDevices);
  const CUstream stream = new_stream();
  const CUevent event = new_shared_event();
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, event, event), CUDA_ERROR_INVALID_HANDLE);
  channel.send(handle_of(event));
  channel.receive<bool>();
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  must(cuStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  channel.send(true);
  must(cuStreamSynchronize(stream));
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  must(cuEventRecord(event, stream));
  channel.send(true);
  channel.receive<bool>();
}

PROCESS_TEST(a_record_dies_with_its_process_and_waits_for_it_end) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    const CUstream stream = new_stream();
    const CUevent event = open(channel.receive<CUipcEventHandle>());
    hold(stream);
    must(cuEventRecord(event, stream));
    channel.send(true);
  });
  const Channel channel = other.channel();
  const World world(kDevices);
  const CUstream stream = new_stream();
  const CUevent event = new_shared_event();
  channel.send(handle_of(event));
  channel.receive<bool>();
  must(cuStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  other.end();
  must(cuStreamSynchronize(stream));
  must(cuEventSynchronize(event));
}

PROCESS_TEST(an_event_that_its_maker_destroyed_is_a_violation_for_the_others) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    const auto handle = channel.receive<CUipcEventHandle>();
    const CUevent event = open(handle);
    channel.send(true);
    channel.receive<bool>();
    EXPECT_EQ(cuEventRecord(event, new_stream()), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT(violation_says("has destroyed it"));
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_LAUNCH_FAILED);
    must(cuEventDestroy_v2(event));
    CUevent late{};
    EXPECT_EQ(cuIpcOpenEventHandle(&late, handle), CUDA_ERROR_INVALID_HANDLE);
    channel.send(true);
  });
  const Channel channel = other.channel();
  const World world(kDevices);
  const CUevent event = new_shared_event();
  channel.send(handle_of(event));
  channel.receive<bool>();
  must(cuEventDestroy_v2(event));
  channel.send(true);
  channel.receive<bool>();
}

PROCESS_TEST(order_is_known_over_another_process) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    const CUstream stream = new_stream();
    must(cuStreamWaitEvent(stream, open(channel.receive<CUipcEventHandle>()), 0));
    must(cuEventRecord(open(channel.receive<CUipcEventHandle>()), stream));
    channel.send(true);
  });
  const Channel channel = other.channel();
  const World world(kDevices);
  const CUstream stream = new_stream();
  const CUstream behind = new_stream();
  const CUevent there = new_shared_event();
  const CUevent back = new_shared_event();
  const std::uint64_t memory = allocate(new_pool(pool_props(world.first)), kMiB, stream);
  must(cuMemsetD8Async(memory, 1, kMiB, stream));
  must(cuEventRecord(there, stream));
  channel.send(handle_of(there));
  channel.send(handle_of(back));
  channel.receive<bool>();
  EXPECT_EQ(cuMemFreeAsync(memory, behind), CUDA_ERROR_LAUNCH_FAILED);
  must(cuStreamWaitEvent(behind, back, 0));
  must(cuMemFreeAsync(memory, behind));
}

PROCESS_TEST(a_step_of_a_manual_stream_waits_for_no_other_process) {
  Other other([](const Channel& channel) {
    const World world(kDevices);
    const CUstream stream = new_stream();
    const CUevent event = open(channel.receive<CUipcEventHandle>());
    const std::uint64_t gate = hold(stream);
    must(cuEventRecord(event, stream));
    channel.send(true);
    channel.receive<bool>();
    must(memlakeEmulatorOpen(gate));
    must(cuStreamSynchronize(stream));
    channel.send(true);
  });
  const Channel channel = other.channel();
  const World world("devices=2,memory=256MiB,streams=manual");
  const CUstream stream = new_stream();
  const CUevent event = new_shared_event();
  channel.send(handle_of(event));
  channel.receive<bool>();
  must(cuStreamWaitEvent(stream, event, 0));
  std::size_t ran = 7;
  must(memlakeEmulatorStep(stream, 1, &ran));
  EXPECT_EQ(ran, 0U);
  channel.send(true);
  channel.receive<bool>();
  must(memlakeEmulatorStep(stream, 1, &ran));
  EXPECT_EQ(ran, 1U);
}

}  // namespace memlake::test
