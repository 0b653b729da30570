#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "driver/cost_model.hpp"
#include "driver/features.hpp"
#include "integers.hpp"
#include "policies/registry/registry.hpp"
#include "vmm/cost_measurement.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;

Feature feature_named(std::string_view name) {
  for (std::size_t i = 0; i < kFeatureCount; ++i)
    if (name == kFeatures[i].name) return static_cast<Feature>(i);
  throw nb::key_error("no feature has this name");
}

nb::dict to_dict(const FeatureAnswer& answer) {
  nb::dict result;
  result["has"] = answer.has ? nb::object(nb::bool_(*answer.has)) : nb::none();
  result["source"] = word_of(answer.source);
  result["reason"] = answer.reason;
  result["refusals"] = answer.refusals;
  return result;
}

nb::dict to_dict(const CostModel& model) {
  nb::dict result;
  for (const NamedCost& cost : kCosts) result[cost.name] = model.*cost.member;
  return result;
}

void bind_measurements(nb::module_& m) {
  m.def(
      "measure_calls",
      [](const PyDevice& device, const nb::int_& size, const nb::int_& count) {
        const Bytes bytes = to_bytes(size, "size");
        const auto handles = static_cast<std::size_t>(to_count(count, "count"));
        const CallTimes times = without_gil([&] { return measure_calls(device.share(), bytes, handles); });
        nb::dict result;
        result["reserve"] = times.reserve;
        result["create"] = times.create;
        result["map"] = times.map;
        result["set_access"] = times.set_access;
        result["unmap"] = times.unmap;
        result["release"] = times.release;
        result["address_free"] = times.address_free;
        return result;
      },
      nb::arg("device"), nb::arg("size"), nb::arg("count"),
      nb::sig("def measure_calls(device: Device, size: int, count: int) -> dict[str, float]"),
      "Microseconds per driver call for `count` handles of `size` bytes; set_access and unmap are one call for all.");
  m.def(
      "measure_plain",
      [](const PyDevice& device, const nb::int_& size) {
        const Bytes bytes = to_bytes(size, "size");
        const PlainTimes times = without_gil([&] { return measure_plain(device.share(), bytes); });
        return nb::make_tuple(times.alloc, times.free);
      },
      nb::arg("device"), nb::arg("size"),
      nb::sig("def measure_plain(device: Device, size: int) -> tuple[float, float]"),
      "Microseconds of cuMemAlloc and cuMemFree.");
  m.def(
      "measure_copy",
      [](const PyDevice& device, const nb::int_& total, const nb::int_& handle, int repeats) {
        const Bytes bytes = to_bytes(total, "total");
        const Bytes each = to_bytes(handle, "handle");
        return without_gil([&] { return measure_copy(device.share(), bytes, each, repeats); });
      },
      nb::arg("device"), nb::arg("total"), nb::arg("handle"), nb::arg("repeats"),
      "Bytes per second of copies between ranges of `total` bytes that are stitched of handles of `handle` bytes; 0:\n"
      "plain allocations.");
}

}  // namespace

void bind_features(nb::module_& m) {
  m.def(
      "features",
      [] {
        nb::list all;
        for (const FeatureText& text : kFeatures) all.append(nb::make_tuple(text.name, text.what, text.without));
        return all;
      },
      nb::sig("def features() -> list[tuple[str, str, str]]"),
      "Every feature of devices: its name, what it is, and what memlake does without it.");
  m.def(
      "ask_feature",
      [](const PyDevice& device, const std::string& name) {
        const Feature feature = feature_named(name);
        return to_dict(without_gil([&] { return ask_feature(device.share(), feature); }));
      },
      nb::arg("device"), nb::arg("name"),
      nb::sig("def ask_feature(device: Device, name: str) -> dict[str, typing.Any]"),
      "Whether the device has a feature (True, False, or None if it could not be asked), how that was found, why not,\n"
      "and how often the driver refused it in use. The device is asked once.");
  m.def(
      "turn_off_feature",
      [](const PyDevice& device, const std::string& name, const std::string& reason) {
        const Feature feature = feature_named(name);
        device->features().turn_off(feature, device->ordinal(), reason);
      },
      nb::arg("device"), nb::arg("name"), nb::arg("reason"), "The driver has refused it in use.");
  m.def(
      "refused_features",
      [](const PyDevice& device) {
        std::vector<std::string> names;
        for (std::size_t i = 0; i < kFeatureCount; ++i)
          if (const auto answer = device->features().find(static_cast<Feature>(i)); answer && answer->refusals > 0)
            names.emplace_back(kFeatures[i].name);
        return names;
      },
      nb::arg("device"), "The names of the features that the driver has refused in use.");
  m.def("take_feature_notices", &take_feature_notices,
        "Sentences about features that were turned off since the last call.");
  m.def(
      "default_policy_on",
      [](const nb::list& devices) {
        Devices shared;
        for (nb::handle device : devices) shared.push_back(nb::cast<PyDevice&>(device).share());
        return without_gil([&] { return default_policy_on(shared).name; });
      },
      nb::arg("devices"), nb::sig("def default_policy_on(devices: list[Device]) -> str"),
      "The policy of a pool on these devices for which none was chosen.");
  m.def(
      "cost_model", [] { return to_dict(cost_model()); }, nb::sig("def cost_model() -> dict[str, float]"),
      "The modelled cost of driver calls, in microseconds.");
  m.def(
      "set_cost_model",
      [](const nb::dict& costs) {
        CostModel model;
        for (const NamedCost& cost : kCosts)
          if (costs.contains(cost.name)) model.*cost.member = nb::cast<double>(costs[cost.name]);
        set_cost_model(model);
      },
      nb::arg("costs"), nb::sig("def set_cost_model(costs: dict[str, float]) -> None"),
      "Sets the model for replays and pools that are made from now on; what is left out has its default.");
  bind_measurements(m);
}

}  // namespace memlake::bindings
