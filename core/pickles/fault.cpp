#include "pickles/fault.hpp"

namespace memlake::pickles {

const char* name_of(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::missing:
      return "missing";
    case FaultKind::nesting:
      return "nesting";
    case FaultKind::memo_order:
      return "memo_order";
    case FaultKind::text_too_long:
      return "text_too_long";
    case FaultKind::text_encoding:
      return "text_encoding";
    case FaultKind::number_too_long:
      return "number_too_long";
    case FaultKind::no_dict:
      return "no_dict";
    case FaultKind::no_list:
      return "no_list";
    case FaultKind::key:
      return "key";
    case FaultKind::protocol:
      return "protocol";
    case FaultKind::opcode:
      return "opcode";
    case FaultKind::memory:
      return "memory";
  }
  return "";
}

}  // namespace memlake::pickles
