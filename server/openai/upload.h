// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_UPLOAD_H_
#define MPSD_SERVER_OPENAI_UPLOAD_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/http/door.h"
#include "server/jobs/job_id.h"
#include "server/openai/desk.h"

namespace mpsd::openai {

// POST /v1/files: takes a form with `purpose` and `file`, and stores the file
// as it comes. Thread-safe.
class Uploads {
 public:
  // So many uploads of one user at a time; further ones get a 503 and come
  // again.
  static constexpr int kOfAUser = 64;

  // `desk` must outlive the uploads, and the uploads their bodies.
  explicit Uploads(const Desk& desk);

  // An upload is audited from its beginning to its end as one of
  // ArtifactService.Upload; one without an end is noted as cancelled. A token
  // that is revoked meanwhile ends it.
  http::Begun Begin(const http::Request& request);

 private:
  class Body;

  bool Enter(const std::string& user);
  void Leave(const std::string& user);

  const Desk& desk_;
  jobs::JobIdGenerator ids_;
  absl::Mutex mutex_;
  std::map<std::string, int> of_user_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_UPLOAD_H_
