// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_DOOR_H_
#define MPSD_SERVER_OPENAI_DOOR_H_

#include "server/http/door.h"
#include "server/http/target.h"
#include "server/openai/desk.h"
#include "server/openai/job_calls.h"
#include "server/openai/upload.h"

namespace mpsd::openai {

// The part of OpenAI's API that is fine-tuning, for programs that know that API
// and no other:
//   /v1/files                              POST (multipart), GET
//   /v1/files/ID                           GET, DELETE
//   /v1/files/ID/content                   GET
//   /v1/fine_tuning/jobs                   POST, GET
//   /v1/fine_tuning/jobs/ID                GET
//   /v1/fine_tuning/jobs/ID/cancel         POST; so are pause and resume
//   /v1/fine_tuning/jobs/ID/events         GET
//   /v1/fine_tuning/jobs/ID/checkpoints    GET
//   /v1/models                             GET
//   /v1/models/NAME                        GET
// Thin over the functions that answer the API's calls: the same callers, roles,
// limits and audit. Every request bears a token; errors are OpenAI's.
// Thread-safe.
class Door final : public http::Door {
 public:
  explicit Door(Backend backend);

  http::Begun Begin(const http::Request& request) override;

 private:
  // Strangers do not learn what is here: they are told that they are strangers.
  http::Response Fault(const http::Request& request,
                       const absl::Status& fault) const;
  http::Response NoSuchAddress(const http::Request& request) const;
  http::Begun Post(const http::Request& request, const http::Target& target);
  http::Response Get(const http::Request& request, const http::Target& target);
  http::Response GetOfJobs(const http::Request& request,
                           const http::Target& target);
  http::Begun CreateJob(const http::Request& request);

  const Desk desk_;
  Uploads uploads_;
  JobCalls jobs_;
};

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_DOOR_H_
