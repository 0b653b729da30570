#include "replay/replay_run.hpp"

#include "replay/replay_device.hpp"

namespace memlake {

ReplayReport run_replay(Library& emulator, const TraceColumns& trace, const ReplaySettings& settings) {
  ReplayDevice device(emulator, settings.capacity);
  TraceEvents events(settings.events, settings.lag, device.device());
  Pool pool(settings.policy.space_maker()({device.device()}, events, std::make_shared<Budget>(settings.limit)), events);
  ReplayReport report;
  report.outcome = replay(trace, pool, events,
                          {.goes_on = settings.goes_on,
                           .rows_per_sample = settings.rows_per_sample,
                           .first_sample = settings.first_sample,
                           .takes_in_advance = settings.policy.entry->capabilities.preallocation,
                           .device = device.device(),
                           .moments = settings.moments,
                           .calls = &device.calls()});
  report.stats = pool.figures().stats();
  report.modelled_us = device.calls().modelled_us();
  report.host_waits = events.host_waits;
  if (const PolicyCounters* counters = pool.spaces().policy().facets().counters) report.counters = counters->counters();
  for (std::size_t i = 0; i < call_names.size(); ++i)
    if (const auto count = device.calls().count(static_cast<Call>(i))) report.calls.emplace_back(call_names[i], count);
  // The events of a replay make no driver calls; these are the calls that a program would make.
  for (const auto& [name, count] : {std::pair{"cuEventRecord", events.records},
                                    {"cuEventQuery", events.queries},
                                    {"cuEventSynchronize", events.synchronisations},
                                    {"cuStreamWaitEvent", events.stream_waits}})
    if (count > 0) report.calls.emplace_back(name, count);
  return report;
}

}  // namespace memlake
