// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/report/run_page.h"
#include "server/access/rules.h"
#include "server/http/server.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/daemon_calls.h"

namespace mpsd::web {

// A request's target: "/api/jobs?states=JOB_STATE_QUEUED&page_size=5".
struct Target {
  std::vector<std::string> path;  // the parts between slashes, without empty
                                  // ones: "api", "jobs"
  std::vector<std::pair<std::string, std::string>> query;
};
// Percent codes are decoded, in the query "+" too. InvalidArgument for an
// invalid code, a control character or a target that does not begin with "/".
absl::StatusOr<Target> ParseTarget(const std::string& text);

// The contents of a run's page: what a client of the API would get by Get,
// Watch, Logs and Download, up to now and bounded as `mpsctl report` bounds it.
// A job whose files cannot be read has a page without them. Errors as for
// JobService.Get and Watch: PermissionDenied for a job that is private to
// others.
absl::StatusOr<run_page::RunData> ReadRun(jobs::JobReader& reader,
                                          const access::Rights& rights,
                                          const std::string& id);

// The daemon's web page, which changes nothing:
//   /                  the queue and the jobs, drawn by a script
//   /jobs/ID           a job's report, as `mpsctl report` makes it
//   /api/info          v1.InfoResponse
//   /api/jobs          v1.ListJobsResponse; the query has the fields of
//                      ListJobsRequest except `labels`: states, owner,
//                      page_size, page_token
//   /api/jobs/ID       v1.Job
//   /api/jobs/ID/run   the report's data (core/report/run_page.h)
// Messages are Protocol Buffers' JSON with the proto's names, errors are
// {"error": "…"}. All requests use the functions that answer the API's calls.
// A request whose Host is not this machine's own name is refused, so that no
// page of another site can read this one through a name that it points here.
// Thread-safe; the reader must outlive the site.
class Site {
 public:
  // With `private_jobs` the page only shows the public part of each job.
  Site(jobs::JobReader& reader, rpc::DaemonFacts facts, bool private_jobs)
      : reader_(reader),
        facts_(std::move(facts)),
        rights_(PageVisitor(), private_jobs) {}

  http::Response Answer(const http::Request& request) const;

 private:
  // A visitor of the page: an anonymous viewer.
  static access::Caller PageVisitor();
  http::Response Find(const http::Request& request) const;

  jobs::JobReader& reader_;
  const rpc::DaemonFacts facts_;
  const access::Rights rights_;
};

}  // namespace mpsd::web
