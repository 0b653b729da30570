// The driver's linker.

#include "code/images/bytes.hpp"
#include "code/images/fatbin.hpp"
#include "code/jit_options.hpp"
#include "entries/entry.hpp"
#include "entries/images.hpp"

namespace memlake::emulator {

namespace {

// CUjitInputType.
constexpr int kInputCubin = 0;
constexpr int kInputPtx = 1;
constexpr int kInputFatbin = 2;
constexpr int kInputObject = 3;
constexpr int kInputLibrary = 4;
constexpr int kInputNvvm = 5;

void check_type(CUjitInputType type) {
  if (type < kInputCubin || type > kInputNvvm) invalid("input type ", type, " is unknown");
  if (type == kInputObject || type == kInputLibrary || type == kInputNvvm)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator links PTX, cubins and fatbins, and no ",
           type == kInputNvvm ? "LTO-IR" : "object files and archives");
}

void add(Session& session, CUlinkState state, CUjitInputType type, std::vector<char> bytes) {
  Driver& driver = session.driver;
  Link& link = driver.links.find(state);
  check_type(type);
  if (!link.output.empty()) invalid("the link is complete, so nothing can be added");
  const Device& device = *driver.contexts.current().device;
  if (type == kInputFatbin) bytes = code_for(Bytes(bytes), architecture_of(device));
  while (type == kInputPtx && !bytes.empty() && bytes.back() == '\0') bytes.pop_back();
  check_linkable(bytes, {architecture_of(device), driver.version()});
  link.inputs.push_back(std::move(bytes));
}

}  // namespace

MEMLAKE_EXPORT CUresult cuLinkCreate_v2(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
  return enter(Call::cuLinkCreate_v2, MEMLAKE_CALLER, [&](Session& session) {
    CUlinkState& out = required(state, "state");
    session.driver.contexts.current();
    const JitOptions checked(count, options, values);
    out = reinterpret_cast<CUlinkState>(session.driver.links.create().handle);
  });
}

MEMLAKE_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char*,
                                         unsigned count, CUjit_option* options, void** values) {
  return enter(Call::cuLinkAddData_v2, MEMLAKE_CALLER, [&](Session& session) {
    if (data == nullptr || size == 0) invalid("there is no data");
    const JitOptions checked(count, options, values);
    add(session, state, type, copy_of_program_memory(data, size));
  });
}

MEMLAKE_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                                         CUjit_option* options, void** values) {
  return enter(Call::cuLinkAddFile_v2, MEMLAKE_CALLER, [&](Session& session) {
    required(path, "the name of the file");
    const JitOptions checked(count, options, values);
    add(session, state, type, copy_of_file(path));
  });
}

MEMLAKE_EXPORT CUresult cuLinkComplete(CUlinkState state, void** image, size_t* size) {
  return enter(Call::cuLinkComplete, MEMLAKE_CALLER, [&](Session& session) {
    void*& out = required(image, "the image");
    Link& link = session.driver.links.find(state);
    if (link.inputs.empty()) invalid("the link has no input");
    if (link.output.empty()) link.output = linked(link.inputs);
    out = link.output.data();
    if (size != nullptr) *size = link.output.size();
  });
}

MEMLAKE_EXPORT CUresult cuLinkDestroy(CUlinkState state) {
  return enter(Call::cuLinkDestroy, MEMLAKE_CALLER, [&](Session& session) { session.driver.links.destroy(state); });
}

}  // namespace memlake::emulator
