#include "process/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace memlake::emulator {

namespace {

/// The bytes of one copy that the destination really has, where the emulator sees them. A source without backing reads
/// as zeros.
struct Move {
  std::uint64_t destination;
  std::uint64_t source;
  std::uint64_t size;
  bool is_zero;
};

void plan_row(const MemoryMap& memory, std::uint64_t destination, std::uint64_t source, std::uint64_t size,
              std::vector<Move>& moves) {
  const auto to = memory.stretches(destination, size);
  const auto from = memory.stretches(source, size);
  for (const Stretch& target : to) {
    if (target.bytes == 0) continue;
    for (const Stretch& origin : from) {
      const std::uint64_t target_start = target.address - destination;
      const std::uint64_t origin_start = origin.address - source;
      const std::uint64_t start = std::max(target_start, origin_start);
      const std::uint64_t end = std::min(target_start + target.size, origin_start + origin.size);
      if (start < end)
        moves.push_back({target.bytes + (start - target_start), origin.bytes + (start - origin_start), end - start,
                         origin.bytes == 0});
    }
  }
}

void run(const std::vector<Move>& moves) {
  for (const Move& move : moves) {
    auto* destination = reinterpret_cast<void*>(move.destination);
    if (move.is_zero) {
      std::memset(destination, 0, move.size);
    } else {
      std::memmove(destination, reinterpret_cast<const void*>(move.source), move.size);
    }
  }
}

/// Calls `body` with the offset of each row in the two boxes.
template <class Body>
void for_each_row(const Extent& extent, const Box& one, const Box& other, Body&& body) {
  for (std::uint64_t z = 0; z < extent.depth; ++z)
    for (std::uint64_t y = 0; y < extent.height; ++y)
      body(z * one.slice + y * one.pitch, z * other.slice + y * other.pitch);
}

void plan_moves(const MemoryMap& memory, const Box& destination, const Box& source, const Extent& extent,
                std::vector<Move>& moves) {
  for_each_row(extent, destination, source, [&](std::uint64_t to, std::uint64_t from) {
    plan_row(memory, destination.place.address + to, source.place.address + from, extent.width, moves);
  });
}

/// Asked again when the work's turn comes: a device may have been closed, or memory unmapped under it (inflight_unmap).
auto recheck(Driver& driver, Place place, std::uint64_t size, bool is_write) {
  const bool was_pinned = driver.memory.is_pinned(place.address, size);
  return [&driver, place, size, is_write, was_pinned, context = place.context->handle]() -> std::string {
    const Context* alive = driver.contexts.find(context);
    if (alive == nullptr) return "its context is gone";
    if (was_pinned && !driver.memory.is_pinned(place.address, size))
      return text("the pinned host memory at ", Hex{place.address}, " is gone");
    return driver.memory.why_not_copy(*alive, {place.address, size, is_write}, MemoryMap::Moment::work);
  };
}

template <class Element>
void fill_row(std::uint64_t bytes, std::uint64_t size, unsigned value) {
  auto* elements = reinterpret_cast<Element*>(bytes);
  std::fill(elements, elements + size / sizeof(Element), static_cast<Element>(value));
}

}  // namespace

void check_extent(const Box& box, const Extent& extent) {
  std::uint64_t rows = 0;
  std::uint64_t planes = 0;
  std::uint64_t end = 0;
  if (__builtin_mul_overflow(box.pitch, extent.height - 1, &rows) ||
      __builtin_mul_overflow(box.slice, extent.depth - 1, &planes) || __builtin_add_overflow(rows, planes, &end) ||
      __builtin_add_overflow(end, extent.width, &end) || __builtin_add_overflow(end, box.place.address, &end))
    invalid("the range at ", Hex{box.place.address}, " wraps around");
}

void move_to_corner(const Driver& driver, Box& box, const Corner& corner, const char* name) {
  if (corner.y == SIZE_MAX || corner.z == SIZE_MAX) invalid("the coordinates of the ", name, " are too large");
  check_extent(box, {corner.x, corner.y + 1, corner.z + 1});
  const std::uint64_t base = box.place.address;
  box.place.address += corner.z * box.slice + corner.y * box.pitch + corner.x;
  if (!driver.memory.is_same_kind(base, box.place.address))
    invalid("the corner of the box, ", Hex{box.place.address}, ", is outside of the memory of the ", name, " at ",
            Hex{base});
}

void check_place(const Driver& driver, const Place& place, std::uint64_t size, bool is_write, const char* name) {
  const MemoryMap& memory = driver.memory;
  if (place.address == 0) invalid("the ", name, " is NULL");
  if (place.side == Side::host && !memory.is_host_address(place.address))
    invalid("the ", name, " ", Hex{place.address}, " is device memory, where host memory is expected");
  if (place.side == Side::device && !memory.is_device_reachable(place.address))
    invalid("the ", name, " ", Hex{place.address}, " is not device memory");
  const std::string refusal =
      memory.why_not_copy(*place.context, {place.address, size, is_write}, MemoryMap::Moment::call);
  if (!refusal.empty()) invalid(refusal);
}

Work copy_work(Driver& driver, const Origin& origin, const Box& destination, const Box& source, const Extent& extent) {
  const std::uint64_t to_span = extent.span(destination);
  const std::uint64_t from_span = extent.span(source);
  Work work{.name = text(origin.call, " of ", extent.bytes(), " bytes from ", Hex{source.place.address}, " to ",
                         Hex{destination.place.address}),
            .origin = origin,
            .touches = {{destination.place.address, to_span, true}, {source.place.address, from_span, false}}};
  const auto moves = std::make_shared<std::vector<Move>>();
  work.check = [&driver, moves, destination, source, extent,
                of_destination = recheck(driver, destination.place, to_span, true),
                of_source = recheck(driver, source.place, from_span, false)] {
    std::string refusal = of_destination();
    if (refusal.empty()) refusal = of_source();
    if (refusal.empty()) plan_moves(driver.memory, destination, source, extent, *moves);
    return refusal;
  };
  work.body = [moves] { run(*moves); };
  return work;
}

void stage_source(Driver& driver, Work& work, const Box& destination, const Box& source, const Extent& extent) {
  const auto staged = std::make_shared<std::vector<char>>();
  staged->reserve(extent.bytes());
  for_each_row(extent, source, source, [&](std::uint64_t offset, std::uint64_t) {
    const auto* row = reinterpret_cast<const char*>(source.place.address + offset);
    staged->insert(staged->end(), row, row + extent.width);
  });
  const Box packed{{reinterpret_cast<std::uint64_t>(staged->data()), Side::host, source.place.context},
                   extent.width,
                   extent.width * extent.height};
  const auto moves = std::make_shared<std::vector<Move>>();
  work.touches.pop_back();
  work.check = [&driver, moves, destination, packed, extent,
                of_destination = recheck(driver, destination.place, extent.span(destination), true)] {
    std::string refusal = of_destination();
    if (refusal.empty()) plan_moves(driver.memory, destination, packed, extent, *moves);
    return refusal;
  };
  work.body = [moves, staged] { run(*moves); };
}

bool is_pageable(const Driver& driver, const Place& place, std::uint64_t size) {
  return !driver.memory.is_device_address(place.address) && !driver.memory.is_pinned(place.address, size);
}

void migrate(Driver& driver, Side side, Device& device, const Touch& touch) {
  if (driver.devices.managed().used == 0 || !driver.memory.is_managed(touch.address)) return;
  if (side == Side::device) driver.managed.touch_by(device, touch);
  if (side == Side::host) driver.managed.touch_by_host(touch);
}

Work fill_work(Driver& driver, const Origin& origin, const Box& destination, unsigned value, unsigned element,
               const Extent& extent) {
  const std::uint64_t span = extent.span(destination);
  Work work{.name = text(origin.call, " of ", extent.bytes(), " bytes at ", Hex{destination.place.address}),
            .origin = origin,
            .touches = {{destination.place.address, span, true}}};
  const auto stretches = std::make_shared<std::vector<Stretch>>();
  work.check = [&driver, stretches, destination, extent,
                of_destination = recheck(driver, destination.place, span, true)] {
    std::string refusal = of_destination();
    if (refusal.empty())
      for_each_row(extent, destination, destination, [&](std::uint64_t offset, std::uint64_t) {
        for (const Stretch& stretch : driver.memory.stretches(destination.place.address + offset, extent.width))
          if (stretch.bytes != 0) stretches->push_back(stretch);
      });
    return refusal;
  };
  work.body = [stretches, value, element] {
    for (const Stretch& stretch : *stretches) {
      if (element == 1) fill_row<unsigned char>(stretch.bytes, stretch.size, value);
      if (element == 2) fill_row<unsigned short>(stretch.bytes, stretch.size, value);
      if (element == 4) fill_row<unsigned>(stretch.bytes, stretch.size, value);
    }
  };
  return work;
}

Work declared_work(Driver& driver, const std::string& name, const Origin& origin, const std::vector<Touch>& touches,
                   std::uint64_t context) {
  Work work{.name = name, .origin = origin, .touches = touches};
  work.check = [&driver, context, touches]() -> std::string {
    const Context* alive = driver.contexts.find(context);
    if (alive == nullptr) return "its context is gone";
    for (const Touch& touch : touches)
      if (std::string refusal = driver.memory.why_not_kernel(*alive, touch); !refusal.empty()) return refusal;
    return "";
  };
  return work;
}

}  // namespace memlake::emulator
