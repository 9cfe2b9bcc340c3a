// SPDX-License-Identifier: Apache-2.0
#include "server/notify/webhook_door.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "server/notify/signature.h"

namespace mpsd::notify {
namespace {

constexpr absl::Duration kLongestWait = absl::Hours(1);

fetch::Client::Options ClientOptions(const WebhookDoor::Options& options) {
  fetch::Client::Options client;
  client.ca_file = options.ca_file;
  client.timeout = options.timeout;
  client.connect_timeout = options.connect_timeout;
  return client;
}

Delivery Judge(const fetch::Answer& answer) {
  const int status = answer.status;
  if (status == 0) return Delivery::Later("the answer is no HTTP");
  if (status >= 200 && status < 300) return Delivery::Sent();
  std::string why = absl::StrCat("HTTP ", status);
  if (status >= 300 && status < 400) {
    absl::StrAppend(&why, ": redirects are not followed, give the URL itself");
  } else if (!answer.body.empty()) {
    absl::StrAppend(&why, ": ", base::Quotable(answer.body));
  }
  if (status != 408 && status != 429 && status < 500) {
    return Delivery::Refused(std::move(why));
  }
  Delivery later = Delivery::Later(std::move(why));
  if (answer.retry_after > absl::ZeroDuration()) {
    later.wait = std::min(answer.retry_after, kLongestWait);
  }
  return later;
}

}  // namespace

WebhookDoor::WebhookDoor(Options options, const base::Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      client_(ClientOptions(options_)) {}

Delivery WebhookDoor::Deliver(const Notice& notice) {
  fetch::Request request;
  request.url = options_.url;
  request.body = notice.body;
  request.max_body = kMostAnswer;
  request.headers = {"Content-Type: application/json",
                     absl::StrCat("Mpsd-Id: ", notice.id),
                     absl::StrCat("Mpsd-Event: ", notice.event)};
  if (!options_.secret.empty()) {
    request.headers.push_back(
        absl::StrCat("Mpsd-Signature: ",
                     SignatureOf(options_.secret, clock_.Now(), notice.body)));
  }
  const absl::StatusOr<fetch::Answer> answer = client_.Run(request);
  if (!answer.ok()) {
    return Delivery::Later(std::string(answer.status().message()));
  }
  return Judge(*answer);
}

}  // namespace mpsd::notify
