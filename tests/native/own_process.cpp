#include "own_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

namespace memlake::test {

std::ostream& operator<<(std::ostream& out, const Ended& ended) {
  if (ended.signal != 0) return out << "signal " << ended.signal;
  return out << "exit code " << ended.code;
}

Ended run_in_child(const std::function<void()>& body, Leaves leaves) {
  std::cout.flush();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("the system cannot fork");
  if (child == 0) {
    bool is_good = true;
    try {
      body();
    } catch (const std::exception& error) {
      is_good = false;
      std::cout << "  threw: " << error.what() << "\n";
    }
    std::cout.flush();
    const int code = is_good && !running_test_has_failed() ? 0 : 1;
    leaves == Leaves::by_exit ? std::exit(code) : std::_Exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {-1, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

void in_own_process(const std::function<void()>& body) {
  EXPECT_EQ(run_in_child(body, Leaves::by_exit), Ended({0, 0}));
}

}  // namespace memlake::test
