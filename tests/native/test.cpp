#include "test.hpp"

#include <exception>
#include <vector>

namespace memlake::test {
namespace {

struct Test {
  const char* name;
  void (*body)();
};

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

bool has_failed = false;

void run(const Test& test) {
  has_failed = false;
  try {
    test.body();
  } catch (const std::exception& error) {
    has_failed = true;
    std::cout << "  " << test.name << " threw: " << error.what() << "\n";
  }
  std::cout << (has_failed ? "FAILED " : "ok     ") << test.name << std::endl;
}

}  // namespace

int add_test(const char* name, void (*body)()) {
  tests().push_back({name, body});
  return 0;
}

void fail(const std::string& text, std::source_location where) {
  has_failed = true;
  std::cout << "  " << where.file_name() << ":" << where.line() << ": " << text << "\n";
}

bool running_test_has_failed() { return has_failed; }

int run_tests(const std::string& filter) {
  int passed = 0;
  int failed = 0;
  for (const Test& test : tests()) {
    if (std::string(test.name).find(filter) == std::string::npos) continue;
    run(test);
    ++(has_failed ? failed : passed);
  }
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace memlake::test

int main(int argc, char** argv) { return memlake::test::run_tests(argc > 1 ? argv[1] : ""); }
