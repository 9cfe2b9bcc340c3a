// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/map.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/command_line.h"
#include "client/console.h"
#include "client/show.h"
#include "mpsd/v1/jobs.pb.h"

// Which jobs a command line names, and the verbs that change them.

namespace mpsd::client {

// The most jobs that the daemon sends at once.
inline constexpr int kMostListed = 500;

// How users name a job, as `mpsctl help` prints it.
std::string JobIdHelp();

// Whether a verb also takes deleted jobs.
enum class PastJobs { kNo, kToo };

// The id of the one job that `text` identifies: a whole id, or its beginning or
// end of four characters, in upper or lower case; a name; "@last", the caller's
// newest job; "@running". Without such a job prints the error, returns nullopt
// and sets *code: kNotFound; kBadInput if `text` is too short or means several
// jobs (which are listed); or the code of the failed call. A whole id is not
// looked for.
std::optional<std::string> ResolveJobId(const Console& console,
                                        const std::string& text, ExitCode* code,
                                        PastJobs past = PastJobs::kNo);

// Resolves each of `texts` in turn; a job that two texts identify is in the
// result once. Returns nullopt if one text has no job, so that the verb does
// not touch the others either.
std::optional<std::vector<std::string>> ResolveJobIds(
    const Console& console, const std::vector<std::string>& texts,
    ExitCode* code, PastJobs past = PastJobs::kNo);

// The user that the daemon takes the caller for. As ResolveJobId without one.
std::optional<std::string> CallerName(const Console& console, ExitCode* code);

// Adds the positional ID of a verb whose only option it is.
void DeclareJob(Command& verb, std::string& id);

// The jobs that a command line names: by their ids, or by a filter.
struct NamedJobs {
  std::vector<std::string> texts;
  JobFilter filter;
};

// Adds the positional ID and the filter's options to `verb`.
void AddNamedJobs(Command* verb, NamedJobs* named);

// The ids of these jobs: as ResolveJobIds, or those that match both filters, in
// order of submission; states of the command line replace those of `filter`.
// Also returns nullopt if there is no such job.
std::optional<std::vector<std::string>> ResolveNamed(const Console& console,
                                                     const NamedJobs& named,
                                                     v1::ListJobsRequest filter,
                                                     ExitCode* code);

grpc::Status GetJob(const Console& console, const std::string& id,
                    v1::Job* job);

// How long the running job takes yet, by the pace of its last step; "" if `job`
// does not wait for it, or if it is unknown.
std::string RunningEta(const Console& console, const v1::Job& job);

// Adds each "NAME=VALUE" to `job_labels`. InvalidArgument, naming the text, for
// a text of another form, an empty name, or a name given twice with different
// values.
absl::Status AddJobLabels(
    const std::vector<std::string>& texts,
    google::protobuf::Map<std::string, std::string>* job_labels);

}  // namespace mpsd::client
