#pragma once

// What Python holds of a pool: the pool itself, and one allocation.

#include <memory>
#include <optional>
#include <utility>

#include "abi/pool_handle.hpp"
#include "base/process.hpp"
#include "bindings.hpp"
#include "runtime/live_pool.hpp"

namespace memlake::bindings {

/// What memlake.Buffer derives from.
class PyLease {
 public:
  explicit PyLease(Lease lease) : lease_(std::move(lease)) {}
  PyLease(PyLease&&) noexcept = default;
  PyLease& operator=(PyLease&&) = delete;
  ~PyLease() {
    if (!lease_) return;
    // The usual end needs no driver call, so it keeps the GIL; whoever drops the pool's last share may have to wait.
    const bool is_last = lease_->pool().use_count() == 1;
    if (is_exiting() || (!is_last && (!lease_->is_open() || lease_->close_at_once()))) return;
    without_gil([this] { lease_.reset(); });
  }

  Lease& operator*() noexcept { return *lease_; }
  Lease* operator->() noexcept { return &*lease_; }

  bool is_watched = false;  ///< somebody must be asked before it is closed

 private:
  std::optional<Lease> lease_;
};

/// What memlake.Pool derives from.
struct PyPool {
  std::shared_ptr<LivePool> core;
  nb::object buffer_type;
  std::unique_ptr<abi::BorrowedHandle> handle = nullptr;  ///< once somebody asked for it

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
