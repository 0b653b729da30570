#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "integers.hpp"
#include "pool_objects.hpp"
#include "vmm/imported_memory.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;
using PyImport = Shared<ImportedMemory>;

nb::tuple to_tuple(const ExportedBlock& exported) {
  nb::list sizes;
  nb::list devices;
  nb::list descriptors;
  for (const ExportedChunk& chunk : exported.chunks) {
    sizes.append(chunk.size.count);
    devices.append(chunk.device);
    descriptors.append(chunk.descriptor.get());
  }
  return nb::make_tuple(exported.address.value, exported.requested.count, descriptors, sizes, devices);
}

/// Makes Python the owner of the descriptors. It is called after the tuple is complete: if an exception is thrown
/// earlier, the native owners close the descriptors.
void hand_over(ExportedBlock& exported) {
  for (ExportedChunk& chunk : exported.chunks) static_cast<void>(chunk.descriptor.release());
}

void import_memory(PyImport* self, const nb::list& descriptors, const nb::list& sizes, const nb::list& homes,
                   const nb::list& users, bool read_only) {
  if (sizes.size() != descriptors.size() || homes.size() != descriptors.size())
    throw nb::value_error("every descriptor needs a size and a device");
  std::vector<ImportedMemory::Part> parts;
  parts.reserve(descriptors.size());
  for (std::size_t i = 0; i < descriptors.size(); ++i)
    parts.push_back({to_int(nb::cast<nb::int_>(descriptors[i]), "descriptors"),
                     to_bytes(nb::cast<nb::int_>(sizes[i]), "sizes"), nb::cast<PyDevice&>(homes[i]).share()});
  std::vector<std::shared_ptr<Device>> shared;
  for (nb::handle user : users) shared.push_back(nb::cast<PyDevice&>(user).share());
  const CUmemAccess_flags rights = read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  new (self) PyImport(without_gil([&] { return std::make_shared<ImportedMemory>(parts, shared, rights); }));
}

}  // namespace

void bind_sharing(nb::module_& m) {
  m.def(
      "export_lease",
      [](PyLease& lease) {
        ExportedBlock exported = lease.without_gil([&] { return lease->export_memory(); });
        const nb::tuple result = to_tuple(exported);
        hand_over(exported);
        return result;
      },
      nb::arg("lease"), nb::sig("def export_lease(lease: Lease) -> tuple[int, int, list[int], list[int], list[int]]"),
      "Its address and size, and of each chunk a new descriptor, the size, and the number of the device. The caller\n"
      "closes the descriptors.");
  m.def(
      "export_pool",
      [](const PyPool& pool) {
        std::vector<ExportedBlock> exported = without_gil([&] { return pool.core->sharing().export_everything(); });
        nb::list result;
        for (const ExportedBlock& block : exported) result.append(to_tuple(block));
        for (ExportedBlock& block : exported) hand_over(block);
        return result;
      },
      nb::arg("pool"), nb::sig("def export_pool(pool: Pool) -> list[tuple[int, int, list[int], list[int], list[int]]]"),
      "The tuples of export_lease() for everything that is live, in the order of the allocations; all or nothing.");
  nb::class_<PyImport>(m, "ImportedMemory", "Owns one range over chunks that another process exported.")
      .def("__init__", &import_memory, nb::arg("descriptors"), nb::arg("sizes"), nb::arg("homes"), nb::arg("users"),
           nb::arg("read_only"),
           nb::sig("def __init__(self, descriptors: list[int], sizes: list[int], homes: list[Device], users: "
                   "list[Device], read_only: bool) -> None"),
           "homes: whose memory each chunk is. users: who may read it, and write it unless read_only. The descriptors\n"
           "stay the caller's.")
      .def_prop_ro(
          "address", [](const PyImport& self) { return self->range().begin.value; }, "Where it begins.")
      .def_prop_ro(
          "is_open", [](const PyImport& self) { return self->is_open(); }, "False after close().")
      .def(
          "close", [](const PyImport& self) { without_gil([&] { self->close(); }); },
          "Waits for the devices, then gives the memory up.");
}

}  // namespace memlake::bindings
