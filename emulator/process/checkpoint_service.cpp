#include "process/checkpoint_service.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "process/driver.hpp"
#include "system/ipc_handle.hpp"
#include "system/signals_blocked.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint32_t kMagic = 0x6D6C6B01;  // of this version of the messages

struct Question {
  std::uint32_t magic;
  CheckpointAction action;
  std::uint32_t milliseconds;
  std::uint32_t count;
  CUcheckpointGpuPair pairs[kMostGpuPairs];
};
constexpr std::size_t kQuestionBytes = offsetof(Question, pairs);

struct Answer {
  std::uint32_t magic;
  std::int32_t code;
  std::int32_t value;
  char sentence[500];
};

int g_listening = -1;
std::atomic<int> g_restore_thread = 0;

/// The address of a process's socket: a name without a file, so that nothing stays behind. Numbers of processes are
/// unique only within their namespace, so the name has the namespace, too.
struct Address {
  sockaddr_un name{};
  socklen_t size;

  explicit Address(pid_t process) {
    struct stat space{};
    stat("/proc/self/ns/pid", &space);
    const std::string words = text("memlake-emulator.", space.st_ino, ".", process);
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path + 1, words.data(), words.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + words.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

/// The process and the user at the other end.
ucred peer_of(int socket) {
  ucred found{};
  socklen_t size = sizeof found;
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &size);
  return found;
}

Answer answer_to(const Question& question) {
  Answer answer{.magic = kMagic, .code = CUDA_SUCCESS, .value = 0, .sentence = {}};
  try {
    Driver& driver = Driver::instance();
    Lock lock(driver.mutex);
    answer.value = perform(
        driver, lock,
        {.action = question.action, .milliseconds = question.milliseconds, .pairs = {question.pairs, question.count}});
  } catch (const Refusal& refusal) {
    answer.code = refusal.code;
    std::strncpy(answer.sentence, refusal.sentence.c_str(), sizeof answer.sentence - 1);
  }
  return answer;
}

void serve(int connection) {
  const OwnedFile owned(connection);
  if (const uid_t user = peer_of(connection).uid; user != geteuid() && user != 0) return;
  Question question{};
  const ssize_t size = recv(connection, &question, sizeof question, 0);
  if (size < static_cast<ssize_t>(kQuestionBytes) || question.magic != kMagic || question.count > kMostGpuPairs ||
      static_cast<std::size_t>(size) != kQuestionBytes + question.count * sizeof(CUcheckpointGpuPair))
    return;
  const Answer answer = answer_to(question);
  send(connection, &answer, sizeof answer, MSG_NOSIGNAL);
}

void listen_for_requests(int listening) {
  g_restore_thread = gettid();
  while (true) {
    const int connection = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    // A thread for each, because a lock may wait for long, and other requests meanwhile ask for the state.
    try {
      std::thread(serve, connection).detach();
    } catch (const std::system_error&) {
      close(connection);
    }
  }
}

[[noreturn]] void refuse_unreachable(pid_t process) {
  if (kill(process, 0) != 0 && errno == ESRCH) invalid("there is no process ", process);
  refuse(CUDA_ERROR_NOT_INITIALIZED, "process ", process, " has not called cuInit of an emulated driver");
}

}  // namespace

int perform(Driver& driver, Lock& lock, const CheckpointRequest& request) {
  Checkpoint& checkpoint = driver.checkpoint;
  switch (request.action) {
    case CheckpointAction::get_state:
      return static_cast<int>(checkpoint.state());
    case CheckpointAction::get_restore_thread:
      if (g_restore_thread == 0)
        refuse(CUDA_ERROR_NOT_SUPPORTED,
               "the process has no restore thread: it adds its devices itself, or the system ", "refused one");
      return g_restore_thread;
    case CheckpointAction::lock: {
      std::optional<std::chrono::milliseconds> time;
      if (request.milliseconds != 0) time.emplace(request.milliseconds);
      checkpoint.close(lock, driver.streams, driver.in_flight, driver.changed, time);
      return 0;
    }
    case CheckpointAction::checkpoint:
      checkpoint.save();
      return 0;
    case CheckpointAction::restore:
      checkpoint.restore(driver.devices, request.pairs);
      return 0;
    case CheckpointAction::unlock:
      checkpoint.open();
      return 0;
  }
  invalid("there is no action ", static_cast<int>(request.action));
}

int ask_process(pid_t process, const CheckpointRequest& request) {
  const OwnedFile connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const Address address(process);
  if (connection.fd() < 0) refuse(CUDA_ERROR_OPERATING_SYSTEM, "the system gives no socket: ", std::strerror(errno));
  if (connect(connection.fd(), address.get(), address.size) != 0) refuse_unreachable(process);
  // Another process could have taken the name.
  if (peer_of(connection.fd()).pid != process) refuse_unreachable(process);
  Question question{.magic = kMagic,
                    .action = request.action,
                    .milliseconds = request.milliseconds,
                    .count = static_cast<std::uint32_t>(request.pairs.size()),
                    .pairs = {}};
  std::copy(request.pairs.begin(), request.pairs.end(), question.pairs);
  const std::size_t bytes = kQuestionBytes + request.pairs.size() * sizeof(CUcheckpointGpuPair);
  if (send(connection.fd(), &question, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) refuse_unreachable(process);
  Answer answer{};
  ssize_t size = 0;
  do {
    size = recv(connection.fd(), &answer, sizeof answer, 0);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof answer || answer.magic != kMagic)
    invalid("process ", process, " ended, or belongs to another user");
  if (answer.code != CUDA_SUCCESS) throw Refusal{static_cast<CUresult>(answer.code), answer.sentence};
  return answer.value;
}

void start_restore_thread() {
  OwnedFile listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const Address address(getpid());
  if (listening.fd() < 0 || bind(listening.fd(), address.get(), address.size) != 0 || listen(listening.fd(), 16) != 0)
    return;
  const SignalsBlocked scope;
  try {
    std::thread(listen_for_requests, listening.fd()).detach();
  } catch (const std::system_error&) {
    return;
  }
  g_listening = listening.release();
}

void forget_restore_thread() {
  if (g_listening >= 0) close(std::exchange(g_listening, -1));
  g_restore_thread = 0;
}

}  // namespace memlake::emulator
