// The ledger as JSON: well-formed whatever the names in it are.

#include <dlfcn.h>

#include <atomic>
#include <cctype>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "abi.hpp"
#include "basics/json.hpp"

namespace memlake::test {

namespace {

/// Reads one JSON value from the front of a text; throws where it is not one. Numbers are integers.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  void read_all() {
    value();
    if (!text_.empty()) wrong();
  }

  std::string string() {
    expect('"');
    std::string content;
    while (peek() != '"') {
      const char c = take();
      if (static_cast<unsigned char>(c) < 0x20) wrong();
      if (c != '\\') {
        content += c;
        continue;
      }
      const char escaped = take();
      if (escaped == 'u') {
        for (int i = 0; i < 4; ++i)
          if (std::isxdigit(static_cast<unsigned char>(take())) == 0) wrong();
        content += '?';
      } else {
        content += escaped;
      }
    }
    expect('"');
    return content;
  }

 private:
  [[noreturn]] void wrong() const { throw std::runtime_error("not JSON at: " + std::string(text_.substr(0, 60))); }
  char peek() const {
    if (text_.empty()) wrong();
    return text_.front();
  }
  char take() {
    const char c = peek();
    text_.remove_prefix(1);
    return c;
  }
  void expect(char c) {
    if (take() != c) wrong();
  }

  template <class Element>
  void list(char close, Element&& element) {
    take();
    while (peek() != close) {
      element();
      if (peek() != ',') break;
      take();
      if (peek() == close) wrong();
    }
    expect(close);
  }

  void value() {
    if (peek() == '{') {
      list('}', [this] {
        string();
        expect(':');
        value();
      });
    } else if (peek() == '[') {
      list(']', [this] { value(); });
    } else if (peek() == '"') {
      string();
    } else if (text_.starts_with("true") || text_.starts_with("false")) {
      text_.remove_prefix(peek() == 't' ? 4 : 5);
    } else {
      if (peek() == '-') take();
      if (std::isdigit(static_cast<unsigned char>(peek())) == 0) wrong();
      while (!text_.empty() && std::isdigit(static_cast<unsigned char>(text_.front())) != 0) text_.remove_prefix(1);
    }
  }

  std::string_view text_;
};

std::string quoted(std::string_view text) {
  emulator::Json json;
  json.value(text);
  return json.take();
}

}  // namespace

TEST(text_in_json_is_escaped_and_is_utf8) {
  EXPECT_EQ(quoted("plain"), "\"plain\"");
  EXPECT_EQ(quoted("\"\\/"), "\"\\\"\\\\/\"");
  EXPECT_EQ(quoted("a\n\t\x01"), "\"a\\u000a\\u0009\\u0001\"");
  EXPECT_EQ(quoted("Größe \xE2\x82\xAC \xF0\x9F\x98\x80"), "\"Größe \xE2\x82\xAC \xF0\x9F\x98\x80\"");
  for (const std::string_view bad : {"\xff", "\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                                     "\xc3", "\xe2\x82", "\xf4\x90\x80\x80"}) {
    const std::string text = quoted(bad);
    EXPECT(text.starts_with("\"\\ufffd"));
    for (const char c : text) EXPECT(static_cast<unsigned char>(c) < 0x80);
  }
  EXPECT_EQ(quoted("\xe2\x82X"), "\"\\ufffd\\ufffdX\"");
}

PROCESS_TEST(the_ledger_is_json_with_the_oddest_names) {
  for (const std::string name : {"", "\"", "\\", "{[", "a\nb", "tab\t", "\xff\xfe", "Größe", "=", "'; DROP TABLE"}) {
    int first = 0;
    int count = 0;
    must(memlakeEmulatorAddDevices(("backing=none,memory=64MiB,name=" + name).c_str(), &first, &count));
  }
  const World world;
  const std::uint64_t mapped = new_mapping(world.first);
  const CUstream stream = new_stream();
  const std::uint64_t gate = hold(stream);
  const memlakeEmulatorRange range{mapped, 512, 1};
  must(memlakeEmulatorLaunch(stream, "odd \"kernel\" \xff\n", &range, 1));
  EXPECT_EQ(cuMemUnmap(mapped, kGranule), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("odd \"kernel\""));
  const std::string text = ledger();
  Reader(text).read_all();
  EXPECT(text.find("\"profile\":\"strict\"") != std::string::npos);
  must(memlakeEmulatorOpen(gate));
}

PROCESS_TEST(the_ledger_does_not_grow_by_devices_that_were_closed) {
  const World world("backing=none,memory=64MiB");
  const std::size_t before = ledger().size();
  for (int i = 0; i < 100; ++i) {
    int first = 0;
    int count = 0;
    must(memlakeEmulatorAddDevices("backing=none,memory=64MiB,name=closed", &first, &count));
    must(memlakeEmulatorCloseDevices(first, 1));
  }
  EXPECT(ledger().find("closed") == std::string::npos);
  EXPECT_EQ(ledger().size(), before);
}

PROCESS_TEST(the_ledger_says_how_much_room_it_needs_and_writes_nothing_into_less) {
  const World world("backing=none,memory=64MiB");
  EXPECT_EQ(memlakeEmulatorLedger(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  std::size_t needed = 0;
  must(memlakeEmulatorLedger(nullptr, &needed));
  std::string buffer(needed, 'x');
  std::size_t size = needed - 1;
  EXPECT_EQ(memlakeEmulatorLedger(buffer.data(), &size), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(size, needed);
  EXPECT(buffer == std::string(needed, 'x'));
  must(memlakeEmulatorLedger(buffer.data(), &size));
  EXPECT_EQ(buffer[needed - 1], '\0');
  buffer.resize(needed - 1);
  Reader(buffer).read_all();
}

PROCESS_TEST(resetting_the_ledger_forgets_what_happened_and_keeps_what_exists) {
  const World world("backing=none,memory=64MiB");
  new_mapping(world.first);
  EXPECT_EQ(cuMemRelease(0xE000000000009999), CUDA_ERROR_INVALID_VALUE);
  EXPECT(ledger().find("was never given out") != std::string::npos);
  must(memlakeEmulatorResetLedger());
  const std::string text = ledger();
  EXPECT(text.find("\"violations\":[]") != std::string::npos);
  EXPECT(text.find("\"cuMemMap\"") != std::string::npos && text.find("\"calls\":{}") != std::string::npos);
  Reader(text).read_all();
}

PROCESS_TEST(the_ledger_is_written_while_libraries_that_call_the_driver_are_loaded) {
  const World world("backing=none,memory=64MiB");
  std::atomic<bool> may_end = false;
  std::thread writer([&] {
    world.use(0);
    while (!may_end) {
      const std::uint64_t mapped = new_mapping(world.first);
      EXPECT(ledger().find("emulator_tests+0x") != std::string::npos);
      must(cuMemUnmap(mapped, kGranule));
      must(cuMemAddressFree(mapped, kGranule));
    }
  });
  for (int i = 0; i < 300; ++i) {
    void* library = dlopen(CALLS_WHILE_LOADING, RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != nullptr);
    if (library != nullptr) dlclose(library);
  }
  may_end = true;
  writer.join();
}

}  // namespace memlake::test
