#include "stream_cache.hpp"

#include <algorithm>
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
  for (const Set& set : slots_)
    for (const Slot& slot : set) Py_XDECREF(slot.reference);
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
  Set& set = slots_[set_of(stream)];
  auto at = std::ranges::find(set, stream.ptr(), &Slot::object);
  if (at == set.end()) --at;
  PyObject* const before = at->reference;
  std::move_backward(set.begin(), at, at + 1);
  set.front() = {stream.ptr(), reference, known, epoch_};
  Py_XDECREF(before);
}

}  // namespace memlake::bindings
