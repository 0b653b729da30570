#pragma once

// What all functions that take a batch of operations check alike.

#include <vector>

#include "entries/entry.hpp"

namespace memlake::emulator {

/// The stream of a batch. Throws Refusal for the legacy default stream, which CUDA excludes.
inline Stream& stream_of_batch(Session& session, CUstream handle) {
  Stream& stream = session.driver.streams.find(handle);
  if (stream.kind == Stream::Kind::legacy) invalid("a batch cannot run in the legacy default stream");
  return stream;
}

/// For each of `count` operations the index of the entry that applies to it. Entry k applies from operation starts[k]
/// to the next entry's start. Throws Refusal.
inline std::vector<size_t> entries_of_batch(size_t count, const size_t* starts, size_t number, const char* name) {
  required(starts, name);
  if (number == 0 || number > count) invalid("there are ", number, " entries for ", count, " operations");
  if (starts[0] != 0) invalid(name, "[0] is ", starts[0], ", not 0");
  for (size_t i = 1; i < number; ++i)
    if (starts[i] <= starts[i - 1] || starts[i] >= count)
      invalid(name, "[", i, "] is ", starts[i], "; the entries must grow and stay below ", count);
  std::vector<size_t> entries;
  for (size_t i = 0, entry = 0; i < count; ++i) {
    if (entry + 1 < number && starts[entry + 1] == i) ++entry;
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace memlake::emulator
