#include <optional>

#include "direct_call.hpp"
#include "pool_objects.hpp"

namespace memlake::bindings {

std::optional<Lease> lease_free_block(const PyPool& pool, Bytes size, nb::handle stream) {
  if (stream.is_none()) {
    if (auto lease = pool.core->lease_at_once(size)) return lease;
    return interruptibly([&] { return pool.core->lease_free_block(size, KnownStream{}); });
  }
  if (const auto known = StreamCache::of(*pool.core).find(stream))
    return interruptibly([&] { return pool.core->lease_free_block(size, *known); });
  const auto handle = stream_handle_of(stream);
  return handle ? lease_free_block(pool, size, *handle) : std::nullopt;
}

std::optional<Lease> lease_free_block(const PyPool& pool, Bytes size, CUstream stream) {
  return interruptibly([&] { return pool.core->lease_free_block(size, stream); });
}

std::optional<CUstream> stream_handle_of(nb::handle object) noexcept {
  if (!PyLong_CheckExact(object.ptr())) return std::nullopt;
  const std::size_t handle = PyLong_AsSize_t(object.ptr());
  if (handle == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();  // Python says what is wrong with it
    return std::nullopt;
  }
  return reinterpret_cast<CUstream>(handle);
}

namespace {

PyObject* call_allocate(PyObject* self, PyObject* const* given, Py_ssize_t num_places, PyObject* keywords) noexcept {
  return raising_in_python([&]() -> PyObject* {
    static const Parameters parameters("allocate", 1, {"nbytes", "stream", "shareable", "single_handle"});
    Parameters::Values values{nullptr, Py_None, Py_None, Py_False};
    if (!parameters.read(given, num_places, keywords, values)) return nullptr;
    const auto [nbytes, stream, shareable, single_handle] = values;
    // The path that is taken a thousand times per step. Everything else is for Python to sort out.
    if (shareable == Py_None && single_handle == Py_False) {
      const PyPool& pool = instance<PyPool>(self);
      if (const std::uint64_t size = pool.bytes_of(nbytes); size > 0)
        if (auto lease = lease_free_block(pool, {size}, stream)) return pool.wrap(*std::move(lease)).release().ptr();
    }
    const nb::handle object(self);
    return with_python([&] {
             return object.attr("_allocate_slowly")(nb::handle(nbytes), nb::handle(stream), nb::handle(shareable),
                                                    nb::handle(single_handle));
           })
        .release()
        .ptr();
  });
}

constexpr const char* kAllocateDoc =
    "allocate($self, /, nbytes, *, stream=None, shareable=None, single_handle=False)\n--\n\n"
    "Gives memory.\n\n"
    "Args:\n"
    "    nbytes: how much; an int, or a string such as ``\"10GiB\"``. 0 gives an empty buffer.\n"
    "    stream: the stream that uses it first; None: the device's default stream.\n"
    "    shareable: True for a buffer that other processes may be given (`Buffer.export`): it owns its chunks\n"
    "        whole, so its size is rounded up to granules. None: as the pool's `handle_type` says.\n"
    "    single_handle: True for a buffer that is one handle of one device, which is never moved or mapped\n"
    "        elsewhere: for registrations with NCCL, UCX or RDMA. Its size is rounded up to granules.\n\n"
    "Raises:\n"
    "    OutOfMemory: if there is no memory; it says why and what to do.\n"
    "    ConfigError: if the size or the stream makes no sense, or the stream is capturing a graph.\n"
    "    ClosedError: if the pool or its device is closed.";

}  // namespace

PyType_Slot* slots_of_pool() {
  static PyMethodDef methods[] = {method_entry("allocate", call_allocate, kAllocateDoc), {}};
  static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
  return slots;
}

}  // namespace memlake::bindings
