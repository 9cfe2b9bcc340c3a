// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/file.h"

namespace mpsd::client {

// What openssl makes of `words`, in `folder`.
inline void OpenSsl(const std::filesystem::path& folder,
                    const std::string& words) {
  const std::string command = "cd '" + folder.string() +
                              "' && umask 077 && openssl " + words +
                              " >openssl.log 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << words;
}

// A key and a certificate, PEM.
struct Pair {
  std::string certificate;
  std::string key;
};

// A certificate authority in a folder of its own.
class TestAuthority {
 public:
  // `subject` as openssl's -subj takes it.
  explicit TestAuthority(const std::filesystem::path& folder,
                         const std::string& subject = "/CN=mpsd test CA")
      : folder_(folder) {
    std::filesystem::create_directories(folder_);
    OpenSsl(folder_, "req -x509 " + std::string(kKey) + " -subj '" + subject +
                         "' -days 30 -out ca.crt -keyout ca.key");
  }

  std::string pem() const { return *base::ReadFile(folder_ / "ca.crt"); }

  // A certificate of this authority. `names` as "DNS:a,IP:127.0.0.1"; with
  // negative `days` it has expired.
  Pair Issue(const std::string& names, int days = 30,
             const std::string& subject = "/CN=daemon") const {
    std::ofstream(folder_ / "names") << "subjectAltName=" << names << "\n";
    OpenSsl(folder_, "req -new " + std::string(kKey) + " -subj '" + subject +
                         "' -out request -keyout leaf.key");
    OpenSsl(folder_,
            "x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial "
            "-extfile names -out leaf.crt -days " +
                std::to_string(days));
    return {*base::ReadFile(folder_ / "leaf.crt"),
            *base::ReadFile(folder_ / "leaf.key")};
  }

 private:
  static constexpr const char* kKey =
      "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
  const std::filesystem::path folder_;
};

// A server that shows `pair` and then `chain`.
inline std::shared_ptr<grpc::ServerCredentials> TlsServer(
    const Pair& pair, const std::string& chain = "") {
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_key_cert_pairs.push_back({pair.key, pair.certificate + chain});
  return grpc::SslServerCredentials(options);
}

}  // namespace mpsd::client
