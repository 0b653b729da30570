#pragma once

// Starting a thread of the emulator: it must not take signals that are meant for the program's own threads.

#include <pthread.h>

#include <csignal>

namespace memlake::emulator {

/// While it lives, threads that are started take no signals: those are for the program's own threads, which a signal
/// may have to wake up. A fault is still told where it happens.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&signals, fault);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace memlake::emulator
