#pragma once

// Declarations for the bind_*.cpp files: the holder of native objects in Python objects, and the bind functions.

#include <nanobind/nanobind.h>

#include <exception>
#include <memory>
#include <utility>

#include "gil.hpp"

namespace memlake::bindings {

namespace nb = nanobind;

/// A Python object's reference to a native object. It is dropped without the GIL, because dropping the last reference
/// may call the driver.
template <class T>
class Shared {
 public:
  explicit Shared(std::shared_ptr<T> object) : object_(std::move(object)) {}
  Shared(Shared&&) noexcept = default;
  Shared& operator=(Shared&&) = delete;
  ~Shared() {
    if (object_ != nullptr) without_gil([this] { object_.reset(); });
  }

  const std::shared_ptr<T>& share() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_.get(); }

 private:
  std::shared_ptr<T> object_;
};

void bind_arrays(nb::module_& m);
void bind_device(nb::module_& m);
void bind_driver(nb::module_& m);
void bind_emulated_work(nb::module_& m);
void bind_features(nb::module_& m);
void bind_pickles(nb::module_& m);
void bind_lease(nb::module_& m);
void bind_pool(nb::module_& m);
void bind_publishing(nb::module_& m);
void bind_recorded(nb::module_& m);
void bind_replay(nb::module_& m);
void bind_sharing(nb::module_& m);
void bind_snapshots(nb::module_& m);
void bind_streams(nb::module_& m);
void bind_undo_failure(nb::module_& m);
void bind_vmm(nb::module_& m);
void translate_exceptions();

/// Sets the Python exception for one of C++ that a function of the core or of nanobind threw. nanobind does that for
/// the functions that it calls.
void set_python_error(const std::exception_ptr& pointer);

}  // namespace memlake::bindings
