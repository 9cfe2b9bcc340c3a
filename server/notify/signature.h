// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_SIGNATURE_H_
#define MPSD_SERVER_NOTIFY_SIGNATURE_H_

#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace mpsd::notify {

// The value of the header Mpsd-Signature: "t=<Unix seconds>,v1=<hex>", where
// <hex> is the HMAC-SHA256 under `secret` of "<Unix seconds>.<body>". The
// receiver computes the same over the bytes it got, compares in constant time,
// and refuses a time that is minutes away, so that nobody can send an old
// message again.
std::string SignatureOf(std::string_view secret, absl::Time time,
                        std::string_view body);

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_SIGNATURE_H_
