#include "pickles/read_pickle.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pickles/utf8.hpp"

namespace memlake::pickles {
namespace {

constexpr std::uint64_t kBytesPerReport = std::uint64_t{4} << 20;

const char* python_type(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::wide:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
  }
  return "";
}

class Interpreter {
 public:
  Interpreter(std::span<const std::byte> pickle, Document& document, const ReadProgress& progress)
      : data_(reinterpret_cast<const std::uint8_t*>(pickle.data())),
        size_(pickle.size()),
        document_(document),
        allowance_(document.allowance),
        progress_(progress) {}

  /// Reads up to STOP. Throws Refused.
  void run() {
    try {
      while (step()) {
        if (at_ >= next_report_) [[unlikely]]
          report();
      }
    } catch (Refused& refused) {
      if (refused.fault.kind == FaultKind::memory) refused.fault.at = at_;
      throw;
    }
  }

 private:
  [[noreturn]] void refuse(FaultKind kind, std::uint64_t number = 0, std::uint64_t other = 0,
                           std::vector<std::string> words = {}) const {
    throw Refused{{kind, at_, number, other, std::move(words)}};
  }
  [[noreturn]] void refuse_missing() const { refuse(FaultKind::missing); }

  void report() {
    next_report_ = at_ + kBytesPerReport;
    if (progress_) progress_(at_);
  }

  /// Checks that the opcode is followed by `count` bytes.
  void need(std::uint64_t count) const {
    if (count > size_ - at_ - 1) refuse_missing();
  }
  template <class Number>
  Number argument() const {
    static_assert(std::endian::native == std::endian::little, "pickles have little-endian numbers");
    need(sizeof(Number));
    Number number = 0;
    std::memcpy(&number, data_ + at_ + 1, sizeof(Number));
    return number;
  }

  void push(Value value) {
    if (stack_.size() == stack_.capacity()) [[unlikely]] {
      const std::size_t more = std::max<std::size_t>(1024, stack_.capacity());
      allowance_.spend(more * sizeof(Value));
      stack_.reserve(stack_.capacity() + more);
    }
    stack_.push_back(value);
  }
  [[nodiscard]] std::size_t depth() const { return stack_.size() - base_; }
  [[nodiscard]] Value top() const {
    if (depth() == 0) refuse_missing();
    return stack_.back();
  }
  Value pop() {
    const Value value = top();
    stack_.pop_back();
    return value;
  }

  void mark() {
    if (marks_.size() >= kDeepest) refuse(FaultKind::nesting, kDeepest);
    marks_.push_back(base_);
    base_ = stack_.size();
  }
  /// The values above the last mark, which is removed. They stay on the stack until drop().
  std::span<const Value> above_mark() {
    if (marks_.empty()) refuse_missing();
    const std::span<const Value> above(stack_.data() + base_, depth());
    dropped_to_ = base_;
    base_ = marks_.back();
    marks_.pop_back();
    return above;
  }
  void drop() { stack_.resize(dropped_to_); }
  /// The value below the values of above_mark().
  [[nodiscard]] Value below_mark() const {
    if (dropped_to_ == base_) refuse_missing();
    return stack_[dropped_to_ - 1];
  }

  void memoize(Value value) { memo_.add(allowance_, value); }
  void push_memo(std::uint64_t place) {
    if (place >= memo_.size()) refuse_missing();
    push(memo_[place]);
  }
  void put(std::uint64_t place) {
    if (place != memo_.size()) refuse(FaultKind::memo_order, place, memo_.size());
    memoize(top());
  }

  void push_number(std::int64_t number) {
    if (Value::fits(number)) {
      push(Value::integer(number));
    } else {
      const Wide wide{static_cast<std::uint64_t>(number), number < 0 ? -1 : 0};
      push(Value(Kind::wide, document_.wides.add(allowance_, wide)));
    }
  }

  /// A number of `length` bytes after the opcode and `head` bytes more.
  void push_long(std::uint64_t head, std::uint64_t length) {
    if (length > kLongestNumber) refuse(FaultKind::number_too_long, length, kLongestNumber);
    need(head + length);
    const std::uint8_t* bytes = data_ + at_ + 1 + head;
    const bool is_negative = length > 0 && bytes[length - 1] >= 0x80;
    std::uint8_t extended[kLongestNumber];
    std::memset(extended, is_negative ? 0xFF : 0, sizeof(extended));
    if (length > 0) std::memcpy(extended, bytes, length);
    Wide wide;
    std::memcpy(&wide.low, extended, 8);
    std::memcpy(&wide.high, extended + 8, 8);
    const auto low = static_cast<std::int64_t>(wide.low);
    if (wide.high == (low < 0 ? -1 : 0)) {
      push_number(low);
    } else {
      push(Value(Kind::wide, document_.wides.add(allowance_, wide)));
    }
    at_ += 1 + head + length;
  }

  void push_text(std::uint64_t head, std::uint64_t length) {
    const std::uint64_t begin = at_ + 1 + head;
    if (length > size_ - begin) refuse(FaultKind::text_too_long, length);
    const std::string_view text(reinterpret_cast<const char*>(data_ + begin), length);
    if (const auto invalid = first_invalid(text)) {
      at_ = begin + *invalid;
      refuse(FaultKind::text_encoding);
    }
    push(Value(Kind::text, document_.texts.number_of(allowance_, text)));
    at_ = begin + length;
  }

  void set_items(Value target, std::span<const Value> entries) {
    if (target.kind() != Kind::dict || entries.size() % 2 != 0) refuse(FaultKind::no_dict);
    for (std::size_t place = 0; place < entries.size(); place += 2) {
      const Kind kind = entries[place].kind();
      if (kind != Kind::text) refuse(FaultKind::key, 0, 0, {python_type(kind)});
    }
    document_.dicts.set(allowance_, target.place(), entries);
  }

  void append(Value target, std::span<const Value> items) {
    if (target.kind() != Kind::list) refuse(FaultKind::no_list);
    document_.sequences.append(allowance_, target.place(), items);
  }

  void push_tuple(std::size_t count) {
    if (depth() < count) refuse_missing();
    const std::span<const Value> items(stack_.data() + stack_.size() - count, count);
    const std::uint64_t place = document_.sequences.add_tuple(allowance_, items);
    stack_.resize(stack_.size() - count);
    push(Value(Kind::tuple, place));
  }

  /// Interprets one opcode; false after STOP.
  bool step() {
    if (at_ >= size_) refuse_missing();
    switch (data_[at_]) {
      case 'h':  // BINGET
        push_memo(argument<std::uint8_t>());
        at_ += 2;
        return true;
      case 'j':  // LONG_BINGET
        push_memo(argument<std::uint32_t>());
        at_ += 5;
        return true;
      case 0x94:  // MEMOIZE
        memoize(top());
        ++at_;
        return true;
      case 0x8A:  // LONG1
        push_long(1, argument<std::uint8_t>());
        return true;
      case '(':  // MARK
        mark();
        ++at_;
        return true;
      case 'K':  // BININT1
        push(Value::integer(argument<std::uint8_t>()));
        at_ += 2;
        return true;
      case 'M':  // BININT2
        push(Value::integer(argument<std::uint16_t>()));
        at_ += 3;
        return true;
      case 'J':  // BININT
        push(Value::integer(argument<std::int32_t>()));
        at_ += 5;
        return true;
      case 0x8C:  // SHORT_BINUNICODE
        push_text(1, argument<std::uint8_t>());
        return true;
      case '}':  // EMPTY_DICT
        push(Value(Kind::dict, document_.dicts.add(allowance_)));
        ++at_;
        return true;
      case 'u': {  // SETITEMS
        const std::span<const Value> entries = above_mark();
        set_items(below_mark(), entries);
        drop();
        ++at_;
        return true;
      }
      case ']':  // EMPTY_LIST
        push(Value(Kind::list, document_.sequences.add_list(allowance_)));
        ++at_;
        return true;
      case 'e': {  // APPENDS
        const std::span<const Value> items = above_mark();
        append(below_mark(), items);
        drop();
        ++at_;
        return true;
      }
      case 'a': {  // APPEND
        const Value item = pop();
        append(top(), {&item, 1});
        ++at_;
        return true;
      }
      case 't': {  // TUPLE
        const std::span<const Value> items = above_mark();
        const std::uint64_t place = document_.sequences.add_tuple(allowance_, items);
        drop();
        push(Value(Kind::tuple, place));
        ++at_;
        return true;
      }
      case '.':  // STOP
        document_.root = top();
        return false;
      default:
        read_rare_opcode();
        return true;
    }
  }

  /// The opcodes that are rare in a snapshot. They are apart, so that the loop over the common ones stays small.
  void read_rare_opcode() {
    switch (const std::uint8_t code = data_[at_]) {
      case 'N':  // NONE
        push({});
        ++at_;
        return;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push(Value(Kind::boolean, code == 0x88 ? 1 : 0));
        ++at_;
        return;
      case ')':  // EMPTY_TUPLE
        push_tuple(0);
        ++at_;
        return;
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        push_tuple(code - 0x84U);
        ++at_;
        return;
      case 'q':  // BINPUT
        put(argument<std::uint8_t>());
        at_ += 2;
        return;
      case 'r':  // LONG_BINPUT
        put(argument<std::uint32_t>());
        at_ += 5;
        return;
      case 'X':  // BINUNICODE
        push_text(4, argument<std::uint32_t>());
        return;
      case 0x8D:  // BINUNICODE8
        push_text(8, argument<std::uint64_t>());
        return;
      case 'G': {  // BINFLOAT, big-endian
        std::uint64_t bits = 0;
        for (unsigned place = 0; place < 8; ++place) {
          need(place + 1);
          bits = bits << 8 | data_[at_ + 1 + place];
        }
        push(Value(Kind::real, document_.reals.add(allowance_, std::bit_cast<double>(bits))));
        at_ += 9;
        return;
      }
      case 's': {  // SETITEM
        const Value value = pop();
        const Value key = pop();
        const Value entry[] = {key, value};
        set_items(top(), entry);
        ++at_;
        return;
      }
      case 0x8B:  // LONG4
        push_long(4, argument<std::uint32_t>());
        return;
      case 0x95:  // FRAME: a hint for reading ahead
        need(8);
        at_ += 9;
        return;
      case 0x80:  // PROTO
        if (argument<std::uint8_t>() > kNewestProtocol)
          refuse(FaultKind::protocol, argument<std::uint8_t>(), kNewestProtocol);
        at_ += 2;
        return;
      default: {
        std::vector<std::string> words;
        for (std::size_t place = stack_.size() - std::min<std::size_t>(depth(), 2); place < stack_.size(); ++place)
          if (stack_[place].kind() == Kind::text) words.emplace_back(document_.text(stack_[place]).substr(0, 1000));
        refuse(FaultKind::opcode, code, 0, std::move(words));
      }
    }
  }

  const std::uint8_t* data_;
  std::uint64_t size_;
  Document& document_;
  Allowance& allowance_;
  const ReadProgress& progress_;
  std::uint64_t at_ = 0;
  std::uint64_t next_report_ = kBytesPerReport;
  std::vector<Value> stack_;
  /// The stack of the current mark begins here.
  std::size_t base_ = 0;
  std::vector<std::size_t> marks_;
  std::size_t dropped_to_ = 0;
  Table<Value> memo_;
};

}  // namespace

std::variant<std::unique_ptr<Document>, Fault> read_pickle(std::span<const std::byte> pickle, std::uint64_t allowed,
                                                           const ReadProgress& progress) {
  auto document = std::make_unique<Document>(allowed);
  try {
    Interpreter(pickle, *document, progress).run();
  } catch (Refused& refused) {
    return std::move(refused.fault);
  }
  return document;
}

}  // namespace memlake::pickles
