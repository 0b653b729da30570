#include "synthetic_trace.hpp"

namespace memlake::test {

namespace {

/// xorshift64: the same numbers everywhere.
class Numbers {
 public:
  std::uint64_t below(std::uint64_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % limit;
  }

 private:
  std::uint64_t state_ = 88172645463325252ULL;
};

std::uint64_t some_size(Numbers& numbers) {
  switch (numbers.below(10)) {
    case 0:
      return 10 * MiB.count + numbers.below(190 * MiB.count);
    case 1:
    case 2:
      return MiB.count + numbers.below(9 * MiB.count);
    case 3:
      return 512 * (1 + numbers.below(8));
    default:
      return 1 + numbers.below(MiB.count + MiB.count / 4);
  }
}

}  // namespace

void SyntheticTrace::add(TraceColumns::Op what, std::uint32_t which, std::uint64_t size, std::uint16_t where) {
  op.push_back(what);
  id.push_back(which);
  bytes.push_back(size);
  stream.push_back(where);
}

SyntheticTrace::SyntheticTrace(std::size_t rows) {
  Numbers numbers;
  std::vector<std::uint32_t> live;
  std::uint32_t next = 0;
  while (op.size() < rows) {
    // The number of live allocations breathes between about 40 and 200.
    const std::uint64_t wanted = 40 + (op.size() / 400 % 5) * 40;
    if (live.size() < wanted || numbers.below(3) == 0) {
      const auto where = static_cast<std::uint16_t>(numbers.below(8) < 6 ? 0 : 1 + numbers.below(2));
      add(TraceColumns::allocate, next, some_size(numbers), where);
      live.push_back(next++);
    } else {
      const std::size_t at = numbers.below(live.size());
      if (numbers.below(10) == 0)
        add(TraceColumns::record_stream, live[at], 0, static_cast<std::uint8_t>(numbers.below(3)));
      add(TraceColumns::free, live[at], 0, 0);
      live[at] = live.back();
      live.pop_back();
    }
  }
}

}  // namespace memlake::test
