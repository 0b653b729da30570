#include "devices/sm_resource.hpp"

#include <algorithm>
#include <cstring>

namespace memlake::emulator {

namespace {

// Compute capability 8.x: at least four multiprocessors, in pairs.
constexpr unsigned kLeastPartition = 4;
constexpr unsigned kAlignment = 2;
constexpr std::uint64_t kMark = 0x6D65'6D6C'616B'6521;

/// What the driver keeps in CUdevResource::internal.
struct Internal {
  std::uint64_t mark;
  std::int32_t device;
  SmResource::Part part;
  std::uint64_t split;
  unsigned char set[(kMultiprocessors + 7) / 8];
};
static_assert(sizeof(Internal) <= sizeof(CUdevResource::internal));

/// Takes the first `count` members out of a set.
Multiprocessors take(Multiprocessors& from, unsigned count) {
  Multiprocessors taken;
  for (std::size_t at = 0; at < from.size() && taken.count() < count; ++at) taken.set(at, from.test(at));
  from &= ~taken;
  return taken;
}

}  // namespace

CUdevResource SmResource::to_program() const {
  CUdevResource told{};
  if (set.none()) return told;
  told.type = CU_DEV_RESOURCE_TYPE_SM;
  told.sm = {static_cast<unsigned>(set.count()), kLeastPartition, kAlignment, 0};
  Internal internal{.mark = kMark, .device = device, .part = part, .split = split, .set = {}};
  for (std::size_t at = 0; at < set.size(); ++at)
    if (set.test(at)) internal.set[at / 8] |= static_cast<unsigned char>(1U << at % 8);
  std::memcpy(told.internal, &internal, sizeof(internal));
  return told;
}

SmResource SmResource::from_program(const CUdevResource& resource) {
  if (resource.type != CU_DEV_RESOURCE_TYPE_SM)
    refuse(CUDA_ERROR_INVALID_RESOURCE_TYPE, "the type of the resource is ", resource.type, ", not 1 (SM)");
  Internal internal;
  std::memcpy(&internal, resource.internal, sizeof(internal));
  SmResource found{.device = internal.device, .set = {}, .part = internal.part, .split = internal.split};
  for (std::size_t at = 0; at < found.set.size(); ++at) found.set.set(at, (internal.set[at / 8] >> at % 8 & 1U) != 0);
  if (internal.mark != kMark || internal.part > Part::remainder || found.set.count() != resource.sm.smCount)
    invalid("the resource was not made by the driver, or the program has changed it");
  return found;
}

SmSplit split(const SmResource& whole, unsigned groups, unsigned least, unsigned flags, std::uint64_t number) {
  const auto available = static_cast<unsigned>(whole.set.count());
  if ((flags & ~CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0)
    invalid("flags ", flags, ": a device of compute capability 8.0 knows only 1 (IGNORE_SM_COSCHEDULING)");
  if (whole.part == SmResource::Part::group)
    refuse(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
           "a group of a split cannot be split again; make a green context of it, and split that one's resource");
  if (least > available) invalid("groups of ", least, " multiprocessors were asked of ", available);
  const unsigned smallest =
      (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0 ? kAlignment : kLeastPartition;
  const unsigned size = std::max(smallest, (least + kAlignment - 1) / kAlignment * kAlignment);
  if (size > available)
    refuse(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "a group has at least ", size, " multiprocessors, and only ",
           available, " are there");
  SmSplit made{
      .groups = {},
      .remainder = {.device = whole.device, .set = whole.set, .part = SmResource::Part::remainder, .split = number}};
  for (unsigned at = 0; at < std::min(groups, available / size); ++at)
    made.groups.push_back({.device = whole.device,
                           .set = take(made.remainder.set, size),
                           .part = SmResource::Part::group,
                           .split = number});
  return made;
}

SmResource united(const std::vector<SmResource>& parts) {
  SmResource all{.device = parts.front().device, .set = {}};
  for (const SmResource& part : parts) {
    if (part.device != all.device)
      refuse(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "the resources are of the devices ", all.device, " and ",
             part.device);
    if (parts.size() > 1 && (part.split == 0 || part.split != parts.front().split))
      refuse(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "the resources do not come from one split");
    if ((part.set & all.set).any())
      refuse(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "the same resource is given twice");
    all.set |= part.set;
  }
  return all;
}

}  // namespace memlake::emulator
