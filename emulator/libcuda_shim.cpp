// Nothing: a library whose name is libcuda.so.1 and whose only content is that it needs the emulator. Programs that
// load the driver by its name find the emulator's functions through it, while the emulator itself keeps a name of its
// own, so that it never stands in the way of a real driver in the same process.
