#include "stream_cache.hpp"

#include <memory>

#include "base/process.hpp"
#include "gil.hpp"

namespace memlake::bindings {

StreamCache& StreamCache::of(LivePool& pool) {
  std::shared_ptr<void>& attachment = pool.attachment();
  if (attachment == nullptr) attachment = std::make_shared<StreamCache>();
  return *static_cast<StreamCache*>(attachment.get());
}

StreamCache::~StreamCache() {
  if (is_exiting()) return;  // the interpreter may be gone, and takes the references with it
  const GilHeld held;
  for (const Slot& slot : slots_) Py_XDECREF(slot.reference);
}

bool StreamCache::is_alive(const Slot& slot) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* object = nullptr;
  if (PyWeakref_GetRef(slot.reference, &object) != 1) return false;
  Py_DECREF(object);  // the caller has a reference, too
  return true;
#else
  return PyWeakref_GetObject(slot.reference) == slot.object;
#endif
}

void StreamCache::remember(nb::handle stream, KnownStream known) {
  PyObject* reference = PyWeakref_NewRef(stream.ptr(), nullptr);
  if (reference == nullptr) {
    PyErr_Clear();
    return;
  }
  Slot& slot = slots_[slot_of(stream)];
  PyObject* const before = slot.reference;
  slot = {stream.ptr(), reference, known, epoch_};
  Py_XDECREF(before);
}

}  // namespace memlake::bindings
