#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>

#include "direct_call.hpp"
#include "pool_objects.hpp"
#include "stream_names.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;

void close(nb::handle self, PyLease& lease, nb::handle stream) {
  if (!lease.is_watched && lease.num_exports == 0 && lease->pool() != nullptr) {
    const auto known = stream.is_none() ? std::nullopt : StreamCache::of(*lease->pool()).find(stream);
    if (stream.is_none() || (known && lease->is_of(*known))) {
      if (!lease->close_at_once()) lease.without_gil([&] { lease->close(); });
      lease.leave_pool_if_over();
      return;
    }
    if (known && lease.without_gil([&] { return lease->close(*known); })) {
      lease.leave_pool_if_over();
      return;
    }
  }
  with_python([&] { return self.attr("_close_slowly")(stream); });
}

PyObject* call_close(PyObject* self, PyObject* const* given, Py_ssize_t num_places, PyObject* keywords) noexcept {
  return raising_in_python([&]() -> PyObject* {
    static const Parameters parameters("close", 0, {"stream"});
    Parameters::Values values{Py_None};
    if (!parameters.read(given, num_places, keywords, values)) return nullptr;
    close(self, instance<PyLease>(self), values[0]);
    return nb::none().release().ptr();
  });
}

constexpr const char* kCloseDoc =
    "close($self, /, *, stream=None)\n--\n\n"
    "Gives the memory back.\n\n"
    "Args:\n"
    "    stream: in whose order it is freed: the memory is reused at once on that stream, elsewhere when that\n"
    "        stream has passed. None: the stream that it was allocated for. Another stream must be behind all\n"
    "        earlier work on the buffer, for instance by ``stream.wait(earlier)``.\n\n"
    "Raises:\n"
    "    InvalidFree: if it was closed before.\n"
    "    BufferError: while a NumPy view of it is alive; nothing was changed.\n"
    "    ConfigError: if it is no stream of this driver. If the stream captures a graph, the memory is reused\n"
    "        after the capture.";

}  // namespace

void bind_lease(nb::module_& m) {
  static PyMethodDef methods[] = {method_entry("close", call_close, kCloseDoc), {}};
  static PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(buffer_of_lease)}, {Py_tp_methods, methods}, {0, nullptr}};
  nb::class_<PyLease>(m, "Lease", nb::type_slots(slots), "One allocation of a pool; dropping it frees it.")
      .def_prop_ro(
          "ptr",
          [](PyLease& self) {
            self->require_open();
            return self->address().value;
          },
          "The device address of its first byte; 0 if it is empty.")
      .def_prop_ro(
          "nbytes", [](PyLease& self) { return self->size().count; }, "How many bytes were asked for.")
      .def_prop_ro(
          "is_open", [](PyLease& self) { return self->is_open(); }, "False after close().")
      .def_prop_ro(
          "is_shareable", [](PyLease& self) { return self->is_shareable(); },
          "True if it can be exported to other processes.")
      .def_prop_ro("_device", [](PyLease& self) { return PyDevice(self.device()); })
      .def_prop_ro(
          "_devices",
          [](PyLease& self) {
            self->require_open();
            nb::list devices;
            for (const auto& device : self->pool()->devices()) devices.append(PyDevice(device));
            return devices;
          },
          nb::sig("def _devices(self) -> list[Device]"), "Those of its pool. ClosedError if it is closed.")
      .def(
          "_pieces",
          [](PyLease& self) {
            self->require_open();
            nb::list pieces;
            const PoolShare pool(self->pool());
            const auto& devices = pool->devices();
            for (const auto& [device, size] : without_gil([&] { return self->pieces(); }))
              pieces.append(nb::make_tuple(device < devices.size() ? nb::cast(PyDevice(devices[device])) : nb::none(),
                                           size.count));
            return pieces;
          },
          nb::sig("def _pieces(self) -> list[tuple[Device | None, int]]"),
          "Where its bytes lie, in order; None: on the host.")
      .def(
          "_handles",
          [](PyLease& self) {
            nb::list parts;
            for (const MappedPart& part : self.without_gil([&] { return self->handles(); }))
              parts.append(nb::make_tuple(part.handle, part.offset.count, part.size.count, part.start.count,
                                          static_cast<int>(part.prop.requestedHandleTypes),
                                          part.prop.allocFlags.gpuDirectRDMACapable != 0));
            return parts;
          },
          nb::sig("def _handles(self) -> list[tuple[int, int, int, int, int, bool]]"),
          "Its handles by address: handle, offset in the buffer, size, offset in the handle, export types as bits, "
          "and\n"
          "whether GPUDirect RDMA was granted. Empty for memory that has no handles.")
      .def(
          "_is_one_handle", [](PyLease& self) { return self.without_gil([&] { return self->is_one_handle(); }); },
          "False if its ends are in different handles.")
      .def(
          "_stream",
          [](PyLease& self) {
            self->require_open();
            const PoolShare pool(self->pool());
            const auto stream = without_gil([&] { return self->stream_name(); });
            return nb::make_tuple(reinterpret_cast<std::uint64_t>(stream.handle),
                                  PyDevice(pool->devices()[stream.device]));
          },
          nb::sig("def _stream(self) -> tuple[int, Device]"),
          "The stream that it was allocated for: its handle and its device. ClosedError if it is closed or that "
          "stream is gone.")
      .def_prop_ro(
          "generation", [](PyLease& self) { return self.without_gil([&] { return self->generation(); }); },
          "A number that changes when other memory comes to lie behind an address: two buffers with one `ptr` and one\n"
          "generation have the same memory. For registrations that are kept by address (NCCL, RDMA).")
      .def_prop_ro(
          "is_pinned", [](PyLease& self) { return self->is_pinned(); }, "True until it is unpinned as often as pinned.")
      .def(
          "_pin", [](PyLease& self) { self.without_gil([&] { self->pin(); }); }, "pin() without questions.")
      .def(
          "unpin",
          [](PyLease& self) {
            self.without_gil([&] { self->unpin(); });
            self.leave_pool_if_over();
          },
          "Ends one pin(). The last one frees the memory if the buffer was closed meanwhile.\n\n"
          "Raises:\n"
          "    InvalidFree: if it is not pinned.")
      .def_prop_ro("_ordinal", ordinal_of, nb::sig("def _ordinal(self) -> int | None"),
                   "The first device that has memory of it. None: all of it is on the host.")
      .def("_dlpack", nb::overload_cast<nb::handle_t<PyLease>, int, bool>(dlpack_of_lease), nb::arg("device_id"),
           nb::arg("is_versioned"), nb::sig("def _dlpack(self, device_id: int, is_versioned: bool) -> object"),
           "A DLPack capsule over its memory on a device.")
      .def(
          "__dlpack__",
          nb::overload_cast<nb::handle_t<PyLease>, nb::handle, nb::handle, nb::handle, nb::handle>(dlpack_of_lease),
          nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
          nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
                  "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object"),
          "Gives the bytes to another library without a copy: ``torch.from_dlpack(buffer)``.\n\n"
          "The tensor has the type uint8 and one dimension. It keeps the buffer alive, and while it is alive, `close`\n"
          "raises BufferError.\n\n"
          "Args:\n"
          "    stream: the stream of the consumer, as DLPack names it. None and 1: the default stream. -1: no order.\n"
          "        The consumer's stream waits for the work that the buffer's stream has queued so far, and the pool\n"
          "        does not reuse the memory before the consumer's stream has passed. That stream must live until "
          "then.\n"
          "    max_version: the newest version of DLPack that the consumer knows.\n"
          "    dl_device: the device that the consumer wants. ``(1, 0)``, the CPU, works where the CPU can access the\n"
          "        memory; the host then waits for the buffer's stream.\n"
          "    copy: True is refused.\n\n"
          "Raises:\n"
          "    BufferError: if a copy or another device is asked for.\n"
          "    ClosedError: if the buffer is closed.\n"
          "    ConfigError: if the stream is none.")
      .def_prop_ro(
          "_num_exports", [](PyLease& self) { return self.num_exports; },
          "How many tensors of it other libraries have.")
      .def(
          "_watch", [](PyLease& self) { self.is_watched = true; }, "From now on close() asks `_close_slowly`.")
      .def(
          "_release",
          [](PyLease& self) {
            self.without_gil([&] { self->close(); });
            self.leave_pool_if_over();
          },
          "close() without questions.")
      .def(
          "_release_on",
          [](PyLease& self, nb::handle object, const nb::int_& handle, const PyStream* owner, const nb::int_& device) {
            const StreamName stream = name_of_stream(handle, owner, device);
            const PoolShare pool(self->pool());
            without_gil([&] { self->close(stream); });
            remember_stream(*pool, object, stream);
            self.leave_pool_if_over();
          },
          nb::arg("stream"), nb::arg("handle"), nb::arg("owner").none(), nb::arg("device"),
          nb::sig("def _release_on(self, stream: object, handle: int, owner: StreamOwner | None, device: int) -> None"),
          "close(stream=...) without questions.")
      .def(
          "_record_use",
          [](PyLease& self, const nb::int_& handle, const PyStream* owner, const nb::int_& device) {
            const StreamName stream = name_of_stream(handle, owner, device);
            self.without_gil([&] { self->record_use(stream); });
          },
          nb::arg("handle"), nb::arg("owner").none(), nb::arg("device"));
}

}  // namespace memlake::bindings
