// SPDX-License-Identifier: Apache-2.0
#include "client/contexts/keychain.h"

namespace mpsd::client {
namespace {

absl::Status None() {
  return absl::UnimplementedError("this platform has no keychain");
}

}  // namespace

absl::Status KeepInKeychain(const std::string&, const std::string&) {
  return None();
}

absl::StatusOr<std::string> ReadFromKeychain(const std::string&) {
  return None();
}

absl::Status RemoveFromKeychain(const std::string&) { return None(); }

}  // namespace mpsd::client
