// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/store/token_store.h"

namespace mpsd::access {

// Whether `name` can be a user: 1 to limits::kUserBytes letters, digits and
// "._@+-", the first a letter, a digit or "_".
bool IsUserName(std::string_view name);

// The roles of this machine's accounts. No user is in both lists.
struct RolePolicy {
  uid_t owner = geteuid();  // the daemon's own account
  std::vector<std::string> admins;
  std::vector<std::string> viewers;

  // The role of an account of this machine, whose name is `user`: admin for the
  // daemon's own and for root, whatever the lists say, since both can read and
  // change the daemon's files; else as the lists say, else user.
  Role OfAccount(uid_t uid, const std::string& user) const;
};

// Which jobs a call may access.
enum class Concerns {
  kNoJob,
  // Any job; a caller who may not read the rest gets the public part.
  kAnyJob,
  // A whole job: the caller's own or a public one; any for an admin.
  kReadableJob,
  // A job that the call changes: the caller's own; any for an admin.
  kOwnJob,
};

// Who may call a method.
struct Rule {
  const char* method;  // "JobService.Cancel", "RunbookService.Diagnose (deep)"
  Role least;
  Concerns concerns;
  bool audited;  // whether each call, and each refused one, is recorded
  // Whether the call is carried out if the audit has no space: a full disk
  // would otherwise keep running a job that a user cancels, and keep forever
  // the files whose removal frees space.
  bool needs_no_room = false;
};

// One row for each method of proto/mpsd/v1, and one for calls of a method that
// do more than others, with the reason in brackets. No handler can be written
// without one (see Method), and deploy/access.md shows them.
inline constexpr Rule kRules[] = {
    {"AccessService.CreateToken", Role::kAdmin, Concerns::kNoJob, true},
    {"AccessService.ListAudit", Role::kViewer, Concerns::kNoJob, false},
    {"AccessService.ListTokens", Role::kViewer, Concerns::kNoJob, false},
    {"AccessService.RevokeToken", Role::kViewer, Concerns::kNoJob, true},
    {"AccessService.WhoAmI", Role::kViewer, Concerns::kNoJob, false},
    {"ArtifactService.Download", Role::kViewer, Concerns::kReadableJob, false},
    {"ArtifactService.FindBlobs", Role::kUser, Concerns::kNoJob, false},
    {"ArtifactService.Upload", Role::kUser, Concerns::kNoJob, true},
    {"ArtifactService.UploadBatch", Role::kUser, Concerns::kNoJob, false},
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
    {"JobService.FindJobs", Role::kViewer, Concerns::kAnyJob, false},
    {"JobService.Get", Role::kViewer, Concerns::kAnyJob, false},
    // This one, AddNote and Tag also accept deleted jobs: each checks the owner
    // itself.
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
  // A name converts to its method where one is needed.
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

// What a caller may read and change of a job, by the job's owner.
class Rights {
 public:
  // `private_jobs`: the daemon hides jobs of others (--private-jobs).
  Rights(Caller caller, bool private_jobs)
      : caller_(std::move(caller)), private_jobs_(private_jobs) {}

  const Caller& caller() const { return caller_; }
  bool is_admin() const { return caller_.role == Role::kAdmin; }
  // Whether the caller gets only the public part of others' jobs.
  bool sees_own_alone() const { return private_jobs_ && !is_admin(); }
  // Whether the caller may read the whole job: its spec, name, labels,
  // messages, progress, log, checkpoints and results. The id, state, owner,
  // priority, times and place in the queue of each job are public.
  bool MayRead(std::string_view owner) const {
    return !sees_own_alone() || IsOwn(owner);
  }
  bool MayChange(std::string_view owner) const {
    return is_admin() || IsOwn(owner);
  }

 private:
  // A job without an owner (of a daemon that took such jobs) does not belong to
  // a caller without a name.
  bool IsOwn(std::string_view owner) const {
    return !owner.empty() && owner == caller_.user;
  }

  Caller caller_;
  bool private_jobs_;
};

// PermissionDenied, naming the required role, for a caller whose role is less
// than the rule's.
absl::Status CheckRole(const Rule& rule, const Caller& caller);
// PermissionDenied, naming the owner, if the rule forbids `caller` the job of
// `owner`.
absl::Status CheckOwner(const Rule& rule, const Rights& rights,
                        const std::string& job_id, const std::string& owner);

// The table of `rules` in Markdown.
std::string RulesTable(absl::Span<const Rule> rules = kRules);

}  // namespace mpsd::access
