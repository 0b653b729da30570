#pragma once

// The native parts of Python's pool and buffer objects.

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "abi/pool_handle.hpp"
#include "base/process.hpp"
#include "bindings.hpp"
#include "runtime/live_pool.hpp"
#include "stream_cache.hpp"

namespace memlake::bindings {

/// A share of a pool. If it is the last one, its destructor ends the pool without the GIL: that may wait for devices.
class PoolShare {
 public:
  explicit PoolShare(std::shared_ptr<LivePool> pool) : pool_(std::move(pool)) {}
  PoolShare(const PoolShare&) = delete;
  PoolShare& operator=(const PoolShare&) = delete;
  ~PoolShare() {
    if (pool_.use_count() == 1) without_gil([this] { pool_.reset(); });
  }
  LivePool* operator->() const noexcept { return pool_.get(); }
  LivePool& operator*() const noexcept { return *pool_; }

 private:
  std::shared_ptr<LivePool> pool_;
};

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
    bindings::without_gil([this] { lease_.reset(); });
  }

  /// Runs `work` without the GIL. The pool exists meanwhile, also if another thread closes the lease.
  template <class Work>
  auto without_gil(Work&& work) {
    const PoolShare share(lease_->pool());
    return bindings::without_gil(std::forward<Work>(work));
  }
  /// A closed lease does not keep its pool. To be called behind everything that may have closed it. pre: the GIL is
  /// held, so no other thread reads lease_->pool().
  void leave_pool_if_over() {
    if (!lease_->is_over() || lease_->pool() == nullptr) return;
    left_device_ = lease_->pool()->devices().front();
    static_cast<void>(PoolShare(lease_->leave_pool()));
  }
  /// The first device of its pool.
  [[nodiscard]] const std::shared_ptr<Device>& device() const {
    return lease_->pool() == nullptr ? left_device_ : lease_->pool()->devices().front();
  }

  Lease& operator*() noexcept { return *lease_; }
  Lease* operator->() noexcept { return &*lease_; }

  bool is_watched = false;      ///< close() must call the Python method _close_slowly
  std::size_t num_exports = 0;  ///< DLPack tensors of it that are alive; changed with the GIL held

 private:
  std::optional<Lease> lease_;
  std::shared_ptr<Device> left_device_;  // of the pool that it has left
};

/// The device of a buffer, by DLPack: the first one that has memory of it; of an empty buffer the first one of its
/// pool. None: all of it is on the host, or all memory of the pool of an empty buffer is.
std::optional<int> ordinal_of(PyLease& lease);
/// A DLPack capsule over the memory of a buffer. The tensor keeps the buffer alive, and close() is refused meanwhile.
nb::object dlpack_of_lease(nb::handle_t<PyLease> self, int device_id, bool is_versioned);
nb::object dlpack_of_lease(nb::handle_t<PyLease> self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                           nb::handle copy);
/// Python's buffer protocol.
int buffer_of_lease(PyObject* self, Py_buffer* view, int flags) noexcept;

/// The base class of memlake.Pool.
struct PyPool {
  std::shared_ptr<LivePool> core;
  nb::object buffer_type;
  nb::dict sizes;                                         ///< texts that were passed as sizes, with their bytes
  std::unique_ptr<abi::BorrowedHandle> handle = nullptr;  ///< made on first use

  PyPool(std::shared_ptr<LivePool> pool, nb::object type) : core(std::move(pool)), buffer_type(std::move(type)) {}
  PyPool(PyPool&&) noexcept = default;
  PyPool& operator=(PyPool&&) = delete;
  ~PyPool() {
    if (core != nullptr) without_gil([this] { core.reset(); });
  }

  /// The bytes of a size that needs no Python code to be understood; 0 of any other.
  [[nodiscard]] std::uint64_t bytes_of(nb::handle size) const noexcept {
    PyObject* number = size.ptr();
    if (PyUnicode_CheckExact(number)) {
      number = PyDict_GetItemWithError(sizes.ptr(), number);
      if (number == nullptr) return 0;
    }
    if (PyBool_Check(number) || !PyIndex_Check(number)) return 0;
    const Py_ssize_t bytes = PyNumber_AsSsize_t(number, PyExc_OverflowError);
    if (bytes == -1) PyErr_Clear();
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }

  [[nodiscard]] nb::object wrap(Lease lease) const {
    nb::object buffer = nb::inst_alloc(buffer_type);
    new (nb::inst_ptr<PyLease>(buffer)) PyLease(std::move(lease));
    nb::inst_mark_ready(buffer);
    return buffer;
  }
};

/// Leases a free block of the pool, without Python code; std::nullopt if that is not possible.
std::optional<Lease> lease_free_block(const PyPool& pool, Bytes size, nb::handle stream);
std::optional<Lease> lease_free_block(const PyPool& pool, Bytes size, CUstream stream);
/// std::nullopt if the object is no int, or no handle.
std::optional<CUstream> stream_handle_of(nb::handle object) noexcept;
/// Pool.allocate, which CPython calls directly.
PyType_Slot* slots_of_pool();
/// The pools that `memlake.allocate` knows.
void bind_known_pools(nb::module_& m);
/// The methods of the pool for graph pools.
void bind_graph_pools(nb::class_<PyPool>& pool);

}  // namespace memlake::bindings
