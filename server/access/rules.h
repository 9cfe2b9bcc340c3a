// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_RULES_H_
#define MPSD_SERVER_ACCESS_RULES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/access/caller.h"

namespace mpsd::access {

// Which jobs a call may concern.
enum class Concerns {
  kNoJob,
  // Any job, of which a caller who may not read the rest gets the public part.
  kAnyJob,
  // The whole of one job: the caller's own or a public one; an admin's any.
  kReadableJob,
  // One job that the call changes: the caller's own; an admin's any.
  kOwnJob,
};

// Who may call a method.
struct Rule {
  const char* method;  // "JobService.Cancel", "RunbookService.Diagnose (deep)"
  Role least;
  Concerns concerns;
  bool audited;  // whether each call, and each refused one, is noted
  // Whether the call is carried out where the audit has no room: a full disk
  // would keep a job running that somebody cancels, and for ever the
  // files whose removal makes room.
  bool needs_no_room = false;
};

// One row for each method of proto/mpsd/v1, and one for the calls of a method
// that do more than others, with the reason in brackets. No handler can be
// written without one (see Method), and deploy/README.md shows them.
inline constexpr Rule kRules[] = {
    {"AccessService.CreateToken", Role::kAdmin, Concerns::kNoJob, true},
    {"AccessService.ListAudit", Role::kViewer, Concerns::kNoJob, false},
    {"AccessService.ListTokens", Role::kViewer, Concerns::kNoJob, false},
    {"AccessService.RevokeToken", Role::kViewer, Concerns::kNoJob, true},
    {"AccessService.WhoAmI", Role::kViewer, Concerns::kNoJob, false},
    {"ArtifactService.Download", Role::kViewer, Concerns::kReadableJob, false},
    {"ArtifactService.FindBlobs", Role::kUser, Concerns::kNoJob, false},
    {"ArtifactService.Upload", Role::kUser, Concerns::kNoJob, true},
    {"ArtifactService.UploadBatch", Role::kUser, Concerns::kNoJob, true},
    {"DaemonService.Collect", Role::kAdmin, Concerns::kNoJob, true,
     /*needs_no_room=*/true},
    {"DaemonService.Drain", Role::kAdmin, Concerns::kNoJob, true,
     /*needs_no_room=*/true},
    {"DaemonService.Info", Role::kViewer, Concerns::kAnyJob, false},
    {"DaemonService.PlanCollection", Role::kViewer, Concerns::kAnyJob, false},
    {"DaemonService.Undrain", Role::kAdmin, Concerns::kNoJob, true},
    {"JobService.AddNote", Role::kUser, Concerns::kNoJob, true},
    {"JobService.Cancel", Role::kUser, Concerns::kOwnJob, true,
     /*needs_no_room=*/true},
    {"JobService.Checkpoints", Role::kViewer, Concerns::kReadableJob, false},
    {"JobService.Delete", Role::kUser, Concerns::kOwnJob, true,
     /*needs_no_room=*/true},
    // Each job that goes has to be the caller's own; an admin's any.
    {"JobService.DeleteJobs", Role::kUser, Concerns::kNoJob, true,
     /*needs_no_room=*/true},
    {"JobService.FindJobs", Role::kViewer, Concerns::kAnyJob, false},
    {"JobService.Get", Role::kViewer, Concerns::kAnyJob, false},
    // This one, AddNote and Tag are asked of deleted jobs, too: each asks for
    // the owner itself.
    {"JobService.GetRecord", Role::kViewer, Concerns::kNoJob, false},
    {"JobService.GetSubmission", Role::kViewer, Concerns::kReadableJob, false},
    {"JobService.Hold", Role::kUser, Concerns::kOwnJob, true,
     /*needs_no_room=*/true},
    {"JobService.List", Role::kViewer, Concerns::kAnyJob, false},
    {"JobService.Logs", Role::kViewer, Concerns::kReadableJob, false},
    {"JobService.Move", Role::kUser, Concerns::kOwnJob, true},
    {"JobService.Pin", Role::kUser, Concerns::kOwnJob, true},
    {"JobService.Queue", Role::kViewer, Concerns::kAnyJob, false},
    {"JobService.Release", Role::kUser, Concerns::kOwnJob, true},
    {"JobService.Retry", Role::kUser, Concerns::kOwnJob, true},
    {"JobService.Submit", Role::kUser, Concerns::kNoJob, true},
    {"JobService.Tag", Role::kUser, Concerns::kNoJob, true},
    {"JobService.Unpin", Role::kUser, Concerns::kOwnJob, true},
    {"JobService.Watch", Role::kViewer, Concerns::kReadableJob, false},
    {"ModelService.CancelPull", Role::kUser, Concerns::kNoJob, true,
     /*needs_no_room=*/true},
    {"ModelService.ListModels", Role::kViewer, Concerns::kNoJob, false},
    {"ModelService.Pull", Role::kUser, Concerns::kNoJob, true},
    {"ModelService.Push", Role::kUser, Concerns::kNoJob, true},
    {"ModelService.RemoveModel", Role::kUser, Concerns::kNoJob, true},
    {"RunbookService.Diagnose", Role::kViewer, Concerns::kNoJob, false},
    // With DiagnoseRequest.deep: no job starts while the self-test has the
    // device.
    {"RunbookService.Diagnose (deep)", Role::kUser, Concerns::kNoJob, true},
    {"RunbookService.GetStudyResult", Role::kViewer, Concerns::kReadableJob,
     false},
    {"RunbookService.Plan", Role::kUser, Concerns::kNoJob, false},
};

// A method that has a rule. A name without one does not compile.
class Method {
 public:
  // A name stands for its method where one is wanted.
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval Method(const char* name) : rule_(RuleOf(name)) {}

  const Rule& rule() const { return *rule_; }

 private:
  static consteval const Rule* RuleOf(std::string_view name) {
    for (const Rule& rule : kRules) {
      if (rule.method == name) return &rule;
    }
    throw "kRules has no row for this method";
  }

  const Rule* rule_;
};

// What a caller may know and change of a job, by the job's owner.
class Rights {
 public:
  // `private_jobs`: the daemon hides jobs of others (--private-jobs).
  Rights(Caller caller, bool private_jobs)
      : caller_(std::move(caller)), private_jobs_(private_jobs) {}

  const Caller& caller() const { return caller_; }
  bool is_admin() const { return caller_.role == Role::kAdmin; }
  // Whether the caller gets nothing of others' jobs but their public part.
  bool sees_own_alone() const { return private_jobs_ && !is_admin(); }
  // Whether the caller may read the whole of a job: its spec, name, labels,
  // messages, progress, log, checkpoints and results. The id, state, owner,
  // priority, times and place in the queue of each job are public.
  bool MayRead(std::string_view owner) const {
    return !sees_own_alone() || IsOwn(owner);
  }
  bool MayChange(std::string_view owner) const {
    return is_admin() || IsOwn(owner);
  }

 private:
  // Nobody's job (of a daemon that took jobs without an owner) is no job of a
  // caller without a name.
  bool IsOwn(std::string_view owner) const {
    return !owner.empty() && owner == caller_.user;
  }

  Caller caller_;
  bool private_jobs_;
};

// PermissionDenied, naming the role that would be needed, for a caller whose
// role is less than the rule's.
absl::Status CheckRole(const Rule& rule, const Caller& caller);
// PermissionDenied, naming the owner, where the rule forbids `caller` the job
// of `owner`.
absl::Status CheckOwner(const Rule& rule, const Rights& rights,
                        const std::string& job_id, const std::string& owner);

// The table of `rules` for people, in Markdown.
std::string RulesTable(absl::Span<const Rule> rules = kRules);

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_RULES_H_
