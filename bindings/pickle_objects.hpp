#pragma once

// The Python objects for pickles: a pickle with the bytes that its texts are in, and a value inside it.

#include <memory>
#include <string_view>

#include "bindings.hpp"
#include "pickles/document.hpp"

namespace memlake::bindings {

struct PickleFile {
  nb::bytes data;
  std::unique_ptr<pickles::Document> document;
};

struct PickleNode {
  std::shared_ptr<PickleFile> file;
  pickles::Value value;
};

/// A str. Lone surrogates are kept, as Python's pickles have them.
nb::object to_str(std::string_view text);

/// The value as Python would have unpickled it: a list that two containers share is one list. The function counts the
/// memory of the objects as memory of the document, and throws pickles::Refused if that is too much.
nb::object to_plain(pickles::Document& document, pickles::Value value);

/// The value as to_plain() gives it, but with empty containers inside a container.
nb::object to_shallow(pickles::Document& document, pickles::Value value);

}  // namespace memlake::bindings
