// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_RPC_FAKE_CALLERS_H_
#define MPSD_TESTS_SERVER_RPC_FAKE_CALLERS_H_

#include <set>
#include <string>
#include <string_view>

#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/gate.h"
#include "server/rpc/hosts.h"

namespace mpsd::rpc {

inline access::Rights RightsOf(const std::string& user,
                               bool private_jobs = false,
                               access::Role role = access::Role::kUser) {
  access::Caller caller;
  caller.user = user;
  caller.role = role;
  return access::Rights(caller, private_jobs);
}
inline Call CallOf(const std::string& user, bool private_jobs = false,
                   access::Role role = access::Role::kUser) {
  return {RightsOf(user, private_jobs, role), {}, ""};
}
// A request that names the job.
template <typename Request>
Request ById(const std::string& id) {
  Request request;
  request.set_id(id);
  return request;
}

// Believes what a call says of its caller. Thread-safe.
class FakeCallers {
 public:
  // The metadata of a call by `user`, whose credential is "token USER".
  static void Name(grpc::ClientContext& context, const std::string& user,
                   access::Role role) {
    context.AddMetadata("x-user", user);
    context.AddMetadata("x-role", std::to_string(static_cast<int>(role)));
  }

  void Forget(const std::string& user) {
    absl::MutexLock lock(&mutex_);
    forgotten_.insert(user);
  }

  absl::StatusOr<access::Caller> Find(
      const grpc::CallbackServerContext& context) {
    const auto& metadata = context.client_metadata();
    const auto user = metadata.find("x-user");
    const auto role = metadata.find("x-role");
    if (user == metadata.end() || role == metadata.end()) {
      return absl::UnauthenticatedError("who are you?");
    }
    access::Caller caller;
    caller.user = std::string(user->second.data(), user->second.size());
    caller.role = static_cast<access::Role>(*role->second.data() - '0');
    caller.way = access::Way::kToken;
    caller.credential = "token " + caller.user;
    caller.origin = "10.0.0.1";
    absl::MutexLock lock(&mutex_);
    if (forgotten_.contains(caller.user)) {
      return absl::UnauthenticatedError("not any more");
    }
    return caller;
  }

 private:
  absl::Mutex mutex_;
  std::set<std::string> forgotten_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::rpc

#endif  // MPSD_TESTS_SERVER_RPC_FAKE_CALLERS_H_
