#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "pool_objects.hpp"
#include "runtime/published_figures.hpp"

namespace memlake::bindings {
namespace {

/// What the Python function says is to be published. It is called without the GIL.
Publication look_through(const nb::callable& look) {
  const GilHeld held;
  return with_python([&] {
    const nb::tuple found = nb::cast<nb::tuple>(look());
    Publication publication{nb::cast<std::string>(found[0]), {}};
    for (nb::handle entry : found[1]) {
      const nb::tuple pair = nb::cast<nb::tuple>(entry);
      publication.pools.push_back({nb::cast<PyPool&>(pair[0]).core, nb::cast<std::string>(pair[1])});
    }
    return publication;
  });
}

}  // namespace

void bind_publishing(nb::module_& m) {
  m.def("publication_changed", &publication_changed, "A pool was made that readers of figures shall see.");
  m.def(
      "answer_reader",
      [](int socket, const nb::callable& look) {
        without_gil([&] { answer_reader(socket, [&] { return look_through(look); }); });
      },
      nb::arg("socket"), nb::arg("look"),
      nb::sig("def answer_reader(socket: int, look: typing.Callable[[], tuple[str, typing.Sequence[tuple[Pool, "
              "str]]]]) -> None"),
      "Answers a reader until it or the socket ends. look() returns the beginning of a JSON object about the process,\n"
      "and each pool with the beginning of one about it, without their ends.");
}

}  // namespace memlake::bindings
