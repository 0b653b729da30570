#pragma once

// The native parts of Python's pool and buffer objects.

#include <memory>
#include <optional>
#include <utility>

#include "abi/pool_handle.hpp"
#include "base/process.hpp"
#include "bindings.hpp"
#include "runtime/live_pool.hpp"

namespace memlake::bindings {

/// The base class of memlake.Buffer.
class PyLease {
 public:
  explicit PyLease(Lease lease) : lease_(std::move(lease)) {}
  PyLease(PyLease&&) noexcept = default;
  PyLease& operator=(PyLease&&) = delete;
  ~PyLease() {
    if (!lease_) return;
    // A close usually needs no driver call, so it keeps the GIL. A thread that drops the last reference to the pool may
    // have to wait for the driver, so it releases the GIL.
    const bool is_last = lease_->pool().use_count() == 1;
    if (is_exiting() || (!is_last && (!lease_->is_open() || lease_->close_at_once()))) return;
    without_gil([this] { lease_.reset(); });
  }

  Lease& operator*() noexcept { return *lease_; }
  Lease* operator->() noexcept { return &*lease_; }

  bool is_watched = false;  ///< close() must call the Python method _close_slowly

 private:
  std::optional<Lease> lease_;
};

/// The base class of memlake.Pool.
struct PyPool {
  std::shared_ptr<LivePool> core;
  nb::object buffer_type;
  std::unique_ptr<abi::BorrowedHandle> handle = nullptr;  ///< made on first use

  PyPool(std::shared_ptr<LivePool> pool, nb::object type) : core(std::move(pool)), buffer_type(std::move(type)) {}
  PyPool(PyPool&&) noexcept = default;
  PyPool& operator=(PyPool&&) = delete;
  ~PyPool() {
    if (core != nullptr) without_gil([this] { core.reset(); });
  }

  [[nodiscard]] nb::object wrap(Lease lease) const {
    nb::object buffer = nb::inst_alloc(buffer_type);
    new (nb::inst_ptr<PyLease>(buffer)) PyLease(std::move(lease));
    nb::inst_mark_ready(buffer);
    return buffer;
  }
};

}  // namespace memlake::bindings
