#include "pickle_objects.hpp"

#include <span>
#include <unordered_map>
#include <vector>

namespace memlake::bindings {
namespace {

using pickles::Document;
using pickles::Kind;
using pickles::Value;

// CPython's memory for a number or a text without its bytes, for a container with its garbage collector header, and for
// an entry of a dict and of a list.
constexpr std::uint64_t kScalarBytes = 56;
constexpr std::uint64_t kContainerBytes = 88;
constexpr std::uint64_t kEntryBytes = 48;
constexpr std::uint64_t kItemBytes = 8;

nb::object checked(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

nb::object to_int_object(const pickles::Wide& wide) {
  const nb::object high = checked(PyLong_FromLongLong(wide.high));
  const nb::object low = checked(PyLong_FromUnsignedLongLong(wide.low));
  const nb::object bits = checked(PyLong_FromLong(64));
  const nb::object shifted = checked(PyNumber_Lshift(high.ptr(), bits.ptr()));
  return checked(PyNumber_Or(shifted.ptr(), low.ptr()));
}

nb::object to_scalar(Document& document, Value value) {
  document.allowance.spend(kScalarBytes);
  switch (value.kind()) {
    case Kind::boolean:
      return nb::bool_(value.place() == 1);
    case Kind::integer:
      return checked(PyLong_FromLongLong(value.number()));
    case Kind::wide:
      return to_int_object(document.wides[value.place()]);
    case Kind::real:
      return checked(PyFloat_FromDouble(document.reals[value.place()]));
    case Kind::text:
      document.allowance.spend(document.text(value).size());
      return to_str(document.text(value));
    default:
      return nb::none();
  }
}

bool is_container(Kind kind) { return kind == Kind::list || kind == Kind::tuple || kind == Kind::dict; }

nb::object empty(Kind kind) {
  if (kind == Kind::list) return nb::list();
  if (kind == Kind::dict) return nb::dict();
  return checked(PyTuple_New(0));
}

/// Makes containers without recursion: lists and dicts are made empty and filled later, so that cycles end there.
class Maker {
 public:
  explicit Maker(Document& document) : document_(document) {}

  nb::object make(Value root) {
    nb::object object = of(root);
    while (!unfilled_.empty()) {
      const Value next = unfilled_.back();
      unfilled_.pop_back();
      fill(next);
    }
    return object;
  }

 private:
  nb::object of(Value value) {
    if (!is_container(value.kind())) return to_scalar(document_, value);
    const auto known = made_.find(value.bits());
    if (known != made_.end()) return known->second;
    if (value.kind() == Kind::tuple) return make_tuple(value);
    document_.allowance.spend(kContainerBytes);
    unfilled_.push_back(value);
    return made_.emplace(value.bits(), empty(value.kind())).first->second;
  }

  void fill(Value value) {
    const nb::object object = made_.at(value.bits());
    if (value.kind() == Kind::list) {
      for (const Value item : document_.items(value)) {
        document_.allowance.spend(kItemBytes);
        const nb::object made = of(item);
        if (PyList_Append(object.ptr(), made.ptr()) != 0) throw nb::python_error();
      }
      return;
    }
    for (std::uint64_t number = 0; number < document_.dicts.num_entries(value.place()); ++number) {
      document_.allowance.spend(kEntryBytes);
      const auto [key, item] = document_.dicts.entry(value.place(), number);
      const nb::object name = to_str(document_.texts[key]);
      const nb::object made = of(item);
      if (PyDict_SetItem(object.ptr(), name.ptr(), made.ptr()) != 0) throw nb::python_error();
    }
  }

  /// Makes the tuples inside it first.
  nb::object make_tuple(Value root) {
    std::vector<Value> open = {root};
    while (!open.empty()) {
      const Value tuple = open.back();
      if (made_.contains(tuple.bits())) {
        open.pop_back();
        continue;
      }
      const std::size_t depth = open.size();
      for (const Value item : document_.items(tuple))
        if (item.kind() == Kind::tuple && !made_.contains(item.bits())) open.push_back(item);
      if (open.size() > depth) continue;
      open.pop_back();
      const std::span<const Value> items = document_.items(tuple);
      document_.allowance.spend(kContainerBytes + kItemBytes * items.size());
      nb::object object = checked(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
      for (std::size_t place = 0; place < items.size(); ++place)
        PyTuple_SetItem(object.ptr(), static_cast<Py_ssize_t>(place), of(items[place]).release().ptr());
      made_.emplace(tuple.bits(), std::move(object));
    }
    return made_.at(root.bits());
  }

  Document& document_;
  std::unordered_map<std::uint64_t, nb::object> made_;
  std::vector<Value> unfilled_;
};

}  // namespace

nb::object to_str(std::string_view text) {
  return checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass"));
}

nb::object to_plain(Document& document, Value value) { return Maker(document).make(value); }

nb::object to_shallow(Document& document, Value value) {
  const auto inner = [&](Value item) {
    return is_container(item.kind()) ? empty(item.kind()) : to_scalar(document, item);
  };
  if (value.kind() != Kind::dict) return inner(value);
  nb::dict shallow;
  for (std::uint64_t number = 0; number < document.dicts.num_entries(value.place()); ++number) {
    const auto [key, item] = document.dicts.entry(value.place(), number);
    shallow[to_str(document.texts[key])] = inner(item);
  }
  return shallow;
}

}  // namespace memlake::bindings
