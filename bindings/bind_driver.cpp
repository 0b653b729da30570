#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "bindings.hpp"
#include "driver/library.hpp"
#include "integers.hpp"

namespace memlake::bindings {
namespace {

nb::dict call_counts(Library& library) {
  nb::dict counts;
  for (std::size_t i = 0; i < call_names.size(); ++i) {
    if (const auto count = library.counting().count(static_cast<Call>(i))) counts[call_names[i]] = count;
  }
  return counts;
}

void fail(Library& library, const std::string& call, const nb::int_& nth, const nb::int_& code) {
  const auto kind = find_call(call);
  if (!call.empty() && !kind) throw nb::value_error(("there is no driver call '" + call + "'").c_str());
  const std::uint64_t count = to_count(nth, "nth");
  if (count == 0) throw nb::value_error("nth counts from 1, the next call");
  const int result = to_int(code, "code");
  if (result == 0) throw nb::value_error("code must be an error; 0 is success");
  library.failing().fail(kind, count, static_cast<CUresult>(result));
}

}  // namespace

void bind_driver(nb::module_& m) {
  nb::class_<Library>(m, "Driver", "A loaded driver library. Loading the same file twice gives the same object.")
      .def_static(
          "load",
          [](const std::string& library) -> Library& {
            return without_gil([&]() -> Library& { return Library::load(library); });
          },
          nb::arg("library"), nb::rv_policy::reference, "dlopen; resolves the table; does not initialise.")
      .def(
          "initialize", [](Library& self) { without_gil([&] { self.initialize(); }); }, "cuInit(0).")
      .def_prop_ro(
          "library", [](const Library& self) { return self.file(); }, "The file it was loaded from.")
      .def_prop_ro("is_initialized", &Library::is_initialized,
                   "True after initialize(), also in a forked child, where calls are refused.")
      .def_prop_ro("is_emulated", &Library::is_emulated, "True if the library is memlake's emulator.")
      .def(
          "version", [](Library& self) { return without_gil([&] { return self.version(); }); },
          "1000 * major + 10 * minor of the newest CUDA the driver supports.")
      .def(
          "device_count", [](Library& self) { return without_gil([&] { return self.device_count(); }); },
          "How many devices this process sees.")
      .def(
          "device",
          [](Library& self, const nb::int_& ordinal) {
            const int number = to_int(ordinal, "ordinal");
            return Shared<Device>(without_gil([&] { return self.device(number); }));
          },
          nb::arg("ordinal"), "The device with this ordinal; equal objects for the same ordinal.")
      .def(
          "current_device",
          [](Library& self) -> nb::object {
            // With the GIL: the driver answers from the state of the thread and waits for nothing.
            const auto ordinal = self.current_device();
            return ordinal ? nb::object(nb::int_(*ordinal)) : nb::none();
          },
          nb::sig("def current_device(self) -> int | None"),
          "The ordinal of the calling thread's current device; None if no context is current.")
      .def(
          "stream_device",
          [](Library& self, const nb::int_& handle) -> nb::object {
            const CUstream stream = to_stream(handle);
            const auto ordinal = without_gil([&] { return self.stream_device(stream); });
            return ordinal ? nb::object(nb::int_(*ordinal)) : nb::none();
          },
          nb::arg("handle"), nb::sig("def stream_device(self, handle: int) -> int | None"),
          "The ordinal of the device that a created stream works on; None if the driver cannot tell. ConfigError if it "
          "knows no such stream.")
      // counting calls and making them fail
      .def("call_counts", &call_counts, nb::sig("def call_counts(self) -> dict[str, int]"),
           "Calls made since the last reset, by CUDA name; those never made are left out.")
      .def(
          "modelled_us", [](Library& self) { return self.counting().modelled_us(); },
          "What these calls cost on a real device, by the cost table.")
      .def(
          "reset_counts", [](Library& self) { self.counting().reset(); }, "Counts and modelled time start at 0 again.")
      .def("fail", &fail, nb::arg("call"), nb::arg("nth"), nb::arg("code"),
           "The nth call from now (1 = the next) of `call` (\"\" = of any) answers `code`; the library is not asked.")
      .def(
          "clear_faults", [](Library& self) { self.failing().clear(); }, "Forgets what fail() asked for.")
      // only on the emulator
      .def(
          "add_devices",
          [](Library& self, const std::string& config) {
            const OrdinalRange added = without_gil([&] { return self.emulator().add_devices(config); });
            return std::pair(added.first, added.count);
          },
          nb::arg("config"),
          "(first ordinal, count) of new emulated devices. ConfigError for a config that cannot be understood.")
      .def(
          "close_devices",
          [](Library& self, const nb::int_& first, const nb::int_& count) {
            const OrdinalRange devices{to_int(first, "first"), to_int(count, "count")};
            without_gil([&] { self.close_devices(devices); });
          },
          nb::arg("first"), nb::arg("count"), "Removes emulated devices and everything that lives on them.")
      .def(
          "ledger", [](Library& self) { return without_gil([&] { return self.emulator().ledger(); }); },
          "Everything that exists in the emulator, as JSON.")
      .def(
          "reset_ledger", [](Library& self) { without_gil([&] { self.emulator().reset_ledger(); }); },
          "Forgets counted calls, violations and warnings; what exists stays.")
      .def(
          "open_gate",
          [](Library& self, const nb::int_& gate) {
            const std::uint64_t number = to_address(gate, "gate").value;
            without_gil([&] { self.emulator().open_gate(number); });
          },
          nb::arg("gate"), "Opens a gate that Device.hold() made.");
}

}  // namespace memlake::bindings
