// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DNS_SD_ANNOUNCEMENT_H_
#define MPSD_CORE_DNS_SD_ANNOUNCEMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/dns_sd/library.h"
#include "core/dns_sd/txt_record.h"

namespace mpsd::dns_sd {

// Tells the local network of mpsd under the machine's own name, for as long as
// the object lives. Nothing that fails there is fatal: it is logged once, and
// tried again.
class Announcement {
 public:
  struct Options {
    uint16_t port = 0;
    TxtRecord txt;
    // Gets lines for the log, on a thread of the object.
    std::function<void(const std::string& line)> log;
    absl::Duration retry = absl::Minutes(1);
  };

  // `library` null: the system has none; that is logged.
  Announcement(const Library* library, Options options);
  // Takes the word back. Waits for the thread, at most a second.
  ~Announcement();
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;

 private:
  static void Answered(Ref, uint32_t flags, int32_t error, const char* name,
                       const char* type, const char* domain, void* context);
  void Run();
  // Registers, and serves the registration until it breaks.
  void Serve();
  void Complain(const std::string& line);
  bool Stopped() const;

  const Library* const library_;
  const Options options_;
  bool complained_ = false;  // since a registration last succeeded
  bool broken_ = false;      // by what Answered was told
  mutable absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mpsd::dns_sd

#endif  // MPSD_CORE_DNS_SD_ANNOUNCEMENT_H_
