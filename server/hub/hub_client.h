// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_HUB_CLIENT_H_
#define MPSD_SERVER_HUB_HUB_CLIENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/fetch/client.h"
#include "server/fetch/url.h"
#include "server/hub/listing.h"
#include "server/hub/settings.h"

namespace mpsd::hub {

// Asks a hub by the HTTP API of the Hugging Face hub. The token goes to the
// hub's own scheme, host and port, and never to where the hub redirects to;
// from a hub over https no request goes out in plain text; without
// Settings::allow_private only the hub's own server may have an address that is
// not public. One thread at a time, but for Interrupt.
//
// Unavailable means that another try may succeed; asked_wait() is the wait that
// the server asked for with it. Any other error is final, and one of those of
// ModelService.Pull in proto/mpsd/v1/models.proto. Errors quote nothing of a
// URL but a host: redirects hold signatures.
class HubClient {
 public:
  // `settings` passed CheckSettings, and names a hub. `token`: "" for none.
  HubClient(const Settings& settings, std::string token,
            fetch::Client::Options options);

  // The files of a model at a revision.
  absl::StatusOr<Listing> Describe(const std::string& id,
                                   const std::string& revision);

  // Takes a file's bytes from `offset` on.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // The bytes that follow begin at this offset of the file: the one that was
    // asked for, or 0. Called before Take, and not again.
    virtual absl::Status Begin(int64_t offset) = 0;
    virtual absl::Status Take(std::string_view bytes) = 0;
  };
  // Ends with OK where the server sent the file to its end, as the server says.
  // DataLoss where the server's size, hash or commit is another than the
  // listing's; OutOfRange where the server has no bytes at the offset.
  absl::Status Download(const std::string& id, const std::string& commit,
                        const HubFile& file, int64_t offset,
                        Receiver& receiver);

  absl::Duration asked_wait() const { return asked_wait_; }

  // Makes the call under way, and each later one, return Cancelled at once. Any
  // thread.
  void Interrupt() { client_.Interrupt(); }

 private:
  // Whom a request concerns, for the words of errors.
  struct About {
    std::string id, revision;
  };
  // Looks at each answer before the redirect that it may be is followed.
  using Look = std::function<absl::Status(const fetch::Answer& answer)>;

  absl::StatusOr<fetch::Answer> Follow(const About& about,
                                       const fetch::Request& request,
                                       const Look& look,
                                       const fetch::Sink& sink);
  absl::StatusOr<fetch::Answer> Ask(const fetch::Url& url,
                                    fetch::Request request,
                                    const fetch::Sink& sink);
  absl::StatusOr<fetch::Url> NextHop(const fetch::Url& from,
                                     const fetch::Answer& answer) const;
  absl::Status Judge(const About& about, const fetch::Url& url,
                     const fetch::Answer& answer);
  absl::Status JudgeRefusal(const About& about,
                            const fetch::Answer& answer) const;

  const fetch::Url hub_;
  const bool allow_private_;
  const std::string token_;
  absl::Duration asked_wait_;
  fetch::Client client_;
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_HUB_CLIENT_H_
