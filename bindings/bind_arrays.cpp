// DLPack: a buffer as a tensor of bytes for another library, and a tensor of another library as memory.

#include <nanobind/stl/optional.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/process.hpp"
#include "bindings.hpp"
#include "dlpack.hpp"
#include "integers.hpp"
#include "pool_objects.hpp"

namespace memlake::bindings {
namespace {

/// A tensor that memlake gave away, with the Python object that owns its bytes.
template <class Managed>
struct Given {
  Managed managed{};
  std::int64_t shape = 0;
  std::int64_t stride = 1;
  PyObject* owner = nullptr;
  PyLease* lease = nullptr;  ///< counts its exports; null: the owner has another way to refuse a close
};

/// Called by the consumer, on any thread.
template <class Managed>
void give_back(Managed* managed) noexcept {
  auto* const given = static_cast<Given<Managed>*>(managed->manager);
  if (is_exiting()) return;  // the interpreter may be gone; the system frees everything
  const GilHeld gil;
  if (given->lease != nullptr) --given->lease->num_exports;
  Py_DECREF(given->owner);
  delete given;
}

template <class Managed>
constexpr const char* kNameOf = dlpack::kFresh;
template <>
constexpr const char* kNameOf<dlpack::VersionedTensor> = dlpack::kFreshVersioned;

/// The tensor of a capsule that no consumer has taken is deleted with the capsule.
template <class Managed>
void drop_capsule(PyObject* capsule) noexcept {
  if (PyCapsule_IsValid(capsule, kNameOf<Managed>) == 0) return;
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kNameOf<Managed>));
  managed->deleter(managed);
}

struct Bytes1D {
  std::uint64_t address;
  std::uint64_t size;
  dlpack::Device device;
  bool is_read_only;
};

template <class Managed>
nb::object capsule_of(const Bytes1D& bytes, nb::handle owner, PyLease* lease) {
  auto given = std::make_unique<Given<Managed>>();
  Managed& managed = given->managed;
  given->shape = static_cast<std::int64_t>(bytes.size);
  managed.manager = given.get();
  managed.deleter = give_back<Managed>;
  managed.tensor.data = reinterpret_cast<void*>(bytes.address);  // NOLINT(performance-no-int-to-ptr)
  managed.tensor.device = bytes.device;
  managed.tensor.ndim = 1;
  managed.tensor.dtype = {.code = dlpack::unsigned_integer, .bits = 8, .lanes = 1};
  managed.tensor.shape = &given->shape;
  managed.tensor.strides = &given->stride;
  if constexpr (std::is_same_v<Managed, dlpack::VersionedTensor>) {
    managed.version = {.major = 1, .minor = 0};
    managed.flags = bytes.is_read_only ? dlpack::kReadOnly : 0;
  }
  nb::object capsule = nb::steal(PyCapsule_New(&managed, kNameOf<Managed>, drop_capsule<Managed>));
  if (!capsule.is_valid()) throw nb::python_error();
  given->owner = owner.inc_ref().ptr();
  given->lease = lease;
  if (lease != nullptr) ++lease->num_exports;
  given.release();
  return capsule;
}

nb::object capsule_of(const Bytes1D& bytes, nb::handle owner, PyLease* lease, bool is_versioned) {
  if (is_versioned) return capsule_of<dlpack::VersionedTensor>(bytes, owner, lease);
  return capsule_of<dlpack::ManagedTensor>(bytes, owner, lease);
}

/// A tensor that another library gave to memlake: compact memory. It is given back when this object goes.
class TakenTensor {
 public:
  explicit TakenTensor(nb::handle capsule) {
    if (!take<dlpack::VersionedTensor>(capsule, dlpack::kUsedVersioned) &&
        !take<dlpack::ManagedTensor>(capsule, dlpack::kUsed))
      throw nb::type_error("expected a DLPack capsule that no other consumer has used");
  }

  dlpack::Tensor tensor{};
  bool is_read_only = false;

  /// None: an element does not follow the one before it.
  [[nodiscard]] std::optional<std::uint64_t> compact_size() const {
    if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) return std::nullopt;
    const std::uint64_t bits = std::uint64_t{tensor.dtype.bits} * tensor.dtype.lanes;
    if (bits == 0 || bits % 8 != 0) return std::nullopt;
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t elements = 1;
    for (std::int32_t dimension = 0; dimension < tensor.ndim; ++dimension) {
      if (tensor.shape[dimension] < 0) return std::nullopt;
      if (tensor.shape[dimension] == 0) return 0;
    }
    for (std::int32_t dimension = tensor.ndim - 1; dimension >= 0; --dimension) {
      const auto length = static_cast<std::uint64_t>(tensor.shape[dimension]);
      const bool follows =
          tensor.strides == nullptr || length == 1 || tensor.strides[dimension] == static_cast<std::int64_t>(elements);
      if (!follows || elements > most / length) return std::nullopt;
      elements *= length;
    }
    if (elements > most / (bits / 8)) return std::nullopt;
    return elements * (bits / 8);
  }

 private:
  template <class Managed>
  bool take(nb::handle capsule, const char* used) {
    if (PyCapsule_IsValid(capsule.ptr(), kNameOf<Managed>) == 0) return false;
    auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), kNameOf<Managed>));
    if constexpr (std::is_same_v<Managed, dlpack::VersionedTensor>) {
      // The layout of another major version is not known, except the place of its deleter.
      if (managed->version.major != 1)
        throw nb::value_error(("DLPack " + std::to_string(managed->version.major) + " is not known").c_str());
      is_read_only = (managed->flags & dlpack::kReadOnly) != 0;
    }
    if (PyCapsule_SetName(capsule.ptr(), used) != 0) throw nb::python_error();
    tensor = managed->tensor;
    managed_ = {managed, [](void* taken) {
                  auto* const own = static_cast<Managed*>(taken);
                  if (own->deleter != nullptr) own->deleter(own);
                }};
    return true;
  }

  std::unique_ptr<void, void (*)(void*)> managed_{nullptr, [](void*) {}};
};

}  // namespace

std::optional<int> ordinal_of(PyLease& lease) {
  lease->require_open();
  const PoolShare pool(lease->pool());
  const auto& devices = pool->devices();
  const auto pieces = without_gil([&] { return lease->pieces(); });
  for (const auto& [device, size] : pieces)
    if (device < devices.size()) return devices[device]->ordinal();
  const bool is_empty_on_device = pieces.empty() && !lease->is_of_host_pool();
  return is_empty_on_device ? std::optional(devices.front()->ordinal()) : std::nullopt;
}

nb::object dlpack_of_lease(nb::handle_t<PyLease> self, int device_id, bool is_versioned) {
  PyLease& lease = nb::cast<PyLease&>(self);
  lease->require_open();
  const Bytes1D bytes{.address = lease->address().value,
                      .size = lease->size().count,
                      .device = {.type = dlpack::cuda, .id = device_id},
                      .is_read_only = false};
  return capsule_of(bytes, self, &lease, is_versioned);
}

nb::object dlpack_of_lease(nb::handle_t<PyLease> self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                           nb::handle copy) {
  // The common call: on the device itself, in the order of the default stream. Python serves all others.
  if (stream.is_none() && dl_device.is_none() && copy.is_none() && PyTuple_CheckExact(max_version.ptr()) &&
      PyTuple_Size(max_version.ptr()) == 2) {
    PyLease& lease = nb::cast<PyLease&>(self);
    const std::optional<int> device = ordinal_of(lease);
    const long major = PyLong_AsLong(PyTuple_GetItem(max_version.ptr(), 0));
    if (major == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (device && lease->is_open() && lease->is_on_default_stream()) return dlpack_of_lease(self, *device, major >= 1);
  }
  return self.attr("_dlpack_slowly")(stream, max_version, dl_device, copy);
}

int buffer_of_lease(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    // The array is a live view of the buffer, which cannot be closed under it.
    const nb::object array = nb::handle(self).attr("numpy")();
    return PyObject_GetBuffer(array.ptr(), view, flags);
  } catch (const nb::python_error& error) {
    PyErr_SetString(PyExc_BufferError, nb::str(error.value()).c_str());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  return -1;
}

void bind_arrays(nb::module_& m) {
  m.def(
      "dlpack_of_view",
      [](nb::handle view, const nb::int_& address, const nb::int_& nbytes, bool is_read_only, bool is_pinned,
         bool is_versioned) {
        const Bytes1D bytes{.address = to_bytes(address, "address").count,
                            .size = to_bytes(nbytes, "nbytes").count,
                            .device = {.type = is_pinned ? dlpack::cuda_host : dlpack::cpu, .id = 0},
                            .is_read_only = is_read_only};
        return capsule_of(bytes, view, nullptr, is_versioned);
      },
      nb::arg("view"), nb::arg("address"), nb::arg("nbytes"), nb::arg("is_read_only"), nb::arg("is_pinned"),
      nb::arg("is_versioned"),
      nb::sig("def dlpack_of_view(view: object, address: int, nbytes: int, is_read_only: bool, "
              "is_pinned: bool, is_versioned: bool) -> object"),
      "A DLPack capsule over bytes that the CPU can access. It keeps `view` alive.");
  nb::class_<TakenTensor>(m, "TakenTensor", "A tensor that another library gave to memlake in a DLPack capsule.")
      .def(
          "__init__", [](TakenTensor* self, nb::handle capsule) { new (self) TakenTensor(capsule); },
          nb::arg("capsule"), nb::sig("def __init__(self, capsule: object) -> None"))
      .def_prop_ro("address",
                   [](const TakenTensor& self) {
                     return reinterpret_cast<std::uint64_t>(self.tensor.data) + self.tensor.byte_offset;
                   })
      .def_prop_ro(
          "nbytes", [](const TakenTensor& self) { return self.compact_size(); },
          nb::sig("def nbytes(self) -> int | None"), "None: the tensor is not compact.")
      .def_prop_ro(
          "device",
          [](const TakenTensor& self) { return nb::make_tuple(self.tensor.device.type, self.tensor.device.id); },
          nb::sig("def device(self) -> tuple[int, int]"))
      .def_ro("is_read_only", &TakenTensor::is_read_only);
}

}  // namespace memlake::bindings
