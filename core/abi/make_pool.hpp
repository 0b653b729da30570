#pragma once

// Makes a pool from a configuration: loads the driver, finds the device or creates an emulated one, and creates the
// pool with its policy.

#include <memory>

#include "abi/conf.hpp"
#include "runtime/live_pool.hpp"

namespace memlake::abi {

/// The driver that a configuration names, initialised.
Library& open_driver(const Conf& conf);

/// `device`: its ordinal; on the emulator its place among the devices of this configuration. Configurations that
/// describe the same emulated devices share them.
std::shared_ptr<Device> find_device(const Conf& conf, int device);

/// A pool on that device.
std::shared_ptr<LivePool> make_pool(const Conf& conf, int device);

}  // namespace memlake::abi
