#pragma once

// The cost of driver calls on a real device, in microseconds: a model for comparing policies without a device.
// cuMemUnmap and cuMemSetAccess cost per handle, not per byte. Calls that are not listed (events, waits, queries,
// copies) are counted and cost nothing. Figures are of an A100 where the source says so:
//   [kvcached]   its benchmark of 2 MiB chunks on an A100
//   [vAttention] table 3 of the paper, per 2 MB call
//   [traces]     time stamps of real PyTorch memory snapshots

#include "base/bytes.hpp"

namespace memlake::cost {

inline constexpr double create = 30;         ///< [vAttention] 29 for 2 MB; [kvcached] saw up to 193 on a busy machine
inline constexpr double create_per_mib = 2;  ///< [traces] 61-200 for create + map + set access of a 20 MiB page
inline constexpr double map = 2;             ///< [vAttention] 2, [kvcached] 1.45
inline constexpr double set_access_per_handle = 36;  ///< times descriptors: [kvcached] 36, [vAttention] 38
inline constexpr double unmap_per_handle = 30;       ///< between [kvcached] 25.6 and [vAttention] 34
inline constexpr double release = 10;  ///< unmap + release of a 20 MiB page took 60-67 in [traces]; [vAttention] 23
inline constexpr double address_reserve = 3;  ///< [vAttention] 2; flat in the size
inline constexpr double address_free = 3;     ///< [vAttention] 1
inline constexpr double alloc = 100;          ///< cudaMalloc, [traces] 80-120 on A100 and H100
inline constexpr double free = 92;            ///< cudaFree, [traces] 92

constexpr double create_of(Bytes size) {
  return create + create_per_mib * static_cast<double>(size.count) / static_cast<double>(MiB.count);
}

}  // namespace memlake::cost
