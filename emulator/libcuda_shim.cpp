// An empty library with the name libcuda.so.1 that depends on the emulator. A program that loads the driver by its name
// finds the emulator's functions through it. The emulator itself has another name, so that it does not conflict with a
// real driver in the same process.
