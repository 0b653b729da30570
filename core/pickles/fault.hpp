#pragma once

// Why a pickle is refused. The Python package has the words for it.

#include <cstdint>
#include <string>
#include <vector>

namespace memlake::pickles {

enum class FaultKind : std::uint8_t {
  missing,          ///< an operand, a mark, a memo entry or a byte that is not there
  nesting,          ///< more open marks than `number`
  memo_order,       ///< place `number` of the memo is set, but `other` is the next one
  text_too_long,    ///< a text of `number` bytes goes beyond the end
  text_encoding,    ///< a text is not UTF-8
  number_too_long,  ///< a number has `number` bytes, and `other` are the most
  no_dict,          ///< entries without a dict
  no_list,          ///< items without a list
  key,              ///< a key of a dict is no text; `words` has its type
  protocol,         ///< protocol `number` is not known; `other` is the newest
  opcode,           ///< opcode `number` is not for plain data; `words` has the texts among its last two operands
  memory,           ///< the values take more memory than is allowed
};

struct Fault {
  FaultKind kind = FaultKind::missing;
  std::uint64_t at = 0;  ///< the byte
  std::uint64_t number = 0;
  std::uint64_t other = 0;
  std::vector<std::string> words = {};
};

/// The name of a kind, as Python code compares it.
const char* name_of(FaultKind kind) noexcept;

/// Thrown while values are made of a pickle.
struct Refused {
  Fault fault;
};

}  // namespace memlake::pickles
