// SPDX-License-Identifier: Apache-2.0
#include "core/dns_sd/announcement.h"

#include <arpa/inet.h>
#include <poll.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/printable.h"

namespace mpsd::dns_sd {
namespace {

constexpr int kNapMilliseconds = 200;

}  // namespace

Announcement::Announcement(const Library* library, Options options)
    : library_(library), options_(std::move(options)) {
  if (library_ == nullptr) {
    options_.log(
        "--advertise: this system has no DNS-SD (Debian: install avahi-daemon "
        "and libavahi-compat-libdnssd1); mpsd is not advertised");
    return;
  }
  thread_ = std::thread([this] { Run(); });
}

Announcement::~Announcement() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

bool Announcement::Stopped() const {
  absl::MutexLock lock(&mutex_);
  return stopped_;
}

void Announcement::Run() {
  while (!Stopped()) {
    Serve();
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&stopped_), options_.retry);
  }
}

void Announcement::Serve() {
  const std::string txt = EncodeTxt(options_.txt);
  Ref ref = nullptr;
  broken_ = false;
  const int32_t error = library_->enroll(
      &ref, 0, 0, nullptr, kServiceType, nullptr, nullptr, htons(options_.port),
      static_cast<uint16_t>(txt.size()), txt.data(), Answered, this);
  if (error != 0) {
    return Complain(absl::StrCat("its service does not answer (", error, ")"));
  }
  while (!Stopped() && !broken_) {
    pollfd wanted = {library_->socket(ref), POLLIN, 0};
    if (poll(&wanted, 1, kNapMilliseconds) <= 0) continue;
    if (const int32_t failed = library_->process(ref); failed != 0) {
      Complain(absl::StrCat("its service has gone (", failed, ")"));
      break;
    }
  }
  library_->deallocate(ref);
}

void Announcement::Answered(Ref, uint32_t, int32_t error, const char* name,
                            const char*, const char*, void* context) {
  auto& self = *static_cast<Announcement*>(context);
  if (error != 0) {
    self.broken_ = true;
    return self.Complain(absl::StrCat("the name was refused (", error, ")"));
  }
  self.complained_ = false;
  self.options_.log(absl::StrCat("advertised to the local network as '",
                                 base::Quotable(name), "', port ",
                                 self.options_.port));
}

void Announcement::Complain(const std::string& line) {
  if (std::exchange(complained_, true)) return;
  options_.log(absl::StrCat("--advertise: DNS-SD: ", line,
                            "; mpsd tries again, and runs without"));
}

}  // namespace mpsd::dns_sd
