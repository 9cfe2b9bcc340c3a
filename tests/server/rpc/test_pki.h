// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "server/rpc/pki.h"

namespace mpsd::tls {

inline std::string Content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// An authority in a folder and what it signs, made by openssl. Keys have mode
// 0600.
class TestPki {
 public:
  explicit TestPki(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    Run("req -x509 " + kNewKey +
        " -days 30 -subj '/CN=test authority' -keyout ca.key -out ca.crt");
  }

  std::filesystem::path authority() const { return folder_ / "ca.crt"; }

  // A certificate of localhost. NAME.crt and NAME.key are replaced.
  ServerFiles Server(const std::string& name = "server", int days = 30) const {
    return Sign(name, "/CN=localhost", days,
                "subjectAltName=DNS:localhost,IP:127.0.0.1\n"
                "extendedKeyUsage=serverAuth\n");
  }

  // A client's certificate. `subject` as openssl spells it: "/CN=ada".
  ServerFiles Client(const std::string& name, const std::string& subject,
                     int days = 30) const {
    return Sign(name, subject, days, "extendedKeyUsage=clientAuth\n");
  }

  // Runs openssl in the folder.
  void Run(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() +
                                "' && umask 077 && openssl " + arguments +
                                " >openssl.log 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0)
        << command << "\n"
        << Content(folder_ / "openssl.log");
  }

 private:
  ServerFiles Sign(const std::string& name, const std::string& subject,
                   int days, const std::string& extensions) const {
    std::ofstream(folder_ / "extensions") << extensions;
    Run("req -utf8 " + kNewKey + " -subj '" + subject + "' -keyout " + name +
        ".key -out request");
    Run("x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial "
        "-extfile extensions -days " +
        std::to_string(days) + " -out " + name + ".crt");
    return {folder_ / (name + ".crt"), folder_ / (name + ".key")};
  }

  const std::string kNewKey =
      "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
  const std::filesystem::path folder_;
};

}  // namespace mpsd::tls
