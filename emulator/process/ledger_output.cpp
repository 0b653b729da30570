// The ledger as JSON, for programs, and as text, for people. The keys are documented in docs/reference/emulator.md.

#include <algorithm>
#include <vector>

#include "basics/json.hpp"
#include "process/driver.hpp"

namespace memlake::emulator {

namespace {

void write_origin(Json& json, CallerNames& callers, const Origin& origin) {
  json.member("made_by", [&] {
    json.object([&] {
      json.field("sequence", origin.sequence);
      json.field("call", origin.call);
      json.field("thread", origin.thread);
      json.field("caller", callers.of(origin.caller));
    });
  });
}

void write_remarks(Json& json, const char* key, const std::vector<Remark>& remarks) {
  json.member(key, [&] {
    json.array([&] {
      for (const Remark& remark : remarks)
        json.object([&] {
          json.field("sequence", remark.origin.sequence);
          json.field("call", remark.origin.call);
          json.field("code", remark.code);
          json.field("text", remark.sentence);
          json.field("thread", remark.origin.thread);
        });
    });
  });
}

/// An array of objects, one per element of a range.
template <class Range, class Body>
void write_all(Json& json, const char* key, const Range& range, Body&& body) {
  json.member(key, [&] {
    json.array([&] {
      for (const auto& element : range) json.object([&] { body(element); });
    });
  });
}

/// The values of an unordered map, by key, so that two ledgers can be compared.
template <class Map>
auto sorted(const Map& map) {
  std::vector<const typename Map::value_type*> entries;
  for (const auto& entry : map) entries.push_back(&entry);
  std::ranges::sort(entries, {}, [](const auto* entry) { return entry->first; });
  return entries;
}

std::vector<const Allocation*> allocations_of(const PlainMemory& plain, bool is_managed) {
  std::vector<const Allocation*> found;
  for (const auto& [address, allocation] : plain.all())
    if (allocation.is_managed == is_managed) found.push_back(&allocation);
  return found;
}

}  // namespace

std::string Driver::ledger_json(Lock& lock) {
  std::string text = write_json();
  for (; callers_.is_lacking(); text = write_json()) callers_.look_up(lock);
  return text;
}

std::string Driver::ledger_text(Lock& lock) {
  std::string text = write_text();
  for (; callers_.is_lacking(); text = write_text()) callers_.look_up(lock);
  return text;
}

std::string Driver::write_json() {
  chunks.reclaim();
  pools.reclaim();
  Json json;
  json.object([&] {
    write_devices(json);
    write_memory(json);
    write_pools(json);
    write_work(json);
    write_code(json);
    write_graphs(json);
    json.member("calls", [&] {
      json.object([&] {
        for (const auto& [name, count] : ledger.calls()) json.field(name, count);
      });
    });
    write_remarks(json, "violations", ledger.violations());
    write_remarks(json, "warnings", ledger.warnings());
  });
  return json.take();
}

void Driver::write_devices(Json& json) {
  std::vector<const Device*> open;
  for (const auto& device : devices.all())
    if (device->is_open) open.push_back(device.get());
  write_all(json, "devices", open, [&](const Device* device) {
    json.field("ordinal", device->ordinal);
    json.field("name", device->config.name);
    json.field("total", device->config.memory);
    json.field("free", device->empty());
    json.field("managed", device->managed.bytes());
    json.field("backing", device->is_host_backed() ? "host" : "none");
    json.field("profile", device->is_strict() ? "strict" : "nvidia");
    json.field("streams", device->config.streams == StreamMode::manual ? "manual" : "threads");
    json.field("aliasing", word_of(device->config.aliasing));
    json.field("granularity", device->config.granularity);
    json.field("recommended", device->config.recommended);
  });
}

void Driver::write_memory(Json& json) {
  write_all(json, "reservations", mappings.reservations(), [&](const auto& entry) {
    const Reservation& reservation = entry.second;
    std::uint64_t mapped = 0;
    for (auto at = mappings.all().lower_bound(reservation.address);
         at != mappings.all().end() && at->first < reservation.address + reservation.size; ++at)
      mapped += at->second.size;
    json.field("address", reservation.address);
    json.field("size", reservation.size);
    json.field("mapped", mapped);
    write_origin(json, callers_, reservation.made_by);
  });
  write_all(json, "chunks", sorted(chunks.handles()), [&](const auto* entry) {
    const Handle& handle = entry->second;
    json.field("handle", handle.value);
    json.field("size", handle.chunk->size);
    json.field("device", handle.chunk->device_or_host());
    json.field("location", handle.chunk->device != nullptr ? "device" : "host");
    json.field("references", handle.references);
    json.field("mappings", handle.mappings);
    json.field("exported", handle.chunk->is_exported);
    json.field("imported", handle.chunk->is_imported);
    write_origin(json, callers_, handle.chunk->made_by);
  });
  write_all(json, "mappings", mappings.all(), [&](const auto& entry) {
    const Mapping& mapping = entry.second;
    json.field("address", mapping.address);
    json.field("size", mapping.size);
    json.field("handle", mapping.handle->value);
    json.field("device", mapping.chunk().device_or_host());
    json.member("access", [&] {
      json.object([&] {
        for (const auto& [device, flags] : mapping.parts.front().rights.entries())
          json.field(std::to_string(device), flags);
      });
    });
    write_origin(json, callers_, mapping.made_by);
  });
  const auto write_allocation = [&](const Allocation* allocation) {
    json.field("address", allocation->address);
    json.field("size", allocation->size);
    json.field("device", allocation->device->ordinal);
    write_origin(json, callers_, allocation->made_by);
  };
  write_all(json, "allocations", allocations_of(plain, false), write_allocation);
  write_all(json, "managed_allocations", allocations_of(plain, true), write_allocation);
  write_all(json, "host_allocations", plain.all_host(), [&](const auto& entry) {
    json.field("address", entry.second.address);
    json.field("size", entry.second.size);
    json.field("kind", entry.second.is_registered ? "registered" : "pinned");
    write_origin(json, callers_, entry.second.made_by);
  });
}

void Driver::write_pools(Json& json) {
  std::vector<const Pool*> of_program;
  for (const auto& [handle, pool] : pools.all())
    if (pool->graphs == nullptr) of_program.push_back(pool.get());
  write_all(json, "pools", of_program, [&](const Pool* listed) {
    const Pool& pool = *listed;
    json.field("handle", pool.handle);
    json.field("device", pool.device_or_host());
    json.field("location", pool.device != nullptr ? "device" : pool.is_managed() ? "managed" : "host");
    json.field("is_default", pool.is_default);
    json.field("is_current", pools.is_current(pool));
    json.field("is_destroyed", pool.is_destroyed);
    json.field("exported", pool.is_exported);
    json.field("imported", pool.is_imported());
    json.field("held", pool.held());
    json.field("used", pool.used());
    json.field("allocations", pool.live);
    json.field("release_threshold", pool.release_threshold);
    json.member("reuses", [&] {
      json.object([&] {
        for (std::size_t i = 0; i < kReuseNames.size(); ++i)
          json.field(kReuseNames[i], pool.memory != nullptr ? pool.memory->reuses()[i] : 0);
      });
    });
    write_origin(json, callers_, pool.made_by);
  });
  write_all(json, "pool_allocations", pools.allocations().all(), [&](const auto& entry) {
    const PoolAllocation& allocation = entry.second;
    json.field("address", allocation.address);
    json.field("size", allocation.size);
    json.field("device", allocation.pool->device_or_host());
    json.field("pool", allocation.range == nullptr ? allocation.pool->handle : 0);
    json.field("stream", allocation.stream);
    write_origin(json, callers_, allocation.made_by);
  });
}

void Driver::write_work(Json& json) {
  write_all(json, "contexts", sorted(contexts.all()), [&](const auto* entry) {
    const Context& context = entry->second;
    json.field("device", context.device->ordinal);
    json.field("is_primary", context.is_primary);
    json.field("retained", context.is_primary ? context.device->primary_retains : 1U);
    json.field("sticky", static_cast<int>(context.sticky));
  });
  write_all(json, "streams", sorted(streams.all()), [&](const auto* entry) {
    const Stream& stream = *entry->second;
    json.field("handle", stream.handle);
    json.field("device", stream.device->ordinal);
    json.field("flags", stream.flags);
    json.field("kind", stream.kind == Stream::Kind::created  ? "created"
                       : stream.kind == Stream::Kind::legacy ? "legacy"
                                                             : "per_thread");
    json.field("pending", stream.queue.size());
    write_origin(json, callers_, stream.made_by);
  });
  write_all(json, "events", sorted(events.all()), [&](const auto* entry) {
    json.field("handle", entry->second.handle);
    json.field("device", entry->second.device);
    json.field("flags", entry->second.flags);
    write_origin(json, callers_, entry->second.made_by);
  });
}

void Driver::write_code(Json& json) {
  write_all(json, "modules", sorted(modules.all()), [&](const auto* entry) {
    const Module& module = *entry->second;
    json.field("handle", module.handle);
    json.field("device", module.device->ordinal);
    json.field("kernels", module.image->kernels.size());
    json.field("variables", module.globals.size());
    json.field("is_of_library", module.is_of_library);
    write_origin(json, callers_, module.made_by);
  });
  write_all(json, "libraries", sorted(libraries.all()), [&](const auto* entry) {
    json.field("handle", entry->second->handle);
    json.field("kernels", entry->second->kernels.size());
    write_origin(json, callers_, entry->second->made_by);
  });
  json.member("skipped_kernels", [&] {
    json.object([&] {
      for (const auto& [name, count] : skipped.counts())
        if (count > 0) json.field(name, count);
    });
  });
}

void Driver::write_graphs(Json& json) {
  std::vector<const Graph*> of_program;
  for (const auto& [handle, graph] : graphs.all())
    if (graph->owner == nullptr) of_program.push_back(graph.get());
  write_all(json, "graphs", of_program, [&](const Graph* graph) {
    json.field("handle", graph->handle);
    json.field("nodes", graph->nodes.size());
    json.field("is_capturing", graph->captures > 0);
    json.field("execs", graph->execs);
    write_origin(json, callers_, graph->made_by);
  });
  write_all(json, "graph_execs", execs.all(), [&](const auto& entry) {
    const Exec& exec = *entry.second;
    json.field("handle", exec.handle);
    json.field("graph", exec.graph);
    json.field("flags", exec.flags);
    json.field("nodes", exec.top.nodes.size());
    json.field("launches", exec.launches);
    write_origin(json, callers_, exec.made_by);
  });
  std::vector<const Pool*> of_graphs;
  for (const auto& [handle, pool] : pools.all())
    if (pool->graphs != nullptr) of_graphs.push_back(pool.get());
  write_all(json, "graph_memory", of_graphs, [&](const Pool* pool) {
    json.field("device", pool->device_or_host());
    json.field("held", pool->graphs->held());
    json.field("used", pool->graphs->used());
    json.field("allocations", pool->live);
  });
  write_all(json, "user_objects", user_objects.all(), [&](const auto& entry) {
    json.field("handle", entry.second.handle);
    json.field("references", entry.second.references);
    write_origin(json, callers_, entry.second.made_by);
  });
}

std::string Driver::write_text() {
  chunks.reclaim();
  pools.reclaim();
  std::string out = "memlake emulator: ledger at exit\n";
  const auto line = [&](const char* what, std::uint64_t address, std::uint64_t size, const Origin& origin) {
    out += text("  ", what, " ", Hex{address}, ", ", size, " bytes, made by ", origin.call, " (call ", origin.sequence,
                ", thread ", origin.thread, ", ", callers_.of(origin.caller), ")\n");
  };
  for (const auto& device : devices.all())
    if (device->is_open)
      out += text("  device ", device->ordinal, ": ", device->config.memory - device->empty(), " of ",
                  device->config.memory, " bytes in use\n");
  for (const auto& [address, reservation] : mappings.reservations())
    line("still reserved:", address, reservation.size, reservation.made_by);
  for (const auto* entry : sorted(chunks.handles()))
    line("still held: chunk", entry->first, entry->second.chunk->size, entry->second.chunk->made_by);
  for (const auto& [address, mapping] : mappings.all()) line("still mapped:", address, mapping.size, mapping.made_by);
  for (const auto& [address, allocation] : plain.all())
    line("still allocated:", address, allocation.size, allocation.made_by);
  for (const auto& [handle, pool] : pools.all())
    if (!pool->is_default && pool->graphs == nullptr) line("still there: pool", handle, pool->held(), pool->made_by);
  for (const auto& [address, allocation] : pools.allocations().all())
    line(allocation.range == nullptr ? "still allocated from a pool:" : "still allocated by a graph:", address,
         allocation.size, allocation.made_by);
  for (const auto& [handle, graph] : graphs.all())
    if (graph->owner == nullptr)
      out += text("  still there: graph ", Hex{handle}, ", ", graph->nodes.size(), " nodes, made by ",
                  graph->made_by.call, " (call ", graph->made_by.sequence, ")\n");
  for (const auto& [handle, exec] : execs.all())
    out += text("  still there: executable graph ", Hex{handle}, ", made by ", exec->made_by.call, " (call ",
                exec->made_by.sequence, ")\n");
  std::uint64_t launches = 0;
  for (const auto& [name, count] : skipped.counts()) launches += count;
  if (launches > 0) out += text("  ", launches, " launches of kernels were skipped (kernels=skip)\n");
  for (const Remark& violation : ledger.violations())
    out += text("  violation in ", violation.origin.call, ": ", violation.sentence, "\n");
  std::uint64_t total = 0;
  for (const auto& [name, count] : ledger.calls()) total += count;
  out += text("  ", total, " driver calls, ", ledger.violations().size(), " violations, ", ledger.warnings().size(),
              " warnings\n");
  return out;
}

}  // namespace memlake::emulator
