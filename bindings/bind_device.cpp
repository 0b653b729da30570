#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/host_memory.hpp"
#include "bindings.hpp"
#include "driver/library.hpp"
#include "driver/program_wait.hpp"
#include "driver/transfer.hpp"
#include "integers.hpp"
#include "vmm/access.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;

void bind_identity(nb::class_<PyDevice>& device) {
  device
      .def_prop_ro(
          "driver", [](const PyDevice& self) -> Library& { return self->library(); }, nb::rv_policy::reference,
          "The driver it belongs to.")
      .def_prop_ro(
          "ordinal", [](const PyDevice& self) { return self->ordinal(); }, "Its number in the driver.")
      .def_prop_ro(
          "is_open", [](const PyDevice& self) { return self->is_open(); }, "False once an emulated device was closed.")
      .def_prop_ro(
          "is_host_backed", [](const PyDevice& self) { return self->is_host_backed(); },
          "True on an emulated device whose memory the CPU can touch at its device address.")
      .def(
          "__eq__",
          [](const PyDevice& self, nb::object other) {
            return nb::isinstance<PyDevice>(other) && nb::cast<PyDevice&>(other).share() == self.share();
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const PyDevice& self) { return std::hash<const Device*>{}(self.share().get()); });
}

void bind_properties(nb::class_<PyDevice>& device) {
  device.def(
            "name", [](const PyDevice& self) { return without_gil([&] { return self->name(); }); }, "Its name.")
      .def(
          "uuid",
          [](const PyDevice& self) {
            const auto uuid = without_gil([&] { return self->uuid(); });
            return nb::bytes(uuid.data(), uuid.size());
          },
          "16 bytes that identify it.")
      .def(
          "total_memory", [](const PyDevice& self) { return without_gil([&] { return self->total_memory(); }).count; },
          "All its memory, in bytes.")
      .def(
          "free_memory", [](const PyDevice& self) { return without_gil([&] { return self->free_memory(); }).count; },
          "Bytes free now, other processes included. Not a promise.")
      .def(
          "granularity",
          [](const PyDevice& self, bool recommended) {
            const auto option = recommended ? CU_MEM_ALLOC_GRANULARITY_RECOMMENDED : CU_MEM_ALLOC_GRANULARITY_MINIMUM;
            return without_gil([&] { return self->granularity(option); }).count;
          },
          nb::arg("recommended"), "The granule of physical memory, in bytes.")
      .def(
          "attribute",
          [](const PyDevice& self, const nb::int_& attribute) {
            const int number = to_int(attribute, "attribute");
            return without_gil([&] { return self->attribute(number); });
          },
          nb::arg("attribute"), "A device attribute by its number in cuda.h.")
      .def(
          "can_access",
          [](const PyDevice& self, const PyDevice& peer) {
            return without_gil([&] { return self->can_access(*peer); });
          },
          nb::arg("peer"), "Whether it can reach memory of `peer`; False for itself, as in CUDA.")
      .def(
          "synchronize", [](const PyDevice& self) { interruptibly([&] { wait_for_device(self.share()); }); },
          "Waits until all work of the device is complete.");
}

void bind_transfers(nb::class_<PyDevice>& device) {
  device
      .def(
          "copy",
          [](const PyDevice& self, const nb::int_& destination, const nb::int_& source, const nb::int_& nbytes,
             const nb::int_& stream) {
            const Address to = to_address(destination, "destination");
            const Address from = to_address(source, "source");
            const Bytes size = to_bytes(nbytes, "nbytes");
            const CUstream handle = to_stream(stream);
            without_gil([&] { copy(*self, to, from, size, handle); });
          },
          nb::arg("destination"), nb::arg("source"), nb::arg("nbytes"), nb::arg("stream"),
          "Queues a copy between device addresses.")
      .def(
          "copy_from_host",
          [](const PyDevice& self, const nb::int_& destination, const nb::int_& source, const nb::int_& nbytes,
             const nb::int_& stream) {
            const Address to = to_address(destination, "destination");
            const auto* from = reinterpret_cast<const void*>(to_address(source, "source").value);
            const Bytes size = to_bytes(nbytes, "nbytes");
            const CUstream handle = to_stream(stream);
            without_gil([&] { copy_from_host(*self, to, from, size, handle); });
          },
          nb::arg("destination"), nb::arg("source"), nb::arg("nbytes"), nb::arg("stream"),
          "Queues a copy from a host address; the caller keeps that memory alive until it is complete.")
      .def(
          "copy_to_host",
          [](const PyDevice& self, const nb::int_& destination, const nb::int_& source, const nb::int_& nbytes,
             const nb::int_& stream) {
            auto* to = reinterpret_cast<void*>(to_address(destination, "destination").value);
            const Address from = to_address(source, "source");
            const Bytes size = to_bytes(nbytes, "nbytes");
            const CUstream handle = to_stream(stream);
            without_gil([&] { copy_to_host(*self, to, from, size, handle); });
          },
          nb::arg("destination"), nb::arg("source"), nb::arg("nbytes"), nb::arg("stream"),
          "Queues a copy to a host address; the caller keeps that memory alive until it is complete.")
      .def(
          "fill",
          [](const PyDevice& self, const nb::int_& destination, const nb::int_& value, const nb::int_& nbytes,
             const nb::int_& stream) {
            const Address to = to_address(destination, "destination");
            const std::uint8_t byte = to_byte(value, "value");
            const Bytes size = to_bytes(nbytes, "nbytes");
            const CUstream handle = to_stream(stream);
            without_gil([&] { fill(*self, to, byte, size, handle); });
          },
          nb::arg("destination"), nb::arg("value"), nb::arg("nbytes"), nb::arg("stream"),
          "Queues setting bytes to a value from 0 to 255.");
}

void bind_access(nb::class_<PyDevice>& device) {
  device
      .def(
          "set_access",
          [](const PyDevice& self, const nb::int_& address, const nb::int_& nbytes,
             const std::vector<const PyDevice*>& devices, const nb::int_& flags) {
            const AddressRange range{to_address(address, "address"), to_bytes(nbytes, "nbytes")};
            const auto rights = static_cast<CUmemAccess_flags>(to_int(flags, "flags"));
            std::vector<std::shared_ptr<Device>> shares;
            for (const PyDevice* one : devices) shares.push_back(one->share());
            without_gil([&] { set_access(self->driver(), range, shares, rights); });
          },
          nb::arg("address"), nb::arg("nbytes"), nb::arg("devices"), nb::arg("flags"),
          "One driver call that sets the rights (0 none, 1 read, 3 read and write) of devices over whole mappings.")
      .def(
          "get_access",
          [](const PyDevice&, const nb::int_& address, const PyDevice& other) {
            const Address place = to_address(address, "address");
            return static_cast<int>(without_gil([&] { return get_access(*other, place); }));
          },
          nb::arg("address"), nb::arg("device"), "The rights of `device` at a mapped address: 0, 1 or 3.");
}

}  // namespace

void bind_device(nb::module_& m) {
  m.def("host_memory", [] { return host_memory().count; }, "All memory of this machine, in bytes.");
  nb::class_<PyDevice> device(
      m, "Device", "One device; retains its primary context on first need and makes it current around calls.");
  bind_identity(device);
  bind_properties(device);
  bind_transfers(device);
  bind_access(device);
}

}  // namespace memlake::bindings
