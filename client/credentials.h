// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CREDENTIALS_H_
#define MPSD_CLIENT_CREDENTIALS_H_

#include <string>

namespace mpsd::client {

// How mpsctl and a daemon behind a port come to trust each other. A socket
// needs none of this: there the kernel names the account.
struct Credentials {
  bool tls = false;  // else only this machine's loopback is spoken to
  // PEM; the daemon's certificate leads to one of these.
  std::string roots_pem = {};
  std::string token = {};    // empty: none
  std::string context = {};  // whose these are; empty: no context's
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CREDENTIALS_H_
