// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "client/daemons/context_store.h"
#include "core/base/api_token.h"
#include "core/base/certificates.h"
#include "tests/client/certificates.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {

// Runs mpsctl against a fake daemon on a port of 127.0.0.1, by TLS unless set
// otherwise.
class PortClientTest : public ClientTest {
 protected:
  PortClientTest() : authority_(folder_ / "ca") {
    terminal_.clock = &base::Clock::Real();  // certificates are made now
    Serve(TlsServer(authority_.Issue("IP:127.0.0.1,DNS:localhost"),
                    authority_.pem()));
  }
  void Serve(std::shared_ptr<grpc::ServerCredentials> credentials) {
    daemon_.reset();
    daemon_ =
        std::make_unique<FakeDaemon>(socket_.string(), std::move(credentials));
    v1::WhoAmIResponse& who = data().who;
    who.set_user("ann");
    who.set_role(v1::ROLE_USER);
    who.set_way(v1::WAY_TOKEN);
    who.mutable_token()->set_id("0a1b2c3d4e5f");
    data().authorization = "Bearer " + Token();
  }
  static std::string Token(char secret = 's') {
    return base::ApiToken(std::string(base::kApiTokenSecretBytes, secret));
  }
  std::string Server(const std::string& host = "127.0.0.1") const {
    return host + ":" + std::to_string(daemon_->port());
  }
  static std::string FingerprintOf(const std::string& pem) {
    return certificates::FactsOf(*certificates::ParseCertificates(pem)->front())
        ->fingerprint;
  }
  static ContextStore Contexts() {
    return ContextStore(ContextStore::DefaultFolder());
  }
  // Logs in as a person at a terminal does.
  Result Login(std::vector<std::string> more = {}) {
    answers_ = {"yes", Token()};
    more.insert(more.begin(), {"login", Server()});
    return RunBare(more);
  }

  TestAuthority authority_;
};

}  // namespace mpsd::client
