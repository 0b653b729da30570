#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "direct_call.hpp"
#include "driver/library.hpp"
#include "pool_objects.hpp"

namespace memlake::bindings {
namespace {

/// The pools that `memlake.allocate` found for devices and streams, so that it need not look again. All functions need
/// the GIL. Where they release it, other threads may change the object, so they keep the pool themselves.
class KnownPools {
 public:
  /// A buffer from free memory of the pool that the arguments name; null if the pool is not known or that is not
  /// possible.
  nb::object allocate(nb::handle nbytes, nb::handle stream, nb::handle device) {
    if (epoch_ != last_epoch_) [[unlikely]]
      forget();
    if (!PyLong_CheckExact(stream.ptr())) return from(pool_for(stream, device), nbytes, stream);
    const auto handle = stream_handle_of(stream);
    if (!handle || !is_created(*handle)) return {};  // every device has default streams
    // A pool of one device that knows the very stream is the pool of the stream's device.
    for (std::size_t i = 0; i < of_devices_.size(); ++i) {
      const OfDevice known = of_devices_[i];
      if (!known.is_only_one || !(device.is_none() || known.device.is(device))) continue;
      if (nb::object buffer = from(known.pool, nbytes, *handle)) return buffer;
      if (epoch_ != last_epoch_) break;
    }
    return {};
  }

  /// Counts the changes of current pools. What was found before a change is not remembered after it.
  static std::uint64_t epoch() noexcept { return last_epoch_; }
  static void note_change() noexcept { ++last_epoch_; }

  /// `ordinal`: of a device of `driver`; None: for threads without a current device.
  void remember_ordinal(Library& driver, std::optional<int> ordinal, nb::object pool, std::uint64_t epoch) {
    if (!begin_change(epoch)) return;
    const auto of_another_driver = driver_ == &driver ? Ordinals{} : std::exchange(of_ordinals_, {});
    driver_ = &driver;
    auto at = std::ranges::find(of_ordinals_, ordinal, &Ordinals::value_type::first);
    if (at == of_ordinals_.end()) at = of_ordinals_.insert(at, {ordinal, {}});
    std::swap(at->second, pool);  // as in remember()
  }
  /// `stream`: an object that is a created stream of the device; or None.
  void remember(nb::object device, nb::object pool, nb::handle stream, std::uint64_t epoch) {
    if (!begin_change(epoch)) return;
    auto at = std::ranges::find_if(of_devices_, [&](const OfDevice& known) { return known.device.is(device); });
    if (at == of_devices_.end()) at = of_devices_.insert(at, {std::move(device), {}, false});
    at->is_only_one = nb::cast<PyPool&>(pool).core->devices().size() == 1;
    std::swap(at->pool, pool);  // the one before is dropped last: that may release the GIL
    if (!stream.is_none()) of_streams_.remember(stream, static_cast<std::size_t>(at - of_devices_.begin()));
  }
  void forget() {
    epoch_ = last_epoch_;
    driver_ = nullptr;
    of_streams_.clear();
    // Dropping a pool may release the GIL. Other threads find this object empty then.
    const auto of_devices = std::exchange(of_devices_, {});
    const auto of_ordinals = std::exchange(of_ordinals_, {});
  }

 private:
  struct OfDevice {
    nb::object device;
    nb::object pool;
    bool is_only_one;  // the pool has no other device
  };

  using Ordinals = std::vector<std::pair<std::optional<int>, nb::object>>;

  [[nodiscard]] nb::object pool_for(nb::handle stream, nb::handle device) const {
    if (!stream.is_none()) {
      const std::size_t* place = of_streams_.find(stream);
      if (place == nullptr) return {};
      const OfDevice& known = of_devices_[*place];
      return device.is_none() || known.device.is(device) ? known.pool : nb::object();
    }
    if (device.is_none()) return driver_ == nullptr ? nb::object() : of_ordinal(driver_->current_device());
    if (PyLong_CheckExact(device.ptr())) {
      int overflow = 0;
      const long ordinal = PyLong_AsLongAndOverflow(device.ptr(), &overflow);
      return overflow != 0 || ordinal < 0 ? nb::object() : of_ordinal(static_cast<int>(ordinal));
    }
    for (const OfDevice& known : of_devices_)
      if (known.device.is(device)) return known.pool;
    return {};
  }
  [[nodiscard]] nb::object of_ordinal(std::optional<int> ordinal) const {
    for (const auto& [known, pool] : of_ordinals_)
      if (known == ordinal) return pool;
    return {};
  }
  template <class Stream>
  static nb::object from(const nb::object& pool, nb::handle nbytes, Stream stream) {
    if (!pool.is_valid()) return {};
    const PyPool& native = instance<PyPool>(pool);
    const std::uint64_t size = native.bytes_of(nbytes);
    if (size == 0) return {};
    auto lease = lease_free_block(native, {size}, stream);
    return lease ? native.wrap(*std::move(lease)) : nb::object();
  }
  bool begin_change(std::uint64_t epoch) {
    if (epoch != last_epoch_) return false;
    if (epoch_ != last_epoch_) forget();
    return true;
  }

  static inline std::uint64_t last_epoch_ = 1;
  std::uint64_t epoch_ = last_epoch_;
  Library* driver_ = nullptr;  // whose current device counts
  std::vector<OfDevice> of_devices_;
  Ordinals of_ordinals_;
  WeakObjects<std::size_t> of_streams_;  // places in of_devices_
};

/// `self`: the argument of allocating_from().
PyObject* call_allocate(PyObject* self, PyObject* const* given, Py_ssize_t num_places, PyObject* keywords) noexcept {
  return raising_in_python([&]() -> PyObject* {
    static const Parameters parameters("allocate", 1, {"nbytes", "stream", "device"});
    Parameters::Values values{nullptr, Py_None, Py_None};
    if (!parameters.read(given, num_places, keywords, values)) return nullptr;
    const nb::handle nbytes(values[0]), stream(values[1]), device(values[2]);
    const nb::object used = nb::steal(PyObject_CallNoArgs(PyTuple_GetItem(self, 1)));
    if (!used.is_valid()) return nullptr;
    const nb::object known = used.is_none() ? nb::borrow(PyTuple_GetItem(self, 0)) : nb::object(used.attr("known"));
    nb::object buffer = instance<KnownPools>(known).allocate(nbytes, stream, device);
    if (!buffer.is_valid()) {
      const nb::handle slow(PyTuple_GetItem(self, 2));
      buffer = with_python([&] { return slow(nbytes, nb::arg("stream") = stream, nb::arg("device") = device); });
    }
    return buffer.release().ptr();
  });
}

/// A function of CPython. Its state is a tuple, so that the garbage collector sees the references.
nb::object allocating_from(const nb::tuple& state) {
  const nb::object slow = state[2];
  static const std::string doc =
      "allocate(nbytes, *, stream=None, device=None)\n--\n\n" + nb::cast<std::string>(slow.attr("__doc__"));
  static PyMethodDef method = method_entry("allocate", call_allocate, doc.c_str());
  return nb::steal(PyCFunction_NewEx(&method, state.ptr(), nb::object(slow.attr("__module__")).ptr()));
}

}  // namespace

void bind_known_pools(nb::module_& m) {
  nb::class_<KnownPools>(m, "KnownPools",
                         "The pools that `memlake.allocate` found, so that it need not look again. It keeps them.")
      .def(nb::init<>())
      .def_static("epoch", &KnownPools::epoch,
                  "How often current pools have changed. What was found before a change must not be remembered.")
      .def_static("note_change", &KnownPools::note_change,
                  "Another pool is current somewhere, or one was closed. All objects forget what they know.")
      .def("remember_ordinal", &KnownPools::remember_ordinal, nb::arg("driver"), nb::arg("ordinal").none(),
           nb::arg("pool"), nb::arg("epoch"),
           "The pool of a device by its ordinal; None: of threads that have no current device.")
      .def("remember", &KnownPools::remember, nb::arg("device"), nb::arg("pool"), nb::arg("stream").none(),
           nb::arg("epoch"), "The pool of a device; and of a stream object of it that is not a default stream.")
      .def("forget", &KnownPools::forget, "Forgets all pools.");
  m.def(
      "allocating_from", &allocating_from, nb::arg("state"),
      "`memlake.allocate`. It serves a call from free memory of a known pool, without Python code, or calls `slow`.\n\n"
      "Args:\n"
      "    state: a KnownPools; a function that returns None, or an object whose `known` is another KnownPools; and\n"
      "        `slow`, whose signature and docstring the result has.");
}

}  // namespace memlake::bindings
