// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_WEBHOOK_DOOR_H_
#define MPSD_SERVER_NOTIFY_WEBHOOK_DOOR_H_

#include <filesystem>
#include <string>

#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/fetch/client.h"
#include "server/notify/door.h"

namespace mpsd::notify {

// Posts a notice's body to a URL, with the headers Mpsd-Id, Mpsd-Event and,
// where there is a secret, Mpsd-Signature (signature.h). An answer of 2xx means
// sent. 408, 429, 5xx and no answer at all mean later; every other answer means
// refused, redirects too, which are not followed. At most kMostAnswer bytes of
// an answer are read.
class WebhookDoor final : public Door {
 public:
  static constexpr size_t kMostAnswer = 4096;

  struct Options {
    std::string url;
    std::string secret;             // empty: no signature
    std::filesystem::path ca_file;  // empty: the system's certificates
    // From the look-up of the name to the last byte of the answer
    absl::Duration timeout = absl::Seconds(15);
    absl::Duration connect_timeout = absl::Seconds(5);
  };

  WebhookDoor(Options options, const base::Clock& clock);

  const char* name() const override { return "webhook"; }
  Delivery Deliver(const Notice& notice) override;
  void Interrupt() override { client_.Interrupt(); }

 private:
  const Options options_;
  const base::Clock& clock_;
  fetch::Client client_;
};

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_WEBHOOK_DOOR_H_
