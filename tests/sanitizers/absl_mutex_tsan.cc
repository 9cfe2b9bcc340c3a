// SPDX-License-Identifier: Apache-2.0
// Linked into tests under ThreadSanitizer. The system's Abseil is built without
// it, so TSan does not see that a Mutex orders its critical sections and calls
// everything they guard a race. These definitions take the place of the
// library's, call it, and report to TSan.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdlib>
#include <string>

#include "absl/synchronization/mutex.h"

#define MPSD_TEXT_(x) #x
#define MPSD_TEXT(x) MPSD_TEXT_(x)
// The library's definition of a member of Mutex, by the rest of its mangled
// name. Looked up once a place.
#define MPSD_REAL(type, member)                                      \
  ([] {                                                              \
    static type* const real = reinterpret_cast<type*>(Find(member)); \
    return real;                                                     \
  }())

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

void* Find(const char* member) {
  constexpr char kNamespace[] = MPSD_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string symbol = "_ZN4absl" +
                             std::to_string(sizeof(kNamespace) - 1) +
                             kNamespace + "5Mutex" + member;
  void* found = dlsym(RTLD_NEXT, symbol.c_str());
  if (found == nullptr) abort();
  return found;
}

using OnMutex = void(Mutex*);
using TryMutex = bool(Mutex*);
using OnCondition = void(Mutex*, const Condition*);
using WithTimeout = bool(Mutex*, const Condition*, Duration);
using WithDeadline = bool(Mutex*, const Condition*, Time);

// Unlock evaluates the Conditions of waiters, on their behalf.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

void Mutex::Lock() {
  MPSD_REAL(OnMutex, "4LockEv")(this);
  __tsan_acquire(this);
}
void Mutex::Unlock() {
  __tsan_release(this);
  IgnoreReads ignore;
  MPSD_REAL(OnMutex, "6UnlockEv")(this);
}
void Mutex::ReaderLock() {
  MPSD_REAL(OnMutex, "10ReaderLockEv")(this);
  __tsan_acquire(this);
}
void Mutex::ReaderUnlock() {
  __tsan_release(this);
  IgnoreReads ignore;
  MPSD_REAL(OnMutex, "12ReaderUnlockEv")(this);
}
bool Mutex::TryLock() {
  const bool locked = MPSD_REAL(TryMutex, "7TryLockEv")(this);
  if (locked) __tsan_acquire(this);
  return locked;
}
void Mutex::LockWhen(const Condition& condition) {
  {
    IgnoreReads ignore;
    MPSD_REAL(OnCondition, "8LockWhenERKNS0_9ConditionE")(this, &condition);
  }
  __tsan_acquire(this);
}
bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  bool held;
  {
    IgnoreReads ignore;
    held = MPSD_REAL(WithTimeout,
                     "19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE")(
        this, &condition, timeout);
  }
  __tsan_acquire(this);
  return held;
}
void Mutex::Await(const Condition& condition) {
  __tsan_release(this);
  {
    IgnoreReads ignore;
    MPSD_REAL(OnCondition, "5AwaitERKNS0_9ConditionE")(this, &condition);
  }
  __tsan_acquire(this);
}
bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  __tsan_release(this);
  bool held;
  {
    IgnoreReads ignore;
    held = MPSD_REAL(WithTimeout,
                     "16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE")(
        this, &condition, timeout);
  }
  __tsan_acquire(this);
  return held;
}
bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  __tsan_release(this);
  bool held;
  {
    IgnoreReads ignore;
    held = MPSD_REAL(WithDeadline,
                     "17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE")(
        this, &condition, deadline);
  }
  __tsan_acquire(this);
  return held;
}

ABSL_NAMESPACE_END
}  // namespace absl

// gRPC hands messages and callbacks from thread to thread with atomics that
// TSan does not see either: what happens within its calls is not judged.
extern "C" const char* __tsan_default_suppressions() { return "race:grpc::\n"; }
