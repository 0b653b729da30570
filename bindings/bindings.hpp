#pragma once

// What the bind_*.cpp files share: how Python holds a native object, and how the GIL is given up.

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

namespace memlake::bindings {

namespace nb = nanobind;

/// Runs `work` without the GIL. Everything that may call the driver goes through here: a driver call can wait for
/// device work, and that work may be a host function that needs the GIL.
template <class Work>
decltype(auto) without_gil(Work&& work) {
  const nb::gil_scoped_release released;
  return std::forward<Work>(work)();
}

/// What a Python object holds: a share of a native object. Dropping the last share may call the driver, too.
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

void bind_device(nb::module_& m);
void bind_driver(nb::module_& m);
void bind_emulated_work(nb::module_& m);
void bind_streams(nb::module_& m);
void bind_undo_failure(nb::module_& m);
void bind_vmm(nb::module_& m);
void translate_exceptions();

}  // namespace memlake::bindings
