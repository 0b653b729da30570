#pragma once

// WeakObjects: values for Python objects that come again. An object is kept by a weak reference: another object at the
// address of one that is gone is not taken for it.

#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/process.hpp"
#include "gil.hpp"

namespace memlake::bindings {

namespace nb = nanobind;

/// It has a fixed number of places. All functions need the GIL.
template <class Value>
class WeakObjects {
 public:
  WeakObjects() = default;
  WeakObjects(const WeakObjects&) = delete;
  WeakObjects& operator=(const WeakObjects&) = delete;
  /// Takes the GIL.
  ~WeakObjects() {
    if (is_exiting()) return;  // the interpreter may be gone, and takes the references with it
    const GilHeld held;
    clear();
  }

  /// Null if the object is not known. Valid until the next change.
  [[nodiscard]] const Value* find(nb::handle object) const noexcept {
    for (const Slot& slot : slots_[set_of(object)])
      if (slot.object == object.ptr()) return is_alive(slot) ? &slot.value : nullptr;
    return nullptr;
  }
  /// Does nothing for an object that cannot be referenced weakly.
  void remember(nb::handle object, Value value) {
    PyObject* reference = PyWeakref_NewRef(object.ptr(), nullptr);
    if (reference == nullptr) {
      PyErr_Clear();
      return;
    }
    Set& set = slots_[set_of(object)];
    auto at = std::ranges::find(set, object.ptr(), &Slot::object);
    if (at == set.end()) --at;
    PyObject* const before = at->reference;
    std::move_backward(set.begin(), at, at + 1);
    set.front() = {object.ptr(), reference, value};
    Py_XDECREF(before);
  }
  void clear() noexcept {
    for (Set& set : slots_)
      for (Slot& slot : set) {
        PyObject* const before = slot.reference;
        slot = {};
        Py_XDECREF(before);
      }
  }

 private:
  struct Slot {
    PyObject* object = nullptr;     // only compared
    PyObject* reference = nullptr;  // a weak reference to it, owned
    Value value{};
  };
  // The address of an object selects a set. In a full set a new object displaces the oldest one.
  static constexpr std::size_t kSets = 32;
  static constexpr std::size_t kSlotsPerSet = 4;
  using Set = std::array<Slot, kSlotsPerSet>;  // the newest first

  static std::size_t set_of(nb::handle object) noexcept {
    return (reinterpret_cast<std::uintptr_t>(object.ptr()) >> 4) % kSets;
  }
  static bool is_alive(const Slot& slot) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* object = nullptr;
    if (PyWeakref_GetRef(slot.reference, &object) != 1) return false;
    Py_DECREF(object);  // the caller has a reference, too
    return true;
#else
    return PyWeakref_GetObject(slot.reference) == slot.object;
#endif
  }

  std::array<Set, kSets> slots_{};
};

}  // namespace memlake::bindings
