#pragma once

// CostModel: the cost of driver calls on a real device, in microseconds, for comparing policies without a device.
// cuMemUnmap and cuMemSetAccess cost per handle, not per byte. Calls that are not listed (events, waits, queries,
// copies) are counted and cost nothing. The default figures are of an A100 where the source says so:
//   [kvcached]   its benchmark of 2 MiB chunks on an A100
//   [vAttention] table 3 of the paper, per 2 MB call
//   [traces]     time stamps of real PyTorch memory snapshots
// A report that was measured on a GPU can replace them (set_cost_model).

#include "base/bytes.hpp"

namespace memlake {

struct CostModel {
  double create = 30;                 ///< [vAttention] 29 for 2 MB; [kvcached] saw up to 193 on a busy machine
  double create_per_mib = 2;          ///< [traces] 61-200 for create + map + set access of a 20 MiB page
  double map = 2;                     ///< [vAttention] 2, [kvcached] 1.45
  double set_access_per_handle = 36;  ///< times descriptors: [kvcached] 36, [vAttention] 38
  double unmap_per_handle = 30;       ///< between [kvcached] 25.6 and [vAttention] 34
  double release = 10;                ///< unmap + release of a 20 MiB page took 60-67 in [traces]; [vAttention] 23
  double address_reserve = 3;         ///< [vAttention] 2; flat in the size
  double address_free = 3;            ///< [vAttention] 1
  double alloc = 100;                 ///< cudaMalloc, [traces] 80-120 on A100 and H100
  double free = 92;                   ///< cudaFree, [traces] 92

  [[nodiscard]] double create_of(Bytes size) const {
    return create + create_per_mib * static_cast<double>(size.count) / static_cast<double>(MiB.count);
  }
};

struct NamedCost {
  const char* name;
  double CostModel::* member;
};

inline constexpr NamedCost kCosts[] = {
    {"create", &CostModel::create},
    {"create_per_mib", &CostModel::create_per_mib},
    {"map", &CostModel::map},
    {"set_access_per_handle", &CostModel::set_access_per_handle},
    {"unmap_per_handle", &CostModel::unmap_per_handle},
    {"release", &CostModel::release},
    {"address_reserve", &CostModel::address_reserve},
    {"address_free", &CostModel::address_free},
    {"alloc", &CostModel::alloc},
    {"free", &CostModel::free},
};

/// The model of counters that are made from now on, in the whole process.
void set_cost_model(const CostModel& model);
[[nodiscard]] CostModel cost_model();

}  // namespace memlake
