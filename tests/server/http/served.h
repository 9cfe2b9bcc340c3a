// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/http/server.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/http/client.h"
#include "tests/server/rpc/test_pki.h"

namespace mpsd::http {

// A key and its certificate; those of the same folder are replaced.
inline tls::ServerFiles MakeCertificate(const fs::path& folder, int days) {
  return tls::TestPki(folder).Server("server", days);
}

// A server whose answers are the targets of the requests.
class Served : public testing::Test {
 protected:
  Served() {
    std::signal(SIGPIPE, SIG_IGN);
    options_.address = "127.0.0.1:0";
    options_.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      log_ += line + "\n";
    };
  }
  void Serve(Handler handler = [](const Request& request) {
    return Response{.body = "you asked for " + request.target};
  }) {
    auto server = Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    server_->Serve(std::move(handler));
  }
  const std::string& address() const { return server_->address(); }
  std::string log() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }
  fs::path WriteToken(const std::string& text) const {
    const fs::path path = folder_ / "token";
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
    return path;
  }

  const fs::path folder_ = FreshFolder("http");
  Server::Options options_;
  absl::Mutex mutex_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
};

}  // namespace mpsd::http
