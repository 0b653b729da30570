#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <variant>

#include "bindings.hpp"
#include "integers.hpp"
#include "pickle_objects.hpp"
#include "pickles/read_pickle.hpp"

namespace memlake::bindings {
namespace {

const char* kind_of(const PickleNode& node) {
  switch (node.value.kind()) {
    case pickles::Kind::dict:
      return "dict";
    case pickles::Kind::list:
      return "list";
    case pickles::Kind::tuple:
      return "tuple";
    default:
      return "scalar";
  }
}

nb::object words_of(const pickles::Fault& fault) {
  nb::list words;
  for (const std::string& word : fault.words) words.append(nb::bytes(word.data(), word.size()));
  return words;
}

nb::object read(const nb::bytes& data, const nb::int_& allowed, const nb::object& progress) {
  const std::span pickle(static_cast<const std::byte*>(data.data()), data.size());
  const std::uint64_t most = to_count(allowed, "allowed");
  const pickles::ReadProgress report = [&](std::uint64_t done) {
    const GilHeld held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(done);
  };
  auto result = without_gil([&] { return pickles::read_pickle(pickle, most, report); });
  if (auto* fault = std::get_if<pickles::Fault>(&result)) return nb::cast(std::move(*fault));
  auto& document = std::get<std::unique_ptr<pickles::Document>>(result);
  const pickles::Value root = document->root;
  return nb::cast(PickleNode{std::make_shared<PickleFile>(PickleFile{data, std::move(document)}), root});
}

/// Turns a refusal for lack of memory into Python's MemoryError.
template <class Work>
nb::object or_memory_error(Work work) {
  try {
    return work();
  } catch (const pickles::Refused&) {
    PyErr_SetString(PyExc_MemoryError, "the objects of the pickle take more memory than is allowed");
    throw nb::python_error();
  }
}

}  // namespace

void bind_pickles(nb::module_& m) {
  nb::class_<pickles::Fault>(m, "PickleFault", "Why a pickle is refused.")
      .def_prop_ro("kind", [](const pickles::Fault& self) { return pickles::name_of(self.kind); })
      .def_ro("at", &pickles::Fault::at, "The byte.")
      .def_ro("number", &pickles::Fault::number)
      .def_ro("other", &pickles::Fault::other)
      .def_prop_ro("words", &words_of, nb::sig("def words(self) -> list[bytes]"));

  nb::class_<PickleNode>(m, "PickleNode", "A value inside a pickle, which it keeps alive.")
      .def_prop_ro("kind", &kind_of, "'dict', 'list', 'tuple' or 'scalar'.")
      .def(
          "get",
          [](const PickleNode& self, const std::string& key) -> std::optional<PickleNode> {
            const auto found = self.file->document->get(self.value, key);
            if (!found) return std::nullopt;
            return PickleNode{self.file, *found};
          },
          nb::arg("key"), "The value of a key; None if there is none, or if this is no dict.")
      .def(
          "keys",
          [](const PickleNode& self) -> nb::object {
            nb::list keys;
            const pickles::Dicts& dicts = self.file->document->dicts;
            if (self.value.kind() == pickles::Kind::dict)
              for (std::uint64_t number = 0; number < dicts.num_entries(self.value.place()); ++number)
                keys.append(to_str(self.file->document->texts[dicts.entry(self.value.place(), number).first]));
            return keys;
          },
          nb::sig("def keys(self) -> list[str]"), "The keys of a dict.")
      .def("__len__",
           [](const PickleNode& self) -> std::uint64_t {
             if (self.value.kind() == pickles::Kind::dict)
               return self.file->document->dicts.num_entries(self.value.place());
             const bool has_items =
                 self.value.kind() == pickles::Kind::list || self.value.kind() == pickles::Kind::tuple;
             return has_items ? self.file->document->items(self.value).size() : 0;
           })
      .def(
          "item",
          [](const PickleNode& self, const nb::int_& place) {
            const bool has_items =
                self.value.kind() == pickles::Kind::list || self.value.kind() == pickles::Kind::tuple;
            const auto items = has_items ? self.file->document->items(self.value) : std::span<const pickles::Value>();
            const std::uint64_t at = to_count(place, "place");
            if (at >= items.size()) throw nb::index_error("the list has fewer items");
            return PickleNode{self.file, items[at]};
          },
          nb::arg("place"), "An item of a list or of a tuple.")
      .def(
          "plain",
          [](const PickleNode& self) {
            return or_memory_error([&] { return to_plain(*self.file->document, self.value); });
          },
          nb::sig("def plain(self) -> object"), "What Python would have unpickled. MemoryError if it is too much.")
      .def(
          "shallow",
          [](const PickleNode& self) {
            return or_memory_error([&] { return to_shallow(*self.file->document, self.value); });
          },
          nb::sig("def shallow(self) -> object"),
          "What Python would have unpickled, with every container inside it empty.");

  m.def("read_pickle", &read, nb::arg("data"), nb::arg("allowed"), nb::arg("progress").none(),
        nb::sig("def read_pickle(data: bytes, allowed: int, progress: object | None) -> PickleNode | PickleFault"),
        "Reads a pickle of plain data; imports and calls nothing. allowed: the bytes that the values may take.\n"
        "progress: called with the bytes that are read, from time to time. Runs without the GIL.");
}

}  // namespace memlake::bindings
