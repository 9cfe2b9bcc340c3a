// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_PEM_FILES_H_
#define MPSD_SERVER_RPC_PEM_FILES_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::tls {

// A server's certificate and its key, both PEM. The certificate's file may hold
// the certificates between it and its authority, in that order.
struct ServerFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;  // readable only by its owner and group
};

// The content of the files, encoded again: nothing but the PEM blocks, the key
// without a passphrase.
struct ServerPem {
  std::string chain;
  std::string key;
  absl::Time expiry;  // notAfter of the server's certificate
};

// What this function returns can serve TLS. InvalidArgument for files that are
// not PEM, for a key with a passphrase, for a key of another certificate and
// for one that OpenSSL considers too weak; else the errors of ReadSecretFile
// and base::ReadSmallFile. An expired certificate is accepted: a client's error
// says more than a refused connection.
absl::StatusOr<ServerPem> ReadServerPem(const ServerFiles& files);

}  // namespace mpsd::tls

#endif  // MPSD_SERVER_RPC_PEM_FILES_H_
