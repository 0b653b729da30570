#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <thread>

#include "integers.hpp"
#include "pool_objects.hpp"
#include "stream_names.hpp"

namespace memlake::bindings {
namespace {

nb::tuple to_tuple(GraphPoolId id) { return nb::make_tuple(id.first, id.second); }

LiveGraphs::RequestFilter filter_of(std::optional<std::uint64_t> handle) {
  if (!handle) return [thread = std::this_thread::get_id()](CUstream) { return std::this_thread::get_id() == thread; };
  // 1 is another name of the default stream.
  const auto stream = reinterpret_cast<CUstream>(*handle == 1 ? 0 : *handle);
  return [stream](CUstream asked) { return (asked == kLegacyStream ? nullptr : asked) == stream; };
}

}  // namespace

void bind_graph_pools(nb::class_<PyPool>& pool) {
  pool.def(
          "_make_graph_pool_id",
          [](const PyPool& self) { return to_tuple(without_gil([&] { return self.core->graphs().make_id(); })); },
          nb::sig("def _make_graph_pool_id(self) -> tuple[int, int]"), "An id that no graph pool of the pool has.")
      .def(
          "_begin_graph_requests",
          [](const PyPool& self, std::uint64_t first, std::uint64_t second, std::optional<std::uint64_t> handle) {
            auto takes = filter_of(handle);
            return without_gil([&] { return self.core->graphs().begin_requests({first, second}, std::move(takes)); });
          },
          nb::arg("first"), nb::arg("second"), nb::arg("handle").none(),
          "Requests go to the graph pool from now on: those for the stream with the handle, or, if it is None, those "
          "of\n"
          "the calling thread. Returns a number for _end_graph_requests().")
      .def(
          "_end_graph_requests",
          [](const PyPool& self, std::uint64_t number) {
            without_gil([&] { self.core->graphs().end_requests(number); });
          },
          nb::arg("number"))
      .def(
          "_release_graph_pool",
          [](const PyPool& self, std::uint64_t first, std::uint64_t second) {
            interruptibly([&] { self.core->graphs().release({first, second}, true); });
          },
          nb::arg("first"), nb::arg("second"),
          "A graph gives it up. Behind the last one the host waits for the devices.")
      .def(
          "_graph_pool_stats",
          [](const PyPool& self, std::uint64_t first, std::uint64_t second) {
            const auto stats = without_gil([&] { return self.core->graphs().stats({first, second}); });
            return nb::make_tuple(stats.uses, stats.begun, stats.held.count, stats.live.now.count,
                                  stats.live.peak.count);
          },
          nb::arg("first"), nb::arg("second"),
          nb::sig("def _graph_pool_stats(self, first: int, second: int) -> tuple[int, int, int, int, int]"),
          "How many graphs use it, how many calls of _begin_graph_requests() have not ended, and its bytes: held, "
          "live,\n"
          "and the peak of the live ones.");
}

}  // namespace memlake::bindings
