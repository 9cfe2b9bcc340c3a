// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SERVER_TLS_H_
#define MPSD_SERVER_RPC_SERVER_TLS_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/pem_files.h"

namespace mpsd::rpc {

struct TlsOptions {
  tls::ServerFiles files;
  // The server's own folder (0700), created if missing. gRPC watches the files
  // in it, and refuses every connection while one of them is broken: the user's
  // files are read, checked and then copied there.
  std::filesystem::path served;
};

// Ensures that TLS older than 1.3 finds no cipher in this process, for which
// gRPC 1.51 has no setting. Sets an environment variable: call it before any
// thread is started.
void RefuseOldTls();

// The certificates of the API's ports. Thread-safe.
class ServerTls {
 public:
  // The errors of tls::ReadServerPem; those of base::WriteFileAtomic for the
  // served folder.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Open(TlsOptions options);

  // TLS 1.3 only.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;

  // Reads the files again. New connections get the new certificate within two
  // seconds; open ones continue. If a file cannot be read nothing changes; the
  // errors are those of Open.
  absl::Status Renew();

  absl::Time expiry() const {  // of the server's certificate
    absl::MutexLock lock(&mutex_);
    return expiry_;
  }

 private:
  explicit ServerTls(TlsOptions options) : options_(std::move(options)) {}
  std::filesystem::path IdentityFile() const;

  const TlsOptions options_;
  mutable absl::Mutex mutex_;
  absl::Time expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SERVER_TLS_H_
