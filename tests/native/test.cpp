#include "test.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>
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

int run_tests(const Part& part, const std::vector<std::string>& filters) {
  int passed = 0;
  int failed = 0;
  for (std::size_t i = part.number - 1; i < tests().size(); i += part.count) {
    const Test& test = tests()[i];
    const auto is_in_name = [&](const std::string& filter) {
      return std::string_view(test.name).find(filter) != std::string_view::npos;
    };
    if (!filters.empty() && std::ranges::none_of(filters, is_in_name)) continue;
    run(test);
    ++(has_failed ? failed : passed);
  }
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace memlake::test

/// The arguments are parts of names; tests with one of them in their name are run, or all. Before them may stand
/// `--part 2/4`: every fourth test from the second on, so that four processes share the work.
int main(int argc, char** argv) {
  memlake::test::Part part;
  std::vector<std::string> filters(argv + 1, argv + argc);
  if (filters.size() >= 2 && filters[0] == "--part") {
    const bool is_read = std::sscanf(filters[1].c_str(), "%zu/%zu", &part.number, &part.count) == 2;
    if (!is_read || part.number == 0 || part.number > part.count) {
      std::cerr << "--part needs a number and a count, for instance 2/4; got " << filters[1] << "\n";
      return 2;
    }
    filters.erase(filters.begin(), filters.begin() + 2);
  }
  return memlake::test::run_tests(part, filters);
}
