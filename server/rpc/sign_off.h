// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SIGN_OFF_H_
#define MPSD_SERVER_RPC_SIGN_OFF_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::rpc {

// Who accepted the result of a parity study although it did not pass. It lies
// beside the result, as accepted.json, and goes with it: with the job's folder,
// and with a result that a later run of the job replaces.
struct SignOff {
  std::string by;  // a user's name
  absl::Time time;
  std::string reason;
  // Whether the logbook has it; false after a fault in between.
  bool noted = false;
};

// The sign-off of `result`, the bytes of result.json in `folder`; nullopt where
// nobody signed these bytes off, or where the file is none.
std::optional<SignOff> ReadSignOff(const std::filesystem::path& folder,
                                   const std::string& result);

// Replaces the sign-off; it survives a power cut once this returns OK. Errors
// of the disk name the path.
absl::Status WriteSignOff(const std::filesystem::path& folder,
                          const std::string& result, const SignOff& sign_off);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SIGN_OFF_H_
