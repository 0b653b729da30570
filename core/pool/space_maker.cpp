#include "pool/space_maker.hpp"

#include "policies/cuda_pool/cuda_pool_space.hpp"
#include "policies/direct/direct_rules.hpp"
#include "policies/lake/lake_space.hpp"
#include "policies/segments/segment_space.hpp"
#include "policies/stitch/stitch_space.hpp"
#include "policies/torch/torch_rules.hpp"

namespace memlake {

namespace {

std::unique_ptr<Space> make(const DirectOptions&, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<DirectRules>(), events, limit);
}

std::unique_ptr<Space> make(const TorchOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<TorchRules>(options), events, limit);
}

std::unique_ptr<Space> make(const LakeOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<LakeSpace>(devices, options, events, limit);
}

std::unique_ptr<Space> make(const StitchOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<StitchSpace>(devices.front(), options, events, limit);
}

std::unique_ptr<Space> make(const CudaPoolOptions& options, const Devices& devices, EventSource& events, Bytes limit) {
  return std::make_unique<CudaPoolSpace>(devices.front(), options, events, limit);
}

}  // namespace

SpaceMaker space_maker(const PolicyOptions& options) {
  return [options](const Devices& devices, EventSource& events, Bytes limit) {
    return std::visit([&](const auto& chosen) { return make(chosen, devices, events, limit); }, options);
  };
}

}  // namespace memlake
