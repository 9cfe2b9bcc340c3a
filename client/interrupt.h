// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_INTERRUPT_H_
#define MPSD_CLIENT_INTERRUPT_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::client {

// Ctrl-C, for verbs that can end well when it comes. Thread-safe.
class Interrupt {
 public:
  // While a listener lives, an interrupt calls `wake` (on the raising thread)
  // instead of ending the process. Of several, the last one that was made is
  // woken; they go in the reverse order of their coming.
  class Listener {
   public:
    // A null `interrupt` never raises.
    Listener(Interrupt* interrupt, std::function<void()> wake);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    bool raised() const;

   private:
    Interrupt* const interrupt_;
    std::function<void()> outer_;  // the place that this listener took
  };

  // Wakes the listener. False when there is no listener, or when it was woken
  // before; the caller then ends the process as the signal would have.
  bool Raise();
  bool raised() const;

 private:
  mutable absl::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_INTERRUPT_H_
