#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "driver/library.hpp"
#include "integers.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;

void launch(const PyDevice& self, const nb::int_& stream, const std::string& name,
            const std::vector<std::tuple<nb::int_, nb::int_, bool>>& ranges) {
  const CUstream handle = to_stream(stream);
  std::vector<TouchedRange> touched;
  for (const auto& [address, nbytes, is_write] : ranges) {
    touched.push_back({to_address(address, "address").value, to_bytes(nbytes, "nbytes").count, is_write ? 1 : 0});
  }
  without_gil([&] {
    const CurrentContext current(*self);
    self->library().emulator().launch(handle, name, touched);
  });
}

std::uint64_t hold(const PyDevice& self, const nb::int_& stream) {
  const CUstream handle = to_stream(stream);
  return without_gil([&] {
    const CurrentContext current(*self);
    return self->library().emulator().hold(handle);
  });
}

std::size_t step(const PyDevice& self, const nb::int_& stream, const nb::int_& count) {
  const CUstream handle = to_stream(stream);
  const std::uint64_t most = to_count(count, "count");
  return without_gil([&] {
    const CurrentContext current(*self);
    return self->library().emulator().step(handle, most);
  });
}

std::size_t pending(const PyDevice& self, const nb::int_& stream) {
  const CUstream handle = to_stream(stream);
  return without_gil([&] {
    const CurrentContext current(*self);
    return self->library().emulator().pending(handle);
  });
}

}  // namespace

// Only on the emulator. These are methods of Device and not of Driver, because stream 0 needs a current context.
void bind_emulated_work(nb::module_& m) {
  nb::borrow<nb::class_<PyDevice>>(m.attr("Device"))
      .def("launch", &launch, nb::arg("stream"), nb::arg("name"), nb::arg("ranges"),
           "Queues emulated work that declares its ranges: (address, nbytes, is_write).")
      .def("hold", &hold, nb::arg("stream"),
           "Queues a gate: what comes behind it does not run until Driver.open_gate().")
      .def("step", &step, nb::arg("stream"), nb::arg("count"),
           "Runs up to `count` pieces of queued work of a manual stream; returns how many ran.")
      .def("pending", &pending, nb::arg("stream"), "How many pieces of work of the stream are not finished.");
}

}  // namespace memlake::bindings
