// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_HTTP_CERTIFICATE_H_
#define MPSD_TESTS_SERVER_HTTP_CERTIFICATE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "server/tls/pem_files.h"

namespace mpsd::http {

// A key and its self-signed certificate, made by openssl; those of the same
// folder and name are replaced. The key has mode 0600.
inline tls::ServerFiles MakeCertificate(const std::filesystem::path& folder,
                                        int days,
                                        const std::string& name = "server") {
  const tls::ServerFiles files{folder / (name + ".pem"),
                               folder / (name + ".key")};
  const std::string command =
      "umask 077; openssl req -x509 -newkey ec -pkeyopt "
      "ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -addext "
      "subjectAltName=DNS:localhost,IP:127.0.0.1 -days " +
      std::to_string(days) + " -out '" + files.certificate.string() +
      "' -keyout '" + files.key.string() + "' 2>/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  return files;
}

}  // namespace mpsd::http

#endif  // MPSD_TESTS_SERVER_HTTP_CERTIFICATE_H_
