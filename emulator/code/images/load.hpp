#pragma once

// Recognises an image (PTX, cubin, fatbin, the wrapper of a fatbin, or the output of the emulated linker) and reads it
// for a device.

#include <span>
#include <string_view>
#include <vector>

#include "code/images/image.hpp"

namespace memlake::emulator {

/// What the image must fit to.
struct Target {
  int architecture;  ///< of the device, for instance 80
  int driver;        ///< the version of the driver, for instance 13000
};

/// The bytes of an image in the program's memory. CUDA passes no size: the image itself tells it. PTX comes without its
/// zero byte. Throws 200 if the memory is not readable or no image.
[[nodiscard]] std::vector<char> bytes_of_image(const void* pointer);

/// Reads an image for a target. Throws 200, 209 (no code for the device), 218 (bad PTX), 222 (PTX of a newer version
/// than the driver's) or 801 (a form that the emulator cannot read).
[[nodiscard]] Image read_image(std::span<const char> bytes, Target target);

/// Checks an input of the linker: as read_image(), but the cubin may be relocatable, and fatbins are unpacked before.
void check_linkable(std::span<const char> bytes, Target target);

/// Joins images to one that read_image() accepts: what the emulated linker hands out. pre: there is at least one.
[[nodiscard]] std::vector<char> linked(const std::vector<std::vector<char>>& inputs);

}  // namespace memlake::emulator
