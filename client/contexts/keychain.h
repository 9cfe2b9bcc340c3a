// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONTEXTS_KEYCHAIN_H_
#define MPSD_CLIENT_CONTEXTS_KEYCHAIN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The platform's store of secrets, where it has one: macOS' keychain. Elsewhere
// every function returns Unimplemented.
namespace mpsd::client {

// Keeps `secret` for `context`, in place of the one kept before. Unavailable
// where the keychain is locked and cannot ask, as over ssh.
absl::Status KeepInKeychain(const std::string& context,
                            const std::string& secret);

// NotFound where nothing is kept for `context`; Unavailable as above.
absl::StatusOr<std::string> ReadFromKeychain(const std::string& context);

// OK where nothing is kept.
absl::Status RemoveFromKeychain(const std::string& context);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONTEXTS_KEYCHAIN_H_
