// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_RUN_DATA_H_
#define MPSD_SERVER_HTTP_RUN_DATA_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/report/run_page.h"
#include "server/access/rules.h"
#include "server/jobs/job_manager.h"

namespace mpsd::web {

// The contents of a run's page: what a client of the API would get by Get,
// Watch, Logs and Download, up to now and bounded as `mpsctl report` bounds it.
// A job whose files cannot be read has a page without them. Errors as for
// JobService.Get and Watch: PermissionDenied for a job that is private to
// others.
absl::StatusOr<run_page::RunData> ReadRun(jobs::JobReader& reader,
                                          const access::Rights& rights,
                                          const std::string& id);

}  // namespace mpsd::web

#endif  // MPSD_SERVER_HTTP_RUN_DATA_H_
