#include "pool/space_maker.hpp"

#include "driven/driver_space.hpp"
#include "lake/lake_space.hpp"
#include "policy/direct_policy.hpp"
#include "policy/torch_policy.hpp"
#include "space/segment_space.hpp"
#include "stitch/stitch_space.hpp"

namespace memlake {

namespace {

std::unique_ptr<Space> make(const DirectOptions&, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<DirectPolicy>(), events, limit);
}

std::unique_ptr<Space> make(const TorchOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<TorchPolicy>(options), events, limit);
}

std::unique_ptr<Space> make(const LakeOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<LakeSpace>(devices, options, events, limit);
}

std::unique_ptr<Space> make(const StitchOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<StitchSpace>(devices.front(), options, events, limit);
}

std::unique_ptr<Space> make(const DriverOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<DriverSpace>(devices.front(), options, events, limit);
}

}  // namespace

SpaceMaker space_maker(const PolicyOptions& options) {
  return [options](const Devices& devices, EventSource& events, Bytes limit) {
    return std::visit([&](const auto& chosen) { return make(chosen, devices, events, limit); }, options);
  };
}

}  // namespace memlake
