// Plays a trace through memlake_torch_malloc() and memlake_torch_free(), found by name as PyTorch finds them.
//
// usage: abi_rows LIBRARY TRACE PASSES
// The pool is described by MEMLAKE_CONF. TRACE has a line per operation: "a ID BYTES STREAM" and "f ID"; others, and
// streams, are left out, as the default stream is what is measured. Prints the nanoseconds of thread CPU time per
// operation, one line per pass; what is live at the end of a pass is freed between the passes.

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "loaded_library.hpp"
#include "memlake.h"

namespace {

struct Row {
  std::uint32_t id;
  bool is_free;
  std::uint64_t bytes;
};

struct Rows {
  std::vector<Row> rows;
  std::size_t ids;
};

Rows read(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "%s cannot be read\n", path);
    std::exit(2);
  }
  Rows read{};
  std::unordered_map<std::string, std::uint32_t> ids;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string op;
    std::string id;
    std::uint64_t bytes = 0;
    words >> op >> id >> bytes;
    if (op != "a" && op != "f") continue;
    const auto number = ids.emplace(id, static_cast<std::uint32_t>(ids.size())).first->second;
    read.rows.push_back({number, op == "f", bytes});
  }
  read.ids = ids.size();
  return read;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: abi_rows LIBRARY TRACE PASSES\n");
    return 2;
  }
  const LoadedLibrary library(argv[1]);
  const auto torch_malloc = library.find<decltype(memlake_torch_malloc)>("memlake_torch_malloc");
  const auto torch_free = library.find<decltype(memlake_torch_free)>("memlake_torch_free");
  const auto last_error = library.find<decltype(memlake_last_error)>("memlake_last_error");
  const Rows trace = read(argv[2]);
  std::vector<void*> pointers(trace.ids);
  std::vector<std::uint64_t> sizes(trace.ids);
  const auto free_one = [&](std::uint32_t id) {
    if (pointers[id] != nullptr) torch_free(pointers[id], static_cast<ssize_t>(sizes[id]), 0, nullptr);
    pointers[id] = nullptr;
  };
  for (long pass = 0; pass < std::stol(argv[3]); ++pass) {
    const double begin = thread_nanoseconds();
    for (const Row& row : trace.rows) {
      if (row.is_free) {
        free_one(row.id);
        continue;
      }
      pointers[row.id] = torch_malloc(static_cast<ssize_t>(row.bytes), 0, nullptr);
      sizes[row.id] = row.bytes;
      if (pointers[row.id] == nullptr && row.bytes > 0) {
        std::fprintf(stderr, "%s\n", last_error());
        return 1;
      }
    }
    std::printf("%.1f\n", (thread_nanoseconds() - begin) / static_cast<double>(trace.rows.size()));
    for (std::uint32_t id = 0; id < trace.ids; ++id) free_one(id);
  }
  return 0;
}
