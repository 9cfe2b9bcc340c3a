// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_FAILURES_H_
#define MPSD_TESTS_CLIENT_FAKE_FAILURES_H_

#include <grpcpp/support/status.h>

#include <map>
#include <string>

namespace mpsd::client {

// The status that a test has a method of the fake daemon end with; OK where it
// has named none.
inline grpc::Status FailureOf(const std::map<std::string, grpc::Status>& fail,
                              const std::string& method) {
  const auto found = fail.find(method);
  return found == fail.end() ? grpc::Status::OK : found->second;
}

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_FAILURES_H_
