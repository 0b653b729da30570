#include "policy_options.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include "integers.hpp"

namespace memlake::bindings {

Placement to_placement(const std::string& name) {
  if (name == "fill") return Placement::fill;
  if (name == "balance") return Placement::balance;
  if (name == "near") return Placement::near;
  throw nb::value_error("placement must be 'fill', 'balance' or 'near'");
}

namespace {

Location to_location(const std::string& name) {
  if (name == "device") return Location::device;
  if (name == "host") return Location::host;
  if (name == "host_numa") return Location::host_numa;
  throw nb::value_error("location must be 'device', 'host' or 'host_numa'");
}

/// A size as a property of options.
template <class Options>
void def_size(nb::class_<Options>& options, const char* name, Bytes Options::* size, const char* doc = "") {
  options.def_prop_rw(
      name, [size](const Options& self) { return (self.*size).count; },
      [size, name](Options& self, const nb::int_& value) { self.*size = to_bytes(value, name); }, doc);
}

}  // namespace

PolicyOptions to_policy_options(nb::handle options) {
  if (options.is_none()) return DirectOptions{};
  if (nb::isinstance<LakeOptions>(options)) return nb::cast<LakeOptions>(options);
  if (nb::isinstance<StitchOptions>(options)) return nb::cast<StitchOptions>(options);
  if (nb::isinstance<CudaPoolOptions>(options)) return nb::cast<CudaPoolOptions>(options);
  return nb::cast<TorchOptions>(options);
}

nb::dict counters_dict(const std::vector<Counter>& counters) {
  nb::dict result;
  for (const auto& [name, value] : counters)
    std::visit([&result, key = name](auto number) { result[key] = number; }, value);
  return result;
}

void bind_policies(nb::module_& m) {
  auto torch = nb::class_<TorchOptions>(m, "TorchOptions",
                                        "The options of PyTorch's allocators, in bytes; PyTorch's own defaults.");
  torch.def(nb::init<>())
      .def_rw("is_expandable", &TorchOptions::is_expandable)
      .def_rw("garbage_collection_threshold", &TorchOptions::garbage_collection_threshold)
      .def_rw("roundup_power2_divisions", &TorchOptions::roundup_power2_divisions,
              "For requests of 1 MiB, 2 MiB, ... 32 GiB and more.");
  def_size(torch, "large_segment_size", &TorchOptions::large_segment_size);
  def_size(torch, "max_split_size", &TorchOptions::max_split_size, "2**64 - 1 until it is set: no limit.");
  def_size(torch, "max_non_split_rounding", &TorchOptions::max_non_split_rounding);

  auto stitch = nb::class_<StitchOptions>(m, "StitchOptions", "The options of the policy stitch, in bytes.");
  stitch.def(nb::init<>())
      .def_rw("reuse_limit", &StitchOptions::reuse_limit)
      .def_rw("max_views", &StitchOptions::max_views)
      .def_rw("max_mappings", &StitchOptions::max_mappings);
  def_size(stitch, "frag_limit", &StitchOptions::frag_limit);
  def_size(stitch, "chunk_size", &StitchOptions::chunk_size);
  def_size(stitch, "max_view_bytes", &StitchOptions::max_view_bytes, "0: four times the device's memory.");

  auto driver = nb::class_<CudaPoolOptions>(m, "CudaPoolOptions", "The options of the policy driver, in bytes.");
  driver.def(nb::init<>());
  const auto def_rule = [&driver](const char* name, bool ReuseRules::* rule) {
    driver.def_prop_rw(
        name, [rule](const CudaPoolOptions& self) { return self.reuse.*rule; },
        [rule](CudaPoolOptions& self, bool value) { self.reuse.*rule = value; });
  };
  def_rule("reuse_follow_event_dependencies", &ReuseRules::follow_event_dependencies);
  def_rule("reuse_allow_opportunistic", &ReuseRules::allow_opportunistic);
  def_rule("reuse_allow_internal_dependencies", &ReuseRules::allow_internal_dependencies);
  def_size(driver, "max_size", &CudaPoolOptions::max_size, "CUDA's maxSize; 0: none.");

  nb::class_<LakeOptions>(m, "LakeOptions", "The options of the policy lake.")
      .def(nb::init<>())
      .def_rw("may_alias", &LakeOptions::may_alias, "Whether a chunk may be mapped at two places at once.")
      .def_rw("may_spill", &LakeOptions::may_spill, "Whether what the devices have no room for may lie on the host.")
      .def_prop_rw(
          "location",
          [](const LakeOptions& self) {
            return self.location == Location::device ? "device"
                   : self.location == Location::host ? "host"
                                                     : "host_numa";
          },
          [](LakeOptions& self, const std::string& name) { self.location = to_location(name); },
          "'device', 'host' or 'host_numa'.")
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
