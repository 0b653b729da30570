#include "make_space.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include "integers.hpp"
#include "lake/lake_space.hpp"
#include "policy/direct_policy.hpp"
#include "policy/torch_policy.hpp"
#include "space/segment_space.hpp"

namespace memlake::bindings {

namespace {

using Devices = std::vector<std::shared_ptr<Device>>;

Placement to_placement(const std::string& name) {
  if (name == "fill") return Placement::fill;
  if (name == "balance") return Placement::balance;
  if (name == "near") return Placement::near;
  throw nb::value_error("placement must be 'fill', 'balance' or 'near'");
}

}  // namespace

SpaceMaker space_maker(nb::handle options) {
  if (options.is_none())
    return [](const Devices& devices, EventSource& events, Bytes limit) -> std::unique_ptr<Space> {
      return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<DirectPolicy>(), events, limit);
    };
  if (nb::isinstance<LakeOptions>(options))
    return [lake = nb::cast<LakeOptions>(options)](const Devices& devices, EventSource& events,
                                                   Bytes limit) -> std::unique_ptr<Space> {
      return std::make_unique<LakeSpace>(devices, lake, events, limit);
    };
  return [torch = nb::cast<TorchOptions>(options)](const Devices& devices, EventSource& events,
                                                   Bytes limit) -> std::unique_ptr<Space> {
    return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<TorchPolicy>(torch), events, limit);
  };
}

nb::dict counters_dict(const std::vector<Counter>& counters) {
  nb::dict result;
  for (const auto& [name, value] : counters)
    std::visit([&result, key = name](auto number) { result[key] = number; }, value);
  return result;
}

void bind_policies(nb::module_& m) {
  nb::class_<TorchOptions>(m, "TorchOptions", "The options of PyTorch's allocators, in bytes; PyTorch's own defaults.")
      .def(nb::init<>())
      .def_rw("is_expandable", &TorchOptions::is_expandable)
      .def_prop_rw(
          "large_segment_size", [](const TorchOptions& self) { return self.large_segment_size.count; },
          [](TorchOptions& self, const nb::int_& value) {
            self.large_segment_size = to_bytes(value, "large_segment_size");
          })
      .def_prop_rw(
          "max_split_size", [](const TorchOptions& self) { return self.max_split_size.count; },
          [](TorchOptions& self, const nb::int_& value) { self.max_split_size = to_bytes(value, "max_split_size"); },
          "2**64 - 1 until it is set: no limit.")
      .def_prop_rw(
          "max_non_split_rounding", [](const TorchOptions& self) { return self.max_non_split_rounding.count; },
          [](TorchOptions& self, const nb::int_& value) {
            self.max_non_split_rounding = to_bytes(value, "max_non_split_rounding");
          })
      .def_rw("garbage_collection_threshold", &TorchOptions::garbage_collection_threshold)
      .def_rw("roundup_power2_divisions", &TorchOptions::roundup_power2_divisions,
              "For requests of 1 MiB, 2 MiB, ... 32 GiB and more.");

  nb::class_<LakeOptions>(m, "LakeOptions", "The options of the policy lake.")
      .def(nb::init<>())
      .def_rw("may_alias", &LakeOptions::may_alias, "Whether a chunk may be mapped at two places at once.")
      .def_prop_rw(
          "placement",
          [](const LakeOptions& self) {
            return self.placement == Placement::fill      ? "fill"
                   : self.placement == Placement::balance ? "balance"
                                                          : "near";
          },
          [](LakeOptions& self, const std::string& name) { self.placement = to_placement(name); },
          "'fill', 'balance' or 'near'.");
}

}  // namespace memlake::bindings
