// Replays a trace through the core, without Python: for counting instructions.
//
// usage: replay_rows LIBRARY FILE POLICY CAPACITY PASSES
// FILE has the number of rows and then their columns, as benchmarks/replay_speed.py writes them.

#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "driver/library.hpp"
#include "policies/direct/direct_rules.hpp"
#include "policies/torch/torch_rules.hpp"
#include "replay/replay.hpp"
#include "replay/replay_device.hpp"

using namespace memlake;

namespace {

template <class T>
std::vector<T> read_column(std::ifstream& file, std::uint64_t rows) {
  std::vector<T> column(rows);
  file.read(reinterpret_cast<char*>(column.data()), static_cast<std::streamsize>(rows * sizeof(T)));
  return column;
}

std::unique_ptr<SegmentRules> make_policy(std::string_view name) {
  if (name == "direct") return std::make_unique<DirectRules>();
  TorchOptions options;
  options.is_expandable = name == "expandable";
  return std::make_unique<TorchRules>(options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: replay_rows LIBRARY FILE POLICY CAPACITY PASSES\n");
    return 2;
  }
  Library& library = Library::load(argv[1]);
  std::ifstream file(argv[2], std::ios::binary);
  const auto rows = read_column<std::uint64_t>(file, 1).front();
  const auto bytes = read_column<std::uint64_t>(file, rows);
  const auto id = read_column<std::uint32_t>(file, rows);
  const auto wide_stream = read_column<std::uint16_t>(file, rows);
  const auto op = read_column<std::uint8_t>(file, rows);
  if (!file) {
    std::fprintf(stderr, "%s is too short\n", argv[2]);
    return 2;
  }
  const std::vector<std::remove_const_t<decltype(TraceColumns::stream)::element_type>> stream(wide_stream.begin(),
                                                                                              wide_stream.end());
  for (long pass = 0; pass < std::stol(argv[5]); ++pass) {
    ReplayDevice device(library, {std::stoull(argv[4])});
    TraceEvents events(EventMode::immediate, 0);
    Pool pool(device.device(), make_policy(argv[3]), events, TorchOptions::kUnlimited);
    const ReplayOutcome outcome = replay({op, id, bytes, stream}, pool, events, {});
    std::printf("%.1f\n", outcome.cpu_seconds * 1e9 / static_cast<double>(rows));
  }
  return 0;
}
