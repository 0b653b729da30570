// Every exported function with random arguments: whatever a program passes, the emulator answers. A signal in the child
// process is the failure; the line before it says which call it was. MEMLAKE_PROGRAMS sets the number of programs of
// each kind, MEMLAKE_CALLS the calls of each, MEMLAKE_SEED runs a single one again.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "random_arguments.hpp"

namespace memlake::test {

namespace {

struct Function {
  std::string name;
  int (*call)(RandomArguments&);
  std::vector<Parameter> parameters;
};

const std::vector<Function>& functions() {
#define CALL(symbol, parameters)                                               \
  Function{#symbol,                                                            \
           [](RandomArguments& random) {                                       \
             static const auto known = parse_parameters(#symbol, #parameters); \
             return random.call(&symbol, known);                               \
           },                                                                  \
           parse_parameters(#symbol, #parameters)},
#define F(base, symbol, since, parameters, arguments) CALL(symbol, parameters)
#define S(base, symbol, since, suffix, parameters, arguments) CALL(symbol, parameters) CALL(symbol##suffix, parameters)
#define U(base, symbol, since) CALL(symbol, ())
#define V(base, symbol, since, suffix) CALL(symbol, ()) CALL(symbol##suffix, ())
  static const std::vector<Function> all = {
#include "cuda/functions.inc"
  };
#undef F
#undef S
#undef U
#undef V
#undef CALL
  return all;
}

/// What ends most of what a program has made, so it is called rarely.
bool ends_much(const std::string& name) {
  static const std::set<std::string> rare = {"cuCtxDestroy",    "cuCtxDestroy_v2",    "cuCtxDetach",
                                             "cuCtxSetCurrent", "cuCtxPushCurrent",   "cuCtxPushCurrent_v2",
                                             "cuCtxPopCurrent", "cuCtxPopCurrent_v2", "cuCtxCreate",
                                             "cuCtxCreate_v2",  "cuCtxCreate_v3",     "cuCtxCreate_v4"};
  return rare.contains(name) || name.starts_with("cuDevicePrimaryCtxRel") || name.starts_with("cuDevicePrimaryCtxRes");
}

/// Handles and memory to work with.
bool makes_something(const Function& function) {
  if (function.parameters.empty() || ends_much(function.name)) return false;
  const std::string& type = function.parameters.front().type;
  return type.starts_with("CU") && type.ends_with("*");
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// The call that a child process is in, for its parent.
struct Trail {
  static constexpr std::size_t kThreads = 4;
  struct Call {
    char name[64];
    std::uint64_t number;
  };
  std::array<Call, kThreads> calls;
  std::array<std::atomic<bool>, 1024> has_succeeded;  // by the function's place in the list

  static Trail& make() {
    void* at = mmap(nullptr, sizeof(Trail), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *static_cast<Trail*>(at);
  }
  void note(std::size_t thread, const std::string& name, std::uint64_t number) {
    std::strncpy(calls[thread].name, name.c_str(), sizeof(Call::name) - 1);
    calls[thread].number = number;
  }
};

/// Violations are no failures here, and their sentences would fill the screen.
void be_quiet() {
  if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0) dup2(nowhere, STDERR_FILENO);
}

/// The thread has a usable context again, and nothing captures.
void recover(RandomArguments& random, const World& world) {
  for (std::size_t i = 0; i < 12; ++i) {
    CUgraph graph = nullptr;
    if (const std::uint64_t stream = random.made("CUstream", i); stream != 0)
      cuStreamEndCapture(reinterpret_cast<CUstream>(stream), &graph);
  }
  for (std::size_t i = 0; i < world.contexts.size(); ++i) {
    const int device = world.first + static_cast<int>(i);
    CUcontext context = nullptr;
    cuDevicePrimaryCtxRetain(&context, device);
    cuCtxSetCurrent(context);
    const int code = cuCtxSynchronize();
    if (code == CUDA_ERROR_ILLEGAL_ADDRESS || code == CUDA_ERROR_LAUNCH_FAILED) {
      cuDevicePrimaryCtxReset_v2(device);
      cuDevicePrimaryCtxRetain(&context, device);
    }
  }
  CUcontext context = nullptr;
  cuDevicePrimaryCtxRetain(&context, world.first);
  cuCtxSetCurrent(context);
}

void run_calls(Trail& trail, std::size_t thread, const World& world, std::uint64_t seed, std::uint64_t calls,
               bool is_alone) {
  constexpr std::uint64_t kBetweenRecoveries = 150;
  RandomArguments random(seed + 1000 * thread, world.first, static_cast<int>(world.contexts.size()), is_alone);
  for (std::uint64_t i = 0; i < calls; ++i) {
    if (i % kBetweenRecoveries == 0) {
      recover(random, world);
      for (const Function& function : functions())
        if (makes_something(function)) function.call(random);
    }
    const std::size_t place = random.choose(functions().size());
    const Function& function = functions()[place];
    const bool is_rare = ends_much(function.name) || function.parameters.empty();
    if (is_rare && !random.happens_once_in(12)) continue;
    // During a capture most calls are refused.
    if (function.name.find("BeginCapture") != std::string::npos && !random.happens_once_in(3)) continue;
    trail.note(thread, function.name, i);
    if (function.call(random) == CUDA_SUCCESS) trail.has_succeeded[place] = true;
  }
  trail.note(thread, "the end", calls);
}

struct Program {
  std::string config;
  std::size_t threads;
};

void run_program(const Program& program, std::uint64_t seed, Trail& trail = Trail::make()) {
  const std::uint64_t calls = from_environment("MEMLAKE_CALLS", 3000);
  const Ended ended = run_in_child(
      [&] {
        be_quiet();
        const World world(program.config);
        std::vector<std::thread> others;
        for (std::size_t i = 1; i < program.threads; ++i)
          others.emplace_back([&, i] { run_calls(trail, i, world, seed, calls, false); });
        run_calls(trail, 0, world, seed, calls, program.threads == 1);
        for (auto& other : others) other.join();
        trail.note(0, "the ledger", calls);
        EXPECT(!ledger().empty());
        trail.note(0, "closing the devices", calls);
        EXPECT_EQ(memlakeEmulatorCloseDevices(world.first, static_cast<int>(world.contexts.size())), 0);
      },
      Leaves::by_exit);
  if (ended == Ended{0, 0}) return;
  std::string where;
  for (std::size_t i = 0; i < program.threads; ++i)
    where +=
        std::string(i == 0 ? "" : ", ") + trail.calls[i].name + " (call " + std::to_string(trail.calls[i].number) + ")";
  fail(shown(ended) + " in " + where + " of MEMLAKE_SEED=" + std::to_string(seed) + " with " + program.config,
       std::source_location::current());
}

void run_programs(const Program& program, std::uint64_t usual) {
  if (std::getenv("MEMLAKE_SEED") != nullptr) return run_program(program, from_environment("MEMLAKE_SEED", 0));
  const std::uint64_t programs = from_environment("MEMLAKE_PROGRAMS", usual);
  for (std::uint64_t seed = 1; seed <= programs && !running_test_has_failed(); ++seed) run_program(program, seed);
}

const char kDevices[] = "devices=2,memory=64MiB,kernels=skip";

/// Functions whose first parameter is a result that the caller may leave out, or an array that may have no elements.
bool may_be_null(const std::string& name) {
  static const std::set<std::string> optional = {
      "cuCtxPopCurrent",         "cuCtxPopCurrent_v2",         "cuCtxGetStreamPriorityRange",
      "cuMemGetAddressRange_v2", "cuModuleEnumerateFunctions", "cuLibraryEnumerateKernels"};
  return optional.contains(name);
}

}  // namespace

TEST(random_calls_of_the_strict_profile_never_crash) { run_programs({kDevices, 1}, 4); }
TEST(random_calls_of_the_profile_nvidia_never_crash) {
  run_programs({std::string(kDevices) + ",profile=nvidia", 1}, 4);
}
TEST(random_calls_on_manual_streams_never_crash) { run_programs({std::string(kDevices) + ",streams=manual", 1}, 2); }
TEST(random_calls_without_bytes_never_crash) { run_programs({std::string(kDevices) + ",backing=none", 1}, 2); }
TEST(random_calls_of_several_threads_never_crash) { run_programs({kDevices, 3}, 2); }
TEST(random_calls_of_several_threads_of_the_profile_nvidia_never_crash) {
  run_programs({std::string(kDevices) + ",profile=nvidia", 3}, 2);
}

TEST(every_function_survives_null_pointers) {
  Trail& trail = Trail::make();
  const Ended ended = run_in_child([&] {
    be_quiet();
    const World world(kDevices);
    RandomArguments random(1, world.first, 2, false);
    random.nulls = Nulls::always;
    for (const Function& function : functions()) {
      trail.note(0, function.name, 0);
      if (!ends_much(function.name))
        for (int i = 0; i < 10; ++i) function.call(random);
    }
  });
  if (ended != Ended{0, 0}) fail(shown(ended) + " in " + trail.calls[0].name, std::source_location::current());
}

PROCESS_TEST(a_null_pointer_for_a_result_is_an_invalid_value) {
  be_quiet();
  const World world(kDevices);
  RandomArguments random(1, world.first, 2, false);
  random.nulls = Nulls::always;
  for (const Function& function : functions()) {
    if (function.parameters.empty() || may_be_null(function.name)) continue;
    const std::string& type = function.parameters.front().type;
    const bool is_result = type.ends_with("*") && !type.starts_with("const") && type != "void*" && type != "void**";
    if (!is_result) continue;
    const int code = function.call(random);
    if (code != CUDA_ERROR_INVALID_VALUE)
      fail(function.name + " answers " + std::to_string(code) + " to a null pointer", std::source_location::current());
  }
}

TEST(random_calls_are_of_every_function_and_most_of_them_succeed_once) {
  EXPECT(functions().size() >= 616);
  Trail& trail = Trail::make();
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    run_program({std::string(kDevices) + (seed % 2 == 0 ? ",profile=nvidia" : ""), 1}, seed, trail);
  std::size_t emulated = 0;
  std::size_t succeeded = 0;
  for (std::size_t i = 0; i < functions().size(); ++i) {
    emulated += functions()[i].parameters.empty() ? 0U : 1U;
    succeeded += trail.has_succeeded[i] ? 1U : 0U;
  }
  EXPECT(10 * succeeded >= 6 * emulated);
}

}  // namespace memlake::test
