// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/command_line.h"
#include "client/console.h"
#include "core/base/clock.h"
#include "mpsd/v1/jobs.pb.h"

// From a job.json, or from another job, to a queued job: the files that it
// names, their hashes, and sending what the daemon lacks of them.

namespace mpsd::client {

// The advice of an error in what is sent.
inline constexpr char kNothingSubmitted[] = "Nothing was submitted.";

// A file of this machine that the daemon needs.
struct LocalFile {
  std::string path;             // the path in job.json
  std::filesystem::path local;  // the path on this machine
  std::string sha256;
  int64_t size_bytes = 0;
};

// Identifies a file and its version. Programs that set the time of modification
// cannot set back the change time (ctime).
struct FileMark {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  int64_t changed_ns = 0;

  bool operator==(const FileMark&) const = default;
};

FileMark MarkOf(const struct stat& info);

// Whether a change from `now` on gives the file another mark. A file system may
// count time in steps of up to two seconds, and a mark younger than a step, or
// in the future, may be the same after the change.
bool IsSettled(const FileMark& mark, absl::Time now);

// The SHA-256 of files when mpsctl last read them, in a private folder
// (daemons/context_store.h) of its own. A cache that is damaged or not
// private counts as empty. Used by one thread at a time.
class HashCache {
 public:
  struct Bounds {
    size_t entries = 200'000;
    int64_t bytes = 64 << 20;  // of the cache's file
  };

  // The cache in `file`; an empty path stands for none.
  static HashCache Load(const std::filesystem::path& file) {
    return Load(file, Bounds());
  }
  static HashCache Load(const std::filesystem::path& file, Bounds bounds);

  // The hash of the file that had this path and this mark; nullopt if no such
  // file was read. `path` is absolute.
  std::optional<std::string> Find(const std::string& path, const FileMark& mark,
                                  absl::Time now);
  void Keep(const std::string& path, const FileMark& mark,
            std::string_view sha256, absl::Time now);
  // Replaces the file if anything changed. Drops the least recently used
  // entries beyond the bounds.
  absl::Status Save();

 private:
  struct Entry {
    FileMark mark;
    std::string sha256;
    int64_t used_s = 0;  // since 1970
  };

  HashCache(std::filesystem::path file, Bounds bounds)
      : file_(std::move(file)), bounds_(bounds) {}
  bool Read(std::string_view text);
  bool ReadLine(std::string_view line);

  std::filesystem::path file_;  // empty: none
  Bounds bounds_;
  std::unordered_map<std::string, Entry> entries_;  // by path
  bool changed_ = false;
};

// The cache's file: $XDG_CACHE_HOME/mpsctl/hashes, else
// $HOME/.cache/mpsctl/hashes; empty without either.
std::filesystem::path HashCachePath();

struct HashOptions {
  // Holds the hashes that were computed before (HashCachePath()); empty: every
  // file is read.
  std::filesystem::path cache;
  bool rehash = false;  // read every file, and store the hashes
  // Called with the bytes read so far and the total to read, by one thread at a
  // time.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
  const base::Clock* clock = &base::Clock::Real();
};

// The options of the verbs: the user's cache, and a progress bar on a terminal.
// `console` must outlive the options.
HashOptions Hashing(const Console& console, bool rehash);

// Fills in sha256 and size_bytes of each file, on as many threads as the
// machine has cores. Unchanged files whose hash is in the cache are not read.
// NotFound … for the first file that cannot be read, naming its path. A cache
// that cannot be read or written is not used.
absl::Status HashFiles(std::vector<LocalFile>& files,
                       const HashOptions& options);

// Sends the files whose bytes the daemon does not have yet: each content once,
// small files together, large ones from where an earlier upload was
// interrupted, with a progress bar over all bytes on a terminal. Waits some
// seconds for a daemon that reports to be busy. A broken connection is retried
// for ten minutes, and longer as long as bytes get through; a connection that
// fails at the start is an error at once.
grpc::Status Upload(const Console& console,
                    const std::vector<LocalFile>& files);

// Whether a call ended so because the daemon lacks a file that it names.
bool LacksUpload(const grpc::Status& status);

// How a command line names a job: a job.json, and what to change in it.
struct JobFile {
  // "-": standard input, with paths of the current folder.
  std::string path = "job.json";
  std::vector<std::string> set = {}, unset = {};  // as for EditSpec
  // Fields that have an option of their own; empty: as in job.json.
  std::string name = {}, model = {};
  bool rehash = false;
  std::string text = {};  // the file's, if it has not been written yet
};

// Adds the positional JOB and the options of a JobFile, except --name.
void DeclareJobFile(Command& verb, JobFile& job);

// How a verb queues the job of a job.json.
struct QueueOptions {
  JobFile job = {};
  int32_t priority = 0;
  std::vector<std::string> job_labels = {};
  bool anyway = false;
  bool detach = false;
};

// Adds the positional JOB and all options of QueueOptions to `verb`.
void DeclareQueueing(Command& verb, QueueOptions& options);
// All but those of the job's file.
void DeclareSending(Command& verb, QueueOptions& options);

// "CSV", "TSV" or "JSON" by the file's extension; "" for other files.
std::string DataKind(const std::filesystem::path& file);
// The names of a folder's data files, which must be of one kind, except one.
absl::StatusOr<std::vector<std::string>> FindDataFiles(
    const std::filesystem::path& folder,
    const std::string& except = "job.json");

// `path`, normalised, or the whole path if it has no name, as "." and "../..":
// mpsd keeps a folder by its name. `base`: what a relative path is relative to.
std::filesystem::path NamedPath(const std::filesystem::path& path,
                                const std::filesystem::path& base = "");

// A job.json that is ready to be sent.
struct PreparedJob {
  std::string spec_json;
  std::vector<LocalFile> files;
  std::vector<std::string> warnings;  // for fields that change nothing
};

// The request that submits the job, without the caller's options.
v1::SubmitRequest RequestOf(const PreparedJob& job);

// Reads, changes and validates job.json and hashes the files that it names,
// relative to its own folder: data files, the files of the adapter's folder
// and, for an image job, those below a data folder and those that its JSON
// Lines name. A relative `model` that is a folder here is made absolute in
// spec_json. An absolute path that does not exist on this machine is taken as a
// path of the daemon's machine, and so is every absolute path in a row.
//
// InvalidArgument, or NotFound for a missing file, names the line or field, and
// what was expected; for a missing job.json or for data in its place, `mpsctl
// init`.
absl::StatusOr<PreparedJob> PrepareJob(const JobFile& job,
                                       const HashOptions& hashing = {});

// Prepares a job, fills *request with it and the options, and sends its files;
// prints the warnings. On failure prints the error and `nothing`, "Nothing was
// submitted.".
ExitCode PrepareToSend(const Console& console, const QueueOptions& options,
                       const char* nothing, PreparedJob* job,
                       v1::SubmitRequest* request);

// "mpsctl-" and 32 random hexadecimal digits.
std::string NewIdempotencyKey();

// Queues the job of *request, which has an idempotency key and gets its round
// trip (Reach), exactly once. Until the daemon has reported the result (the
// connection broke, the daemon restarts or is busy) the same request is sent
// again, after 0.2 s, then twice as long up to 2 s. The calls have no deadline:
// the client waits for a busy daemon, and the connection's keepalive detects a
// dead one. kOk with *response filled; else prints what happened:
//   as Console::Fail  the daemon is unreachable at the start, or refused;
//   kTryAgain         no answer in ten minutes of attempts and pauses, of each
//                     attempt at most one counted;
//   kDetached         Ctrl-C.
// With the last two the job may have been queued; the message says how to
// check.
//
// `upload` sends the inputs that the daemon lacks: it is called once if an
// input has been removed since it was sent (unused uploads are, after a day).
ExitCode SubmitSurely(const Console& console, v1::SubmitRequest* request,
                      const std::function<grpc::Status()>& upload,
                      v1::SubmitResponse* response);

// Queues the job of `request`, waits some seconds for the daemon's check of its
// data (kBadInput if they are refused), prints the outcome and, unless
// `detach`, follows the job to its end. A request without an idempotency key
// gets a unique one. `upload` as for SubmitSurely. Stores the job's id in
// *job_id, unless null, once the job is queued.
ExitCode SendJob(const Console& console, v1::SubmitRequest request,
                 const std::function<grpc::Status()>& upload, bool detach,
                 std::string* job_id = nullptr);

// `spec_json` with each "FIELD=VALUE" of `set` added and each FIELD of `unset`
// removed. FIELD is a path, "training.learning_rate"; VALUE is JSON or else
// plain text. InvalidArgument names what cannot be done; whether job.json has
// such a field is not checked.
absl::StatusOr<std::string> EditSpec(const std::string& spec_json,
                                     const std::vector<std::string>& set,
                                     const std::vector<std::string>& unset);

// The spec as mpsd reads it: with every default, and paths as written. Text
// that is not a valid spec, as of another release, is returned unchanged.
std::string WithDefaults(const std::string& spec_json);

// A field of two specs, as JSON; "" if a spec does not have it.
struct FieldChange {
  std::string field;  // "training.learning_rate"
  std::string a, b;
  bool operator==(const FieldChange&) const = default;
};

// The fields in which two JSON objects differ: those of `a`, sorted, then those
// that only `b` has.
std::vector<FieldChange> CompareSpecs(const std::string& a,
                                      const std::string& b);

// Removes from request.inputs what the spec no longer names: mpsd refuses
// unused inputs. An image job keeps every input, because only its rows name
// them.
void DropUnusedInputs(v1::SubmitRequest& request);

}  // namespace mpsd::client
