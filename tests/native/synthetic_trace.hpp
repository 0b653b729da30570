#pragma once

// A trace made by a fixed rule, so that its figures can be kept: sizes from 512 bytes to 200 MiB, three streams, uses
// on other streams. It was also run through torch 2.13.0's own library; test_torch_policy.cpp has what that answered.

#include <cstdint>
#include <vector>

#include "replay/replay.hpp"

namespace memlake::test {

struct SyntheticTrace {
  std::vector<std::uint8_t> op;
  std::vector<std::uint32_t> id;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint16_t> stream;

  explicit SyntheticTrace(std::size_t rows);

  [[nodiscard]] TraceColumns columns() const { return {op, id, bytes, stream}; }

 private:
  void add(TraceColumns::Op what, std::uint32_t which, std::uint64_t size, std::uint16_t where);
};

}  // namespace memlake::test
