// A driver that exports the required functions only, each answering "unknown error"; with WITHOUT_CREATE it lacks one
// of them, too. For the tests of loading.

#include "driver/cuda_abi.hpp"

namespace memlake::cuda {

// NOLINTBEGIN: the parameters of a function that does nothing
#pragma GCC diagnostic ignored "-Wunused-parameter"

// The label gives the function the name that is looked up.
#define DEFINE_required(name, symbol, parameters)                                                    \
  extern "C" __attribute__((visibility("default"))) CUresult stub_##name parameters __asm__(symbol); \
  CUresult stub_##name parameters { return CUDA_ERROR_UNKNOWN; }
#define DEFINE_optional(name, symbol, parameters)

#ifdef WITHOUT_CREATE
__asm__(".hidden cuMemCreate");
#endif

#define F(name, symbol, need, parameters, arguments) DEFINE_##need(name, symbol, parameters)
#include "driver/functions.inc"
#undef F
// NOLINTEND

}  // namespace memlake::cuda
