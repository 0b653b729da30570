#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "integers.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;
using PyChunk = Shared<PhysicalChunk>;
using PyReservation = Shared<Reservation>;
using PyMapping = Shared<Mapping>;

void bind_physical_chunk(nb::module_& m) {
  nb::class_<PyChunk>(m, "PhysicalChunk", "Owns memory made by one create call. Mappings share its ownership.")
      .def(
          "__init__",
          [](PyChunk* self, const PyDevice& device, const nb::int_& nbytes, bool exportable) {
            const Bytes size = to_bytes(nbytes, "nbytes");
            new (self) PyChunk(without_gil([&] {
              return std::make_shared<PhysicalChunk>(PhysicalChunk::create(device.share(), size, exportable));
            }));
          },
          nb::arg("device"), nb::arg("nbytes"), nb::arg("exportable"))
      .def_static(
          "import_fd",
          [](const PyDevice& device, const nb::int_& fd, const nb::int_& nbytes) {
            const int descriptor = to_int(fd, "fd");
            const Bytes size = to_bytes(nbytes, "nbytes");
            return PyChunk(without_gil([&] {
              return std::make_shared<PhysicalChunk>(PhysicalChunk::import_fd(device.share(), descriptor, size));
            }));
          },
          nb::arg("device"), nb::arg("fd"), nb::arg("nbytes"),
          "The memory behind a descriptor that another chunk exported. The descriptor stays the caller's.")
      .def(
          "export_fd", [](const PyChunk& self) { return without_gil([&] { return self->export_fd(); }); },
          "A new file descriptor, which the caller closes; it keeps the memory alive.")
      .def_prop_ro(
          "handle", [](const PyChunk& self) { return self->handle(); }, "The driver's handle, as an integer.")
      .def_prop_ro(
          "nbytes", [](const PyChunk& self) { return self->size().count; }, "Its size.")
      .def_prop_ro(
          "device", [](const PyChunk& self) { return PyDevice(self->device()); }, "Where the memory lies.")
      .def_prop_ro(
          "is_open", [](const PyChunk& self) { return self->is_open(); }, "False after close().")
      .def(
          "close", [](const PyChunk& self) { without_gil([&] { self->close(); }); },
          "Gives up this reference. The memory returns when the last mapping is gone, too.");
}

void bind_reservation(nb::module_& m) {
  nb::class_<PyReservation>(m, "Reservation",
                            "Owns a range of addresses; nothing is behind it until a Mapping is made.")
      .def(
          "__init__",
          [](PyReservation* self, const PyDevice& device, const nb::int_& nbytes, const nb::int_& alignment,
             const nb::int_& hint) {
            const Bytes size = to_bytes(nbytes, "nbytes");
            const Bytes aligned_to = to_bytes(alignment, "alignment");
            const Address wish = to_address(hint, "hint");
            new (self) PyReservation(
                without_gil([&] { return std::make_shared<Reservation>(device.share(), size, aligned_to, wish); }));
          },
          nb::arg("device"), nb::arg("nbytes"), nb::arg("alignment"), nb::arg("hint"))
      .def_prop_ro(
          "address", [](const PyReservation& self) { return self->range().begin.value; }, "Where it begins.")
      .def_prop_ro(
          "nbytes", [](const PyReservation& self) { return self->range().size.count; }, "Its size.")
      .def_prop_ro(
          "is_open", [](const PyReservation& self) { return self->is_open(); }, "False after close().")
      .def(
          "mapping_count", [](const PyReservation& self) { return self->mapping_count(); },
          "How many Mapping objects still live in it.")
      .def(
          "close", [](const PyReservation& self) { without_gil([&] { self->close(); }); },
          "Gives the addresses back. Raises memlake.errors.InvalidFree while mappings live in it.");
}

void bind_mapping(nb::module_& m) {
  nb::class_<PyMapping>(m, "Mapping", "Owns one chunk shown at one place of a reservation; keeps both alive.")
      .def(
          "__init__",
          [](PyMapping* self, const PyReservation& reservation, const nb::int_& offset, const PyChunk& chunk,
             const nb::int_& nbytes) {
            const Bytes place = to_bytes(offset, "offset");
            const Bytes size = to_bytes(nbytes, "nbytes");
            new (self) PyMapping(without_gil(
                [&] { return std::make_shared<Mapping>(reservation.share(), place, chunk.share(), size); }));
          },
          nb::arg("reservation"), nb::arg("offset"), nb::arg("chunk"), nb::arg("nbytes"))
      .def_prop_ro(
          "address", [](const PyMapping& self) { return self->range().begin.value; }, "Where it begins.")
      .def_prop_ro(
          "nbytes", [](const PyMapping& self) { return self->range().size.count; }, "Its size.")
      .def_prop_ro(
          "is_open", [](const PyMapping& self) { return self->is_open(); }, "False after close().")
      .def(
          "close", [](const PyMapping& self) { without_gil([&] { self->close(); }); },
          "Unmaps. On failure (work in flight) raises and stays mapped.");
}

std::pair<PyReservation, std::vector<PyMapping>> stitch_shares(const PyDevice& device,
                                                               const std::vector<const PyChunk*>& chunks,
                                                               const std::vector<const PyDevice*>& access) {
  std::vector<std::shared_ptr<PhysicalChunk>> pieces;
  for (const PyChunk* chunk : chunks) pieces.push_back(chunk->share());
  std::vector<std::shared_ptr<Device>> users;
  for (const PyDevice* user : access) users.push_back(user->share());
  StitchedRange stitched = without_gil([&] { return stitch(device.share(), pieces, users); });
  std::vector<PyMapping> mappings;
  mappings.reserve(stitched.mappings.size());
  for (Mapping& mapping : stitched.mappings) mappings.emplace_back(std::make_shared<Mapping>(std::move(mapping)));
  return {PyReservation(std::move(stitched.reservation)), std::move(mappings)};
}

void unmap_run(const std::vector<const PyMapping*>& mappings) {
  std::vector<Mapping*> run;
  for (const PyMapping* mapping : mappings) run.push_back(mapping->share().get());
  without_gil([&] { Mapping::close_run(run); });
}

}  // namespace

void bind_vmm(nb::module_& m) {
  bind_physical_chunk(m);
  bind_reservation(m);
  bind_mapping(m);
  m.def("stitch", &stitch_shares, nb::arg("device"), nb::arg("chunks"), nb::arg("access"),
        "One contiguous range that shows all chunks in order, readable and writable by `access`. All or nothing.");
  m.def("unmap", &unmap_run, nb::arg("mappings"),
        "Unmaps neighbours of one reservation (each begins where the one before it ends) with one driver call: all or\n"
        "nothing. On failure raises and all stay mapped. Mappings of a closed device are gone already and are passed "
        "over.");
}

}  // namespace memlake::bindings
