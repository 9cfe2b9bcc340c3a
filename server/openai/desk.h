// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_DESK_H_
#define MPSD_SERVER_OPENAI_DESK_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "mpsd/v1/models.pb.h"
#include "server/access/audit_log.h"
#include "server/http/message.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/exported_calls.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/named_files.h"
#include "server/jobs/unnamed_blob.h"
#include "server/rpc/barrier.h"
#include "server/rpc/gate.h"
#include "server/rpc/identify.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/user_accounts.h"

namespace mpsd::openai {

// What the door opens to: what the API's services work on. The borrowed objects
// must outlive the door.
struct Backend {
  jobs::JobManager& manager;
  jobs::JobReader& reader;
  jobs::BlobStore& blobs;
  jobs::UnnamedBlobs& uploads;
  jobs::NamedFiles& files;
  rpc::KnownCallers callers = {};
  rpc::UserAccounts accounts = {};
  access::AuditLog* audit = nullptr;     // null: nothing is noted
  jobs::ExportedCalls* calls = nullptr;  // null: nobody counts
  bool private_jobs = false;
  // ModelService.ListModels; empty: no models are known.
  std::function<absl::Status(const access::Rights&,
                             const v1::ListModelsRequest&,
                             v1::ListModelsResponse&)>
      list_models = {};
  // Frees room on a full disk, so that a row can be deleted; false where
  // nothing was left to free. Empty: likewise.
  std::function<bool()> make_room = {};
  std::function<void(const std::string&)> log = {};
};

// Lets requests pass as the API's calls pass: the caller is the token's owner,
// the gate asks server/access/rules.h, notes audited calls, and Prometheus
// counts the call under the API's method. Thread-safe.
class Desk {
 public:
  explicit Desk(Backend backend);

  const Backend& backend() const { return backend_; }
  const rpc::Gate& gate() const { return gate_; }

  // Who sent the request. Unauthenticated for nobody that is known.
  absl::StatusOr<access::Caller> CallerOf(const http::Request& request) const;
  // Whether the caller may make such a call at all.
  absl::StatusOr<access::Rights> Enter(const http::Request& request,
                                       const rpc::Asked& asked) const;
  // Enters, does the work and notes the end.
  absl::Status Call(const http::Request& request, const rpc::Asked& asked,
                    const std::function<absl::Status(rpc::Call&)>& work) const;

  // Counts a call that has ended, for calls that do not go by Call.
  void Count(const char* method, absl::StatusCode code,
             absl::Duration duration) const;

 private:
  const Backend backend_;
  const rpc::Barrier barrier_;
  const rpc::Gate gate_;
};

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_DESK_H_
