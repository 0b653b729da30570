// The settings of core dumps. The emulator writes no core dump; the first call that enables one leaves a warning.

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

/// What the four functions have in common: without a value the program asks for its size.
template <class Use>
void with_value(int setting, void* value, size_t* size, Use&& use) {
  const CoredumpSetting found = CoredumpSettings::checked(setting);
  required(size, "size");
  if (value == nullptr) {
    *size = CoredumpSettings::size_of(found);
  } else {
    use(found);
  }
}

void set(Session& session, CoredumpSettings& settings, CoredumpSetting setting, const void* value, size_t size) {
  const bool was_enabled = settings.is_on_exception();
  settings.set(setting, value, size);
  if (settings.is_on_exception() && !was_enabled)
    session.driver.ledger.note_warning(session.origin, "the emulator writes no core dumps; the setting is only kept");
}

}  // namespace

MEMLAKE_EXPORT CUresult cuCoredumpGetAttribute(int setting, void* value, size_t* size) {
  return enter(Call::cuCoredumpGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    const CoredumpSettings& settings = session.driver.contexts.current().coredump;
    with_value(setting, value, size, [&](CoredumpSetting found) { settings.get(found, value, *size); });
  });
}

MEMLAKE_EXPORT CUresult cuCoredumpSetAttribute(int setting, void* value, size_t* size) {
  return enter(Call::cuCoredumpSetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    CoredumpSettings& settings = session.driver.contexts.current().coredump;
    with_value(setting, value, size, [&](CoredumpSetting found) {
      if (found == CoredumpSetting::user_trigger || found == CoredumpSetting::pipe)
        invalid("this setting is for the whole process (cuCoredumpSetAttributeGlobal)");
      set(session, settings, found, value, *size);
    });
  });
}

// These two may be called before cuInit, so that the first context begins with the settings.
MEMLAKE_EXPORT CUresult cuCoredumpGetAttributeGlobal(int setting, void* value, size_t* size) {
  return enter(
      Call::cuCoredumpGetAttributeGlobal, MEMLAKE_CALLER,
      [&](Session& session) {
        with_value(setting, value, size,
                   [&](CoredumpSetting found) { session.driver.contexts.coredump.get(found, value, *size); });
      },
      Need::nothing);
}

MEMLAKE_EXPORT CUresult cuCoredumpSetAttributeGlobal(int setting, void* value, size_t* size) {
  return enter(
      Call::cuCoredumpSetAttributeGlobal, MEMLAKE_CALLER,
      [&](Session& session) {
        with_value(setting, value, size,
                   [&](CoredumpSetting found) { set(session, session.driver.contexts.coredump, found, value, *size); });
      },
      Need::nothing);
}

}  // namespace memlake::emulator
