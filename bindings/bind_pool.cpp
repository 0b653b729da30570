#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <vector>

#include "abi/torch_pools.hpp"
#include "integers.hpp"
#include "policies.hpp"
#include "pool_objects.hpp"
#include "stream_names.hpp"

namespace memlake::bindings {
namespace {

using PyDevice = Shared<Device>;

const char* word_for(Location location) {
  switch (location) {
    case Location::device:
      return "device";
    case Location::host:
      return "host";
    case Location::host_numa:
      return "host_numa";
  }
  return "";
}

constexpr std::size_t kMostSizes = 1000;  // texts that a pool remembers

// The values of a shortage, as Python has them.
nb::object to_python(Bytes bytes) { return nb::int_(bytes.count); }
nb::object to_python(bool fact) { return nb::bool_(fact); }
nb::object to_python(const char* word) { return nb::str(word); }
nb::object to_python(const std::string& text) { return nb::cast(text); }
nb::object to_python(Location location) { return nb::str(word_for(location)); }
nb::object to_python(const std::vector<std::string>& sentences) { return nb::tuple(nb::cast(sentences)); }
nb::object to_python(const std::vector<Shortage::Waiting>& pending_on) {
  nb::dict by_handle;
  for (const Shortage::Waiting& waiting : pending_on) {
    const nb::int_ handle(reinterpret_cast<std::uint64_t>(waiting.handle.value_or(nullptr)));
    // Of a destroyed stream the handle may belong to another one by now.
    const std::uint64_t before = by_handle.contains(handle) ? nb::cast<std::uint64_t>(by_handle[handle]) : 0;
    by_handle[handle] = before + waiting.bytes.count;
  }
  return by_handle;
}

nb::dict to_dict(const Shortage& shortage) {
  nb::dict result;
  for_each_value(shortage, [&](const char* name, const auto& value) { result[name] = to_python(value); });
  return result;
}

nb::object or_none(Bytes limit) {
  return limit == Budget::kUnlimited ? nb::object(nb::none()) : nb::object(nb::int_(limit.count));
}

/// Limits in the order of their settings: limit, max_size, memory fraction; None where one is not set.
Limits to_limits(const nb::object& limit, const nb::object& max_size, const nb::object& memory_fraction) {
  const auto bytes = [](const nb::object& value, const char* name) {
    return value.is_none() ? Budget::kUnlimited : to_bytes(nb::cast<nb::int_>(value), name);
  };
  Limits limits;
  limits.limit = bytes(limit, "limit");
  limits.max_size = bytes(max_size, "max_size");
  limits.memory_fraction = bytes(memory_fraction, "memory_fraction");
  return limits;
}

nb::dict to_dict(const LiveStats& stats, const Devices& devices) {
  const PoolStats& pool = stats.pool;
  nb::dict result;
  for_each_figure(pool, [&](const char* name, std::uint64_t value) { result[name] = value; });
  result["allocated_at_held_peak"] = pool.allocated_at_held_peak.count;
  result["limit"] = or_none(stats.limit);
  result["largest_free"] = stats.largest_free.count;
  result["num_live"] = stats.live_count;
  result["num_pending"] = stats.pending_count;
  result["num_segments"] = stats.segment_count;
  result["host_waits"] = stats.host_waits;
  result["modelled_us"] = stats.modelled_us;
  nb::dict calls;
  for (const auto& [name, count] : stats.calls) calls[name] = count;
  result["driver_calls"] = calls;
  nb::list streams;
  for (const LiveStats::OfStream& of : stats.streams)
    streams.append(
        nb::make_tuple(reinterpret_cast<std::uint64_t>(of.stream), of.live.count, of.pending.count, of.free.count));
  result["streams"] = streams;
  nb::dict held_on;
  for (std::size_t i = 0; i < stats.held_on.size(); ++i)
    held_on[nb::int_(devices[i]->ordinal())] = stats.held_on[i].count;
  result["held_on"] = held_on;
  result["policy_counters"] = counters_dict(stats.policy_counters);
  return result;
}

template <class T>
nb::bytes to_column(const std::vector<T>& values) {
  return nb::bytes(values.data(), values.size() * sizeof(T));
}

/// Pool.__init__.
void make_pool(PyPool* self, const nb::list& devices, const std::string& policy, const nb::object& limit,
               nb::object buffer_type, bool shareable, const std::string& placement, const std::string& location,
               bool may_spill, const nb::object& max_size, const nb::object& memory_fraction, bool fabric,
               bool lasting_streams) {
  std::vector<std::shared_ptr<Device>> shared;
  for (nb::handle device : devices) shared.push_back(nb::cast<PyDevice&>(device).share());
  if (shared.empty()) throw nb::value_error("a pool needs a device");
  const PoolArguments arguments{
      .placement = to_placement(placement),
      .location = to_location(location),
      .may_spill = may_spill,
      .max_size = max_size.is_none() ? Bytes{0} : to_bytes(nb::cast<nb::int_>(max_size), "max_size")};
  const SpaceMaker maker = choose_policy(policy).space_maker(arguments);
  const Limits limits = to_limits(limit, max_size, memory_fraction);
  const Sharing sharing{
      .options = {.placement = arguments.placement, .more_handle_types = fabric ? CU_MEM_HANDLE_TYPE_FABRIC : 0},
      .is_default_space = shareable};
  auto made = without_gil([&] { return LivePool::make(std::move(shared), maker, limits, sharing); });
  if (lasting_streams) made->promise_lasting_streams();
  made->set_policy_text(policy);
  new (self) PyPool(std::move(made), std::move(buffer_type));
}

/// How a pool is made.
void bind_making(nb::class_<PyPool>& pool) {
  pool.def("__init__", make_pool, nb::arg("devices"), nb::arg("policy"), nb::arg("limit").none(),
           nb::arg("buffer_type"), nb::arg("shareable") = false, nb::arg("placement") = "fill",
           nb::arg("location") = "device", nb::arg("may_spill") = false, nb::arg("max_size") = nb::none(),
           nb::arg("memory_fraction") = nb::none(), nb::arg("fabric") = false, nb::arg("lasting_streams") = false,
           nb::sig("def __init__(self, devices: list[Device], policy: str, limit: int | None, buffer_type: type, "
                   "shareable: bool = False, placement: str = 'fill', location: str = 'device', "
                   "may_spill: bool = False, max_size: int | None = None, memory_fraction: int | None = None, "
                   "fabric: bool = False, lasting_streams: bool = False) -> None"),
           "policy: its name with its options, as parse_policy() takes them. buffer_type: a subclass of Lease.\n"
           "shareable: whether buffers that do not say otherwise can be exported. limit, max_size, memory_fraction: "
           "what\n"
           "it may hold, in bytes; the smallest one binds. fabric: whether shareable memory has fabric handles, too.\n"
           "lasting_streams: whether streams of other libraries exist as long as the pool.")
      .def(
          "__init__",
          [](PyPool* self, int torch_device, nb::object buffer_type) {
            auto core = without_gil([&] { return abi::TorchPools::of_this_process().known(torch_device); });
            if (core == nullptr) throw nb::key_error("this device of PyTorch has no pool");
            new (self) PyPool(std::move(core), std::move(buffer_type));
          },
          nb::arg("torch_device"), nb::arg("buffer_type"), "The pool that serves a device of PyTorch's.");
}

/// What a pool was made with, and the limits and peers that it has now.
void bind_facts(nb::class_<PyPool>& pool) {
  pool.def_prop_ro(
          "_identity", [](const PyPool& self) { return reinterpret_cast<std::uintptr_t>(self.core.get()); },
          "A number of the pool; two objects of one pool have equal numbers.")
      .def_prop_ro(
          "_policy_text", [](const PyPool& self) { return self.core->policy_text(); },
          "The policy with its options, as parse_policy() takes it.")
      .def_prop_ro(
          "_location", [](const PyPool& self) { return word_for(self.core->location()); },
          nb::sig("def _location(self) -> typing.Literal['device', 'host', 'host_numa']"))
      .def_prop_ro(
          "_handle_types",
          [](const PyPool& self) {
            const Sharing& sharing = self.core->sharing().made_with();
            return nb::make_tuple(sharing.is_default_space,
                                  (sharing.options.more_handle_types & CU_MEM_HANDLE_TYPE_FABRIC) != 0);
          },
          nb::sig("def _handle_types(self) -> tuple[bool, bool]"),
          "Whether buffers that do not say otherwise can be exported, and whether fabric handles exist for them.")
      .def_prop_ro(
          "_serves_torch",
          [](const PyPool& self) { return abi::TorchPools::of_this_process().serves_with(*self.core); },
          "Whether a device of PyTorch's gets its memory from the pool now.")
      .def_prop_ro(
          "_devices",
          [](const PyPool& self) {
            nb::list devices;
            for (const auto& device : self.core->devices()) devices.append(PyDevice(device));
            return devices;
          },
          nb::sig("def _devices(self) -> list[Device]"))
      .def(
          "_peer_devices",
          [](const PyPool& self) {
            nb::list devices;
            for (const auto& device : without_gil([&] { return self.core->settings().peers(); }))
              devices.append(PyDevice(device));
            return devices;
          },
          nb::sig("def _peer_devices(self) -> list[Device]"), "The devices beside its own that may use its memory.")
      .def(
          "_limits",
          [](const PyPool& self) {
            const Limits limits = without_gil([&] { return self.core->settings().limits(); });
            return nb::make_tuple(or_none(limits.limit), or_none(limits.max_size), or_none(limits.most()));
          },
          nb::sig("def _limits(self) -> tuple[int | None, int | None, int | None]"),
          "The limit that can be changed, max_size, and the smallest of all; None: there is none.");
}

/// Requests, and the memory of the pool as a whole.
void bind_requests(nb::class_<PyPool>& pool) {
  pool.def(
          "_allocate",
          [](const PyPool& self, const nb::int_& nbytes, const nb::int_& handle, const PyStream* owner,
             const nb::int_& device, std::optional<bool> shareable, bool single_handle) -> nb::object {
            const Bytes size = to_bytes(nbytes, "nbytes");
            const StreamName stream = name_of_stream(handle, owner, device);
            Shortage shortage;
            auto lease =
                interruptibly([&] { return self.core->allocate(size, stream, shortage, shareable, single_handle); });
            return lease ? self.wrap(*std::move(lease)) : nb::object(to_dict(shortage));
          },
          nb::arg("nbytes"), nb::arg("handle"), nb::arg("owner").none(), nb::arg("device"),
          nb::arg("shareable") = nb::none(), nb::arg("single_handle") = false,
          nb::sig("def _allocate(self, nbytes: int, handle: int, owner: StreamOwner | None, device: int, "
                  "shareable: bool | None = None, single_handle: bool = False) -> typing.Any"),
          "A buffer, or a dict that says why there is no memory.")
      .def_prop_ro(
          "_stream_count", [](const PyPool& self) { return without_gil([&] { return self.core->stream_count(); }); },
          "How many streams are in its tables.")
      .def(
          "_remember_size",
          [](PyPool& self, const nb::str& text, const nb::int_& nbytes) {
            if (nb::len(self.sizes) >= kMostSizes) self.sizes.clear();
            self.sizes[text] = nbytes;
          },
          nb::arg("text"), nb::arg("nbytes"), "From now on allocate() knows what the text means.")
      .def(
          "_remember_stream",
          [](const PyPool& self, nb::handle stream, const nb::int_& handle, const PyStream* owner,
             const nb::int_& device) { remember_stream(*self.core, stream, name_of_stream(handle, owner, device)); },
          nb::arg("stream"), nb::arg("handle"), nb::arg("owner").none(), nb::arg("device"),
          nb::sig("def _remember_stream(self, stream: object, handle: int, owner: StreamOwner | None, device: int) -> "
                  "None"),
          "From now on allocate() and close() know which stream the object is.")
      .def(
          "_preallocate",
          [](const PyPool& self, const nb::int_& nbytes, const nb::int_& handle, const PyStream* owner,
             const nb::int_& device) -> nb::object {
            const Bytes size = to_bytes(nbytes, "nbytes");
            const StreamName stream = name_of_stream(handle, owner, device);
            Shortage shortage;
            if (interruptibly([&] { return self.core->preallocate(size, stream, shortage); })) return nb::none();
            return to_dict(shortage);
          },
          nb::arg("nbytes"), nb::arg("handle"), nb::arg("owner").none(), nb::arg("device"),
          nb::sig("def _preallocate(self, nbytes: int, handle: int, owner: StreamOwner | None, device: int) -> "
                  "dict[str, typing.Any] | None"),
          "None, or a dict that says why there is no memory.")
      .def(
          "_trim",
          [](const PyPool& self, const nb::int_& keep) {
            const Bytes kept = to_bytes(keep, "keep");
            return without_gil([&] { return self.core->trim(kept); }).count;
          },
          nb::arg("keep"))
      .def("_close", [](const PyPool& self) { without_gil([&] { self.core->close(); }); });
}

/// Its handle for C, how much it holds, and its peaks.
void bind_levels(nb::class_<PyPool>& pool) {
  pool.def_prop_ro(
          "native_handle",
          [](PyPool& self) {
            if (self.handle == nullptr) self.handle = std::make_unique<abi::BorrowedHandle>(*self.core);
            return reinterpret_cast<std::uintptr_t>(self.handle->get());
          },
          "The pool as ``memlake.h`` knows it: a ``memlake_pool *``, for the functions of `memlake.native_library`.\n\n"
          "It is the same pool, not a copy. It is good as long as this object is there; afterwards the functions "
          "answer\n"
          "that the pool was destroyed. ``memlake_torch_set_pool`` keeps the pool itself alive. "
          "``memlake_pool_destroy``\n"
          "refuses it: close() ends it. What C functions allocated must be freed by them, before close().")
      .def_prop_ro("_is_open", [](const PyPool& self) { return without_gil([&] { return self.core->is_open(); }); })
      .def(
          "_has_risen_to",
          [](const PyPool& self, const nb::int_& mark) {
            const Bytes bytes = to_bytes(mark, "mark");
            return without_gil([&] { return self.core->figures().has_risen_to(bytes); });
          },
          nb::arg("mark"), "Whether as much is held and less was since this last answered yes.")
      .def_prop_ro("_held",
                   [](const PyPool& self) { return without_gil([&] { return self.core->figures().held(); }).count; })
      .def("_reset_peaks", [](const PyPool& self) { without_gil([&] { self.core->figures().reset_peaks(); }); })
      .def("_reset_held_peak", [](const PyPool& self) { without_gil([&] { self.core->figures().reset_held_peak(); }); })
      .def("_reset_active_peak",
           [](const PyPool& self) { without_gil([&] { self.core->figures().reset_active_peak(); }); })
      .def(
          "_take_recent_peak",
          [](const PyPool& self) { return without_gil([&] { return self.core->figures().take_recent_peak(); }).count; },
          "The most that was live or pending since this was last asked.");
}

/// What may be changed while the pool is in use.
void bind_settings(nb::class_<PyPool>& pool) {
  pool.def(
          "_set_limit",
          [](const PyPool& self, const nb::object& limit) {
            const Bytes most = to_limits(limit, nb::none(), nb::none()).limit;
            without_gil([&] { self.core->settings().set_limit(most); });
          },
          nb::arg("limit").none())
      .def(
          "_reuse_rules",
          [](const PyPool& self) -> nb::object {
            const auto rules = without_gil([&] { return self.core->settings().reuse_rules(); });
            if (!rules) return nb::none();
            return nb::make_tuple(rules->follow_event_dependencies, rules->allow_opportunistic,
                                  rules->allow_internal_dependencies);
          },
          nb::sig("def _reuse_rules(self) -> tuple[bool, bool, bool] | None"),
          "By event, opportunistic, behind an internal wait; None where freed memory never reaches another stream.")
      .def(
          "_set_reuse_rules",
          [](const PyPool& self, bool by_event, bool opportunistic, bool internal) {
            const ReuseRules rules{by_event, opportunistic, internal};
            without_gil([&] { self.core->settings().set_reuse_rules(rules); });
          },
          nb::arg("by_event"), nb::arg("opportunistic"), nb::arg("internal"))
      .def(
          "_set_threshold",
          [](const PyPool& self, std::uint64_t threshold) {
            without_gil([&] { self.core->settings().set_release_threshold({threshold}); });
          },
          nb::arg("threshold"), "The driver applies it where the policy leaves it to the driver.")
      .def_prop_ro("_threshold",
                   [](const PyPool& self) {
                     return without_gil([&] { return self.core->settings().release_threshold(); }).count;
                   })
      .def(
          "_set_peers",
          [](const PyPool& self, const nb::list& peers) {
            std::vector<std::shared_ptr<Device>> shared;
            for (nb::handle peer : peers) shared.push_back(nb::cast<PyDevice&>(peer).share());
            without_gil([&] { self.core->settings().set_peers(shared); });
          },
          nb::arg("peers"), nb::sig("def _set_peers(self, peers: list[Device]) -> None"))
      .def(
          "_add_peer",
          [](const PyPool& self, const PyDevice& peer) {
            without_gil([&, shared = peer.share()] { self.core->settings().add_peer(shared); });
          },
          nb::arg("peer"))
      .def(
          "_remove_peer",
          [](const PyPool& self, const PyDevice& peer) {
            without_gil([&] { self.core->settings().remove_peer(*peer); });
          },
          nb::arg("peer"));
}

void bind_questions(nb::class_<PyPool>& pool) {
  pool.def(
          "_stats",
          [](const PyPool& self) {
            return to_dict(without_gil([&] { return self.core->figures().stats(); }), self.core->devices());
          },
          nb::sig("def _stats(self) -> dict[str, typing.Any]"))
      .def(
          "_snapshot",
          [](const PyPool& self) {
            const Snapshot snapshot = without_gil([&] { return self.core->figures().snapshot(); });
            return nb::make_tuple(to_column(snapshot.blocks), to_column(snapshot.pieces), to_column(snapshot.idle));
          },
          nb::sig("def _snapshot(self) -> tuple[bytes, bytes, bytes]"),
          "Three tables of 64-bit numbers. Blocks: segment, its size, its page, block, its size, requested, stream, "
          "state,\n"
          "is small, id, how much of it was spilled to the host, the two numbers of its graph pool, its first piece, "
          "how "
          "many\n"
          "pieces. Pieces: the number of the device in the pool (the number of devices: the host), size. Idle\n"
          "addresses, least recently used first: address, size, stream.")
      .def("_find_broken_invariant",
           [](const PyPool& self) { return without_gil([&] { return self.core->find_broken_invariant(); }); })
      .def("_start_recording", [](const PyPool& self) { without_gil([&] { self.core->start_recording(); }); })
      .def(
          "_stop_recording",
          [](const PyPool& self) {
            const RowLog log = without_gil([&] { return self.core->stop_recording(); });
            nb::list pools;
            for (const GraphPoolId& id : log.pools()) pools.append(nb::make_tuple(id.first, id.second));
            return nb::make_tuple(to_column(log.op()), to_column(log.id()), to_column(log.bytes()),
                                  to_column(log.stream()), to_column(log.time_us()), to_column(log.pool()), pools);
          },
          nb::sig("def _stop_recording(self) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, list[tuple[int, "
                  "int]]]"),
          "The columns as bytes: operation u8, id u64, bytes u64, stream u32, time in microseconds i64, graph pool "
          "u32\n"
          "(empty if no row has one); and the graph pools, the first for none.");
}

}  // namespace

void bind_pool(nb::module_& m) {
  m.def(
      "torch_pool_identity",
      [](int device) -> nb::object {
        const auto core = without_gil([&] { return abi::TorchPools::of_this_process().known(device); });
        return core == nullptr ? nb::none() : nb::object(nb::int_(reinterpret_cast<std::uintptr_t>(core.get())));
      },
      nb::arg("device"), nb::sig("def torch_pool_identity(device: int) -> int | None"),
      "`Pool._identity` of the pool that serves a device of PyTorch's; None if it has no pool.");
  m.def("forget_stream_objects", &StreamCache::forget_all,
        "Pools forget which stream an object is. To be called when a stream object comes to name another stream, or "
        "none.");
  bind_lease(m);
  auto pool = nb::class_<PyPool>(m, "Pool", nb::type_slots(slots_of_pool()),
                                 "A pool of one device; memlake.Pool is made of it.");
  bind_making(pool);
  bind_facts(pool);
  bind_requests(pool);
  bind_levels(pool);
  bind_settings(pool);
  bind_graph_pools(pool);
  bind_questions(pool);
  bind_known_pools(m);
}

}  // namespace memlake::bindings
