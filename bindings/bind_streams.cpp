#include "bindings.hpp"
#include "driver/event.hpp"
#include "driver/program_wait.hpp"
#include "driver/stream.hpp"
#include "driver/stream_order.hpp"
#include "integers.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;
using PyStream = Shared<StreamOwner>;
using PyEvent = Shared<EventOwner>;

std::uint64_t number_of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

// Operations take raw handles, because streams and events may belong to another library. They are methods of Device,
// because handle 0 needs a current context.
void bind_operations(nb::class_<PyDevice>& device) {
  device
      .def(
          "stream_is_done",
          [](const PyDevice& self, const nb::int_& stream) {
            const CUstream handle = to_stream(stream);
            return without_gil([&] { return stream_is_done(*self, handle); });
          },
          nb::arg("stream"), "Whether all work of the stream is complete.")
      .def(
          "stream_synchronize",
          [](const PyDevice& self, const nb::int_& stream) {
            const CUstream handle = to_stream(stream);
            interruptibly([&] { wait_for_stream(self.share(), handle); });
          },
          nb::arg("stream"), "Waits until all work of the stream is complete.")
      .def(
          "stream_wait",
          [](const PyDevice& self, const nb::int_& stream, const nb::int_& event) {
            const CUstream handle = to_stream(stream);
            const CUevent awaited = to_event(event, "event");
            without_gil([&] { StreamOrder::wait(*self, handle, awaited); });
          },
          nb::arg("stream"), nb::arg("event"), "Later work of the stream waits, on the device, for the event.")
      .def(
          "event_record",
          [](const PyDevice& self, const nb::int_& event, const nb::int_& stream) {
            const CUevent recorded = to_event(event, "event");
            const CUstream handle = to_stream(stream);
            without_gil([&] { StreamOrder::record(*self, recorded, handle); });
          },
          nb::arg("event"), nb::arg("stream"), "The event stands for all work queued on the stream so far.")
      .def(
          "event_is_done",
          [](const PyDevice& self, const nb::int_& event) {
            const CUevent handle = to_event(event, "event");
            return without_gil([&] { return event_is_done(*self, handle); });
          },
          nb::arg("event"), "Whether the event's recording is complete; True if it was never recorded.")
      .def(
          "event_synchronize",
          [](const PyDevice& self, const nb::int_& event) {
            const CUevent handle = to_event(event, "event");
            interruptibly([&] { wait_for_event(self.share(), handle); });
          },
          nb::arg("event"), "Waits until the event's recording is complete.")
      .def(
          "event_elapsed_ms",
          [](const PyDevice& self, const nb::int_& start, const nb::int_& end) {
            const CUevent first = to_event(start, "start");
            const CUevent last = to_event(end, "end");
            return without_gil([&] { return event_elapsed_ms(*self, first, last); });
          },
          nb::arg("start"), nb::arg("end"), "Milliseconds between two recordings of events made with timing.");
}

}  // namespace

void bind_streams(nb::module_& m) {
  auto device = nb::borrow<nb::class_<PyDevice>>(m.attr("Device"));
  bind_operations(device);

  nb::class_<PyStream>(m, "StreamOwner", "Owns a stream; dropping it destroys the stream. Queued work still runs.")
      .def(
          "__init__",
          [](PyStream* self, const PyDevice& on, bool nonblocking, const nb::int_& priority) {
            const int urgency = to_int(priority, "priority");
            new (self)
                PyStream(without_gil([&] { return std::make_shared<StreamOwner>(on.share(), nonblocking, urgency); }));
          },
          nb::arg("device"), nb::arg("nonblocking"), nb::arg("priority"))
      .def_prop_ro(
          "handle", [](const PyStream& self) { return number_of(self->handle()); }, "The CUstream, as an integer.")
      .def_prop_ro(
          "is_open", [](const PyStream& self) { return self->is_open(); }, "False after close().")
      .def("close", [](const PyStream& self) { without_gil([&] { self->close(); }); }, "Destroys the stream.");

  nb::class_<PyEvent>(m, "EventOwner", "Owns an event; dropping it destroys the event.")
      .def(
          "__init__",
          [](PyEvent* self, const PyDevice& on, bool timing) {
            new (self) PyEvent(without_gil([&] { return std::make_shared<EventOwner>(on.share(), timing); }));
          },
          nb::arg("device"), nb::arg("timing"))
      .def_prop_ro(
          "handle", [](const PyEvent& self) { return number_of(self->handle()); }, "The CUevent, as an integer.")
      .def_prop_ro(
          "is_open", [](const PyEvent& self) { return self->is_open(); }, "False after close().")
      .def("close", [](const PyEvent& self) { without_gil([&] { self->close(); }); }, "Destroys the event.");
}

}  // namespace memlake::bindings
