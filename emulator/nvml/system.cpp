// NVML: start and end, versions, results, processes by number, and the functions that are not emulated.

#include <array>
#include <fstream>

#include "nvml/entry.hpp"

namespace memlake::emulator::nvml {

namespace {

constexpr unsigned kKnownInitFlags = 1 | 2;  // NO_GPUS, NO_ATTACH

/// The driver release that NVIDIA published with a CUDA version.
struct Release {
  int cuda;
  const char* driver;
};
constexpr std::array kReleases = {
    Release{11020, "460.27.04"}, Release{11040, "470.42.01"}, Release{11060, "510.39.01"}, Release{11080, "520.61.05"},
    Release{12000, "525.60.13"}, Release{12020, "535.54.03"}, Release{12040, "550.54.14"}, Release{12060, "560.28.03"},
    Release{12080, "570.26"},    Release{13000, "580.65.06"}, Release{13010, "590.44.01"},
};

std::string driver_release(int cuda) {
  const char* found = kReleases.front().driver;
  for (const Release& release : kReleases)
    if (release.cuda <= cuda) found = release.driver;
  return found;
}

Result init(unsigned flags) {
  return enter(
      [&](Driver& driver) {
        if ((flags & ~kKnownInitFlags) != 0) return INVALID_ARGUMENT;
        driver.first_devices();
        ++initialisations();
        return SUCCESS;
      },
      false);
}

Result not_supported(const char* function) {
  return enter([&](Driver& driver) {
    driver.ledger.explain(function, NOT_SUPPORTED, "emulated devices do not have this");
    return NOT_SUPPORTED;
  });
}

}  // namespace

int& initialisations() {
  static int count = 0;
  return count;
}

MEMLAKE_EXPORT Result nvmlInit() { return init(0); }
MEMLAKE_EXPORT Result nvmlInit_v2() { return init(0); }
MEMLAKE_EXPORT Result nvmlInitWithFlags(unsigned flags) { return init(flags); }

MEMLAKE_EXPORT Result nvmlShutdown() {
  return enter([](Driver&) {
    --initialisations();
    return SUCCESS;
  });
}

MEMLAKE_EXPORT const char* nvmlErrorString(int result) {
  switch (result) {
#define R(code, name, text) \
  case code:                \
    return text;
#include "nvml/results.inc"
#undef R
    default:
      return "Unknown Error";
  }
}

MEMLAKE_EXPORT Result nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return enter([&](Driver& driver) { return put_text(version, length, driver_release(driver.version())); });
}

MEMLAKE_EXPORT Result nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return enter([&](Driver& driver) {
    return put_text(version, length, text(driver.version() / 1000, ".", driver_release(driver.version())));
  });
}

MEMLAKE_EXPORT Result nvmlSystemGetDriverBranch(DriverBranch* branch, unsigned length) {
  return enter([&](Driver& driver) {
    if (branch == nullptr) return INVALID_ARGUMENT;
    if (branch->version != kDriverBranchV1) return ARGUMENT_VERSION_MISMATCH;
    const std::string release = driver_release(driver.version());
    return put_text(branch->branch, std::min<unsigned>(length, sizeof branch->branch),
                    text("r", release.substr(0, release.find('.')), "_00"));
  });
}

// Both versions of this function answer without nvmlInit.
MEMLAKE_EXPORT Result nvmlSystemGetCudaDriverVersion(int* version) {
  return enter([&](Driver& driver) { return put(version, driver.version()); }, false);
}

MEMLAKE_EXPORT Result nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

MEMLAKE_EXPORT Result nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return enter([&](Driver&) {
    if (name == nullptr || length == 0) return INVALID_ARGUMENT;
    std::string command;
    std::getline(std::ifstream(text("/proc/", pid, "/cmdline")), command, '\0');
    if (command.empty()) return NOT_FOUND;
    std::snprintf(name, length, "%s", command.c_str());  // NVML cuts a long name
    return SUCCESS;
  });
}

// Functions without an emulation: the devices do not have the feature.
#define N(name) \
  MEMLAKE_EXPORT Result name() { return not_supported(#name); }
#include "nvml/unsupported.inc"
#undef N

}  // namespace memlake::emulator::nvml
