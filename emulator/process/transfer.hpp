#pragma once

// Copies, fills and declared work of a stream. Copies and fills are of one row, rows of a plane, or planes of a box, in
// linear memory.

#include <cstdint>
#include <string>
#include <vector>

#include "process/driver.hpp"

namespace memlake::emulator {

enum class Side { host, device, any };

struct Place {
  std::uint64_t address;
  Side side;
  const Context* context;  ///< whose copy engine touches it
};

/// One side of a copy: the first byte, and the distances of rows and planes.
struct Box {
  Place place;
  std::uint64_t pitch = 0;
  std::uint64_t slice = 0;
};

struct Extent {
  std::uint64_t width;  ///< in bytes
  std::uint64_t height = 1;
  std::uint64_t depth = 1;

  [[nodiscard]] bool is_empty() const { return width == 0 || height == 0 || depth == 0; }
  [[nodiscard]] std::uint64_t bytes() const { return width * height * depth; }
  /// The distance from the first byte of a box to the end of its last row.
  [[nodiscard]] std::uint64_t span(const Box& box) const {
    return is_empty() ? 0 : (depth - 1) * box.slice + (height - 1) * box.pitch + width;
  }
};

/// Where a box begins: bytes in a row, rows, planes.
struct Corner {
  std::uint64_t x;
  std::uint64_t y;
  std::uint64_t z;
};

/// Throws 1 if the box has more bytes than there are addresses behind its place. pre: no extent is 0.
void check_extent(const Box& box, const Extent& extent);

/// Moves the place of the box from the start of its memory to its corner. Throws 1 if that is outside of this memory.
void move_to_corner(const Driver& driver, Box& box, const Corner& corner, const char* name);

/// Throws 1 if an address is not on its side, or the context may not access the memory.
void check_place(const Driver& driver, const Place& place, std::uint64_t size, bool is_write, const char* name);

/// pre: no extent is 0.
Work copy_work(Driver& driver, const Origin& origin, const Box& destination, const Box& source, const Extent& extent);

/// Fills `extent.width` bytes of each row with a value of 1, 2 or 4 bytes. pre: no extent is 0.
Work fill_work(Driver& driver, const Origin& origin, const Box& destination, unsigned value, unsigned element,
               const Extent& extent);

/// Makes a copy read the bytes that the source has now, because the program may change or free it after the call.
/// pre: the work is of copy_work() with the same arguments.
void stage_source(Driver& driver, Work& work, const Box& destination, const Box& source, const Extent& extent);

/// Whether the memory is host memory that the driver does not know.
bool is_pageable(const Driver& driver, const Place& place, std::uint64_t size);

/// Moves managed pages to the processor that accesses them. Side::any does not say which one that is, so the pages stay
/// where they are.
void migrate(Driver& driver, Side side, Device& device, const Touch& touch);

/// Work that only declares the memory it touches, with the access of a kernel.
Work declared_work(Driver& driver, const std::string& name, const Origin& origin, const std::vector<Touch>& touches,
                   std::uint64_t context);

}  // namespace memlake::emulator
