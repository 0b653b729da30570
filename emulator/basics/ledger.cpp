#include "basics/ledger.hpp"

#include <cstdio>

namespace memlake::emulator {

namespace {

constexpr std::size_t kMostRemarks = 10000;  // bounds the memory if a program makes violations in a loop

constexpr std::array<const char*, static_cast<std::size_t>(Call::count_)> kNames{
#define F(base, symbol, since, parameters, arguments) #base,
#define S(base, symbol, since, suffix, parameters, arguments) #base,
#define U(base, symbol, since) #base,
#define V(base, symbol, since, suffix) #base,
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V
    "memlakeEmulator"};

void keep(std::vector<Remark>& remarks, const Origin& origin, int code, const std::string& sentence) {
  if (remarks.size() < kMostRemarks) remarks.push_back({origin, code, sentence});
}

void warn(std::vector<Remark>& warnings, const Origin& origin, int code, const std::string& sentence) {
  keep(warnings, origin, code, sentence);
  std::fprintf(stderr, "memlake emulator: warning in %s: %s\n", origin.call, sentence.c_str());
}

}  // namespace

const char* name_of(Call call) { return kNames[static_cast<std::size_t>(call)]; }

void Ledger::note_violation(const Origin& origin, int code, const std::string& sentence) {
  keep(violations_, origin, code, sentence);
  std::fprintf(stderr, "memlake emulator: contract violation in %s: %s\n", origin.call, sentence.c_str());
}

void Ledger::explain(const char* call, int code, const std::string& sentence) const {
  if (explains_) std::fprintf(stderr, "memlake emulator: %s returned %d: %s\n", call, code, sentence.c_str());
}

void Ledger::note_warning(const Origin& origin, const std::string& sentence) {
  warn(warnings_, origin, cuda::CUDA_SUCCESS, sentence);
}

void Ledger::note_unemulated(Call call, const Origin& origin, const std::string& sentence) {
  if (unemulated_.insert(call).second) warn(warnings_, origin, cuda::CUDA_ERROR_NOT_SUPPORTED, sentence);
}

void Ledger::reset() {
  for (auto& count : counts_) count = 0;
  violations_.clear();
  warnings_.clear();
  unemulated_.clear();
}

std::map<std::string, std::uint64_t> Ledger::calls() const {
  std::map<std::string, std::uint64_t> calls;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (static_cast<Call>(i) != Call::control && counts_[i] > 0) calls[kNames[i]] += counts_[i];
  return calls;
}

}  // namespace memlake::emulator
