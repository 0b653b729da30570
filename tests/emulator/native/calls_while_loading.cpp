// A library that calls the driver while it is loaded, as some do: the loader's lock is held then.

extern "C" int cuDriverGetVersion(int* version);

namespace {
const int g_answer = [] {
  int version = 0;
  return cuDriverGetVersion(&version);
}();
}  // namespace

extern "C" __attribute__((visibility("default"))) int answer_while_loading() { return g_answer; }
