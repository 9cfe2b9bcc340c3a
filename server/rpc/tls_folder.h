// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_TLS_FOLDER_H_
#define MPSD_SERVER_RPC_TLS_FOLDER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/certificate_facts.h"
#include "server/rpc/authority.h"
#include "server/rpc/host_names.h"

// STATE/tls (mode 0700), the certificates that mpsd makes for itself:
//   ca.crt, ca.key          its own certificate authority
//   server.crt, server.key  the certificate of mpsd's TLS addresses; server.crt
//                           also holds the authority's, for clients to pin
// The keys have mode 0600. The folder appears complete or not at all, and each
// file is replaced in one step, so that a killed process leaves nothing
// incomplete. Root makes them as the owner of STATE, as whom mpsd runs. Of
// several concurrent processes one works; the others get Unavailable.
namespace mpsd::pki {

using certificates::CertificateFacts;

struct TlsFiles {
  std::filesystem::path folder, authority, authority_key, server, server_key;
};
TlsFiles FilesOf(const std::filesystem::path& state_dir);

struct ServerOrder {
  std::vector<std::string> names;  // in addition to the machine's own
  int days = kServerDays;
  Machine machine;
  absl::Time now;
  bool force = false;  // only for Init: make another authority
};

// The contents of a folder.
struct TlsState {
  CertificateFacts authority;
  CertificateFacts server;
  // What the user must fix, a sentence each; empty: nothing.
  std::vector<std::string> problems;
};

struct Initialized {
  TlsState state;
  // The old folder's new path; empty: none existed.
  std::filesystem::path former;
};

// Makes the folder, and STATE (0700) if it is missing. AlreadyExists, with
// nothing changed, if there is one, unless the order says force: the old one is
// then kept next to it. InvalidArgument for a name.
absl::StatusOr<Initialized> Init(const std::filesystem::path& state_dir,
                                 const ServerOrder& order);

// Replaces server.crt by a certificate of the same authority and key. Its names
// are those of the old one, or with order.names this machine's and those. Makes
// server.key if it is missing. FailedPrecondition, saying what to do, if there
// is no authority that could sign.
absl::StatusOr<TlsState> Renew(const std::filesystem::path& state_dir,
                               const ServerOrder& order);

// Reads the folder. NotFound if there is none; else the error of the first
// certificate that cannot be read.
absl::StatusOr<TlsState> Look(const std::filesystem::path& state_dir,
                              absl::Time now);

}  // namespace mpsd::pki

#endif  // MPSD_SERVER_RPC_TLS_FOLDER_H_
