// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/submission.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/host/traits.h"
#include "core/spec/generation.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/model_folder.h"
#include "core/spec/targets.h"

namespace mpsd::jobs {

int64_t LeastMemory(spec::TrainSpec spec, const spec::ModelConfig& model) {
  if (spec.training.auto_find_batch_size) {
    spec.training.per_device_train_batch_size = 1;
    spec.training.set_recompute(spec::Recompute::kFull);
  }
  return spec::EstimateMemory(spec, model).total_bytes;
}

int64_t MemoryFor(const MachineMemory& memory, spec::DeviceChoice device) {
  const backend::MemoryPlace place = backend::TraitsOf(device).memory;
  if (place == backend::MemoryPlace::kHost) return memory.host_bytes;
  const bool is_known =
      memory.device_bytes > 0 && (device == spec::DeviceChoice::kAuto ||
                                  memory.device == backend::NameOf(device));
  if (is_known) return memory.device_bytes;
  return place == backend::MemoryPlace::kOwn ? 0 : memory.host_bytes;
}

namespace {

absl::Status CheckStored(const std::string& spec_json) {
  if (spec_json.size() <= limits::kStoredSpecBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "spec_json: has ", spec_json.size(),
      " bytes with its defaults and the paths on the daemon's machine, at "
      "most ",
      limits::kStoredSpecBytes,
      " are allowed; name fewer files, or the folder around them"));
}

absl::Status Prefixed(absl::StatusCode code, const absl::Status& status) {
  return absl::Status(code, absl::StrCat("model: ", status.message()));
}

absl::StatusOr<JobFiles::Model> FindModel(JobFiles& files,
                                          const std::string& model) {
  if (model.starts_with("./") || model.starts_with("../") ||
      model.starts_with("~")) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: '", model,
                     "' must be the absolute path of a "
                     "folder on the daemon's machine or a Hugging Face id"));
  }
  absl::StatusOr<JobFiles::Model> found = files.FindModel(model);
  if (found.ok()) return found;
  if (absl::IsUnimplemented(found.status())) {
    return Prefixed(absl::StatusCode::kInvalidArgument, found.status());
  }
  return Prefixed(absl::StatusCode::kFailedPrecondition, found.status());
}

// Decides which jobs' folders a submission may name files in, and collects
// them.
class JobFolders {
 public:
  JobFolders(const SubmitRequest& request, const std::string& own_id,
             JobFiles& files)
      : may_read_(request.may_read_job), own_id_(own_id), files_(files) {}

  // The id of the job in whose folder `path` lies, or "". PermissionDenied,
  // with the same message whether the path exists or not, if the job is private
  // to others.
  absl::StatusOr<std::string> JobOf(const std::string& field,
                                    const std::string& path) const {
    std::string id = path.starts_with('/') ? files_.JobAt(path) : "";
    if (id == own_id_) id.clear();
    if (id.empty() || !may_read_ || may_read_(id)) return id;
    return absl::PermissionDeniedError(absl::StrCat(
        field, ": '", base::Quotable(path),
        "' lies in the folder of a job that is not yours, and this daemon "
        "hides jobs of others (--private-jobs): name a file of yours"));
  }

  std::set<std::string> uses;

 private:
  const std::function<bool(const std::string&)>& may_read_;
  const std::string& own_id_;
  JobFiles& files_;
};

// The blobs that a submission may use.
class UsableBlobs final : public Blobs {
 public:
  UsableBlobs(const SubmitRequest& request, Blobs& blobs)
      : may_use_(request.may_use_blob), blobs_(blobs) {}

  bool Has(const std::string& sha256) override {
    return (!may_use_ || may_use_(sha256)) && blobs_.Has(sha256);
  }
  std::string PathOf(const std::string& sha256) const override {
    return blobs_.PathOf(sha256);
  }

 private:
  const std::function<bool(const std::string&)>& may_use_;
  Blobs& blobs_;
};

absl::Status Resolve(Inputs& inputs, JobFolders& folders,
                     const std::string& field, std::string& path,
                     JobFiles::Use use) {
  // Before Resolve, which reveals whether the path exists.
  ASSIGN_OR_RETURN(const std::string job, folders.JobOf(field, path));
  ASSIGN_OR_RETURN(std::string resolved, inputs.Resolve(field, path, use));
  const bool is_upload = resolved != path;
  if (!job.empty() && !is_upload) folders.uses.insert(job);
  path = std::move(resolved);
  return absl::OkStatus();
}

// Whether a data file may name further files; only the file itself contains the
// paths.
bool RowsNameFiles(const spec::TrainSpec& spec) {
  return spec.task == spec::Task::kImageCls;
}

absl::Status PlaceInputs(Inputs& inputs, JobFolders& folders,
                         spec::TrainSpec& spec) {
  spec::DatasetSpec& dataset = spec.dataset;
  const size_t files =
      dataset.train.size() + dataset.eval.size() + dataset.predict.size();
  if (files > limits::kDatasetFiles) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dataset: train, eval and predict name ", files, " files, at most ",
        limits::kDatasetFiles, " are allowed"));
  }
  absl::Status resolved;
  spec::VisitPaths(spec, [&](const char* field, std::string& path) {
    const bool data = std::string_view(field).starts_with("dataset.");
    if (!resolved.ok() || &path == &spec.model || (path.empty() && !data)) {
      return;
    }
    if (&path == &spec.adapter && spec::NamesResult(path)) return;
    resolved = Resolve(inputs, folders, field, path,
                       data ? JobFiles::Use::kData : JobFiles::Use::kEither);
  });
  if (!resolved.ok()) return resolved;
  return RowsNameFiles(spec) ? absl::OkStatus() : inputs.CheckAllUsed();
}

// The number of outputs of the head, as far as known before the data are read.
int64_t ExpectedLabels(const spec::TrainSpec& spec,
                       const spec::ModelConfig& model) {
  const spec::ClassificationSpec& c = spec.classification;
  if (spec.task == spec::Task::kCausalLm) return 0;
  if (!c.label_names.empty()) return c.label_names.size();
  if (!c.class_weights.empty()) return c.class_weights.size();
  const spec::GlueTask* glue = spec::FindGlueTask(spec.dataset.task_name);
  if (c.problem_type.value_or(glue != nullptr
                                  ? glue->problem_type
                                  : spec::ProblemType::kSingleLabel) ==
      spec::ProblemType::kRegression) {
    return 1;
  }
  if (glue != nullptr) return glue->label_names.size();
  return model.head.num_labels.value_or(2);
}

// Checks that lora finds its target modules in this model. The worker checks
// the modules of an adapter's folder, which may still be blobs without a
// folder.
absl::Status CheckTargets(const spec::TrainSpec& spec,
                          const spec::ModelConfig& model) {
  if (spec.fine_tune_type != spec::FineTuneType::kLora ||
      !spec.adapter.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(spec::CheckPatternKeys(spec.lora, model));
  return spec::MatchModulesToSave(spec.lora, model).status();
}

absl::Status CheckFits(const spec::TrainSpec& spec, int64_t needed,
                       const MachineMemory& memory) {
  const int64_t limit = MemoryFor(memory, spec.device);
  if (limit <= 0 || needed <= limit) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the job needs about ", base::BytesText(needed),
                   " of memory and this machine has ", base::BytesText(limit),
                   " for it: lower training.per_device_train_batch_size or "
                   "training.max_length, set training.gradient_checkpointing, "
                   "or quantize the base model (quantization_config); `mpsctl "
                   "plan` names what would fit, and `mpsctl submit --anyway` "
                   "queues it all the same"));
}

std::string DescribeEstimate(const spec::TrainSpec& spec,
                             const spec::ModelConfig& model) {
  const spec::MemoryEstimate estimate = spec::EstimateMemory(spec, model);
  return absl::StrCat(
      "estimated device memory ", base::BytesText(estimate.total_bytes), ", ",
      spec::TrainableParameterCount(spec, model), " trainable parameters");
}

// The weights, a forward over the prompts, and the keys and values of a batch.
int64_t GenerationMemory(const spec::TrainSpec& spec,
                         const spec::ModelConfig& model) {
  const spec::MemoryEstimate estimate = spec::EstimateMemory(spec, model);
  return estimate.base_weights_bytes + estimate.evaluation_bytes +
         spec::kMostCacheBytes;
}

// The model with which to check the job; replaces names by the results' paths.
absl::StatusOr<JobFiles::Model> FindModelOf(spec::TrainSpec& spec,
                                            JobFolders& folders,
                                            const FindJob& find_job,
                                            JobFiles& files) {
  const bool is_result = spec::NamesResult(spec.model);
  // Before the names are replaced: the folder of another user's job that is
  // named by its path remains refused.
  ASSIGN_OR_RETURN(const std::string job, folders.JobOf("model", spec.model));
  if (!job.empty()) folders.uses.insert(job);
  RETURN_IF_ERROR(PlaceResults(find_job, files, spec));
  if (!is_result) return FindModel(files, spec.model);
  absl::StatusOr<JobFiles::Model> model =
      spec::NamesResult(spec.model) ? ModelToBe(find_job, files, spec.model)
                                    : files.ReadResult(spec.model);
  if (model.ok()) return model;
  return Prefixed(absl::StatusCode::kFailedPrecondition, model.status());
}

// A job without a name is called after its model and data. Only its row gets
// the name: the spec, by which a run resumes, stays as sent.
std::string NameFrom(const std::string& model,
                     const spec::DatasetSpec& dataset) {
  const auto last = [](const std::string& path) {
    const std::filesystem::path normal =
        std::filesystem::path(path).lexically_normal();
    return normal.has_filename() ? normal : normal.parent_path();
  };
  const std::filesystem::path train = last(dataset.train[0]);
  const std::string around = train.parent_path().filename().string();
  const bool is_part = train.stem() == "train" && !around.empty() &&
                       around.find_first_not_of('.') != around.npos;
  return base::Shortened(
      base::Printable(absl::StrCat(last(model).filename().string(), "-",
                                   is_part ? around : train.stem().string())),
      limits::kNameBytes - 5);
}

constexpr int64_t kScannedBytes = int64_t{256} << 20;
// More than what a chat template adds to a row.
constexpr int64_t kTemplateTokens = 256;

// The bytes of the longest row, a line of JSON or a row of CSV, in which a line
// may end within quotes. A row has no more tokens than bytes.
int64_t LongestRow(std::string_view bytes, bool quotes) {
  int64_t longest = 0;
  bool quoted = false;
  for (size_t begin = 0, at = 0; at <= bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    if (quotes) {
      quoted ^= std::count(bytes.begin() + at, bytes.begin() + end, '"') % 2;
    }
    at = end + 1;
    if (quoted && end < bytes.size()) continue;
    longest = std::max<int64_t>(longest, end - begin);
    begin = at;
  }
  return longest;
}

// The spec with the length that its rows have at most, as far as that is known
// before they are tokenized.
spec::TrainSpec AtLongestRow(spec::TrainSpec spec, const SubmitRequest& request,
                             const std::string& job_id, const Inputs& inputs,
                             const JobFiles& files) {
  // The names of more files would take tens of megabytes.
  constexpr size_t kFewInputs = 1000;
  if (spec.task == spec::Task::kImageCls || spec.training.packing ||
      request.inputs.size() > kFewInputs) {
    return spec;
  }
  std::map<std::string, std::string> stored;
  for (const JobFiles::Link& link : inputs.Links()) {
    stored[files.InputPath(job_id, link.relative)] = link.target;
  }
  int64_t longest = 0, left_bytes = kScannedBytes;
  for (const auto* part : {&spec.dataset.train, &spec.dataset.eval}) {
    for (const std::string& path : *part) {
      const auto blob = stored.find(path);
      const auto file =
          base::MappedFile::Open(blob == stored.end() ? path : blob->second);
      if (!file.ok()) return spec;
      const std::string_view bytes = (*file)->bytes();
      left_bytes -= static_cast<int64_t>(bytes.size());
      if (left_bytes < 0) return spec;
      longest = std::max(longest,
                         LongestRow(bytes, !absl::StrContains(path, ".json")));
    }
  }
  spec.training.max_length =
      std::min(spec.training.max_length, longest + kTemplateTokens);
  return spec;
}

// Checks a job.json for training: the spec, its inputs, its model and its
// memory.
absl::StatusOr<Submission> CheckTraining(const SubmitRequest& request,
                                         const std::string& job_id,
                                         JobFiles& files, Blobs& blobs,
                                         const MachineMemory& memory,
                                         const FindJob& find_job) {
  ASSIGN_OR_RETURN(spec::TrainSpec spec,
                   spec::ParseNewSpec(request.spec_json, "job.json"));

  UsableBlobs usable(request, blobs);
  ASSIGN_OR_RETURN(Inputs inputs,
                   Inputs::Create(request.inputs, job_id, files, usable));
  Submission submission;
  submission.model = spec::ParseHubName(spec.model).id;
  submission.named = !spec.name.empty();
  submission.name =
      spec.name.empty() ? NameFrom(submission.model, spec.dataset) : spec.name;
  submission.named_jobs = JobsNamedBy(spec);
  JobFolders folders(request, job_id, files);
  folders.uses.insert(submission.named_jobs.begin(),
                      submission.named_jobs.end());
  RETURN_IF_ERROR(PlaceInputs(inputs, folders, spec));

  ASSIGN_OR_RETURN(JobFiles::Model model,
                   FindModelOf(spec, folders, find_job, files));
  if (absl::Status s = spec::CheckTask(spec, model.config); !s.ok()) {
    return absl::InvalidArgumentError(s.message());
  }
  model.config.num_labels = ExpectedLabels(spec, model.config);
  RETURN_IF_ERROR(CheckTargets(spec, model.config));
  // Keep the requested id: results name the id, not a folder of this machine.
  const std::string id = spec::ParseHubName(spec.model).id;
  if (spec::Names(id, model.folder)) {
    if (spec.model == id) submission.model_folder = model.folder;
    spec.model_id = id;
  }
  spec.model = model.folder;
  submission.model_lease = std::move(model.lease);
  const spec::TrainSpec longest =
      AtLongestRow(spec, request, job_id, inputs, files);
  const bool generates = request.kind == JobKind::kGenerate;
  submission.memory_bytes = generates ? GenerationMemory(longest, model.config)
                                      : LeastMemory(longest, model.config);
  // A probe or a batch sweep exists to find out what fits.
  const bool finds_out =
      request.kind == JobKind::kProbe || request.kind == JobKind::kBatchSweep;
  if (!request.anyway && !finds_out) {
    RETURN_IF_ERROR(CheckFits(spec, submission.memory_bytes, memory));
  }
  // A checkpoint holds the values and both moments of the trained weights,
  // without gradients.
  submission.checkpoint_bytes =
      spec::EstimateMemory(spec, model.config).trainable_bytes / 4 * 3;
  submission.spec_json = spec::ToJson(spec);
  submission.uses = std::move(folders.uses);
  submission.input_stamps = InputStamps(spec, files);
  RETURN_IF_ERROR(CheckStored(submission.spec_json));
  submission.links = inputs.Links();
  submission.note = generates
                        ? absl::StrCat("estimated device memory ",
                                       base::BytesText(submission.memory_bytes))
                        : DescribeEstimate(longest, model.config);
  return submission;
}

}  // namespace

Job Submission::MakeJob(const SubmitRequest& request) const {
  Job job;
  job.kind = request.kind;
  job.study_json = request.study_json;
  job.name = name;
  job.model = model;
  job.spec_json = spec_json;
  job.uses = uses;
  job.input_stamps = input_stamps;
  job.priority = request.priority;
  job.owner = request.owner;
  job.labels = request.labels;
  job.idempotency_key = request.idempotency_key;
  job.memory_bytes = memory_bytes;
  job.checkpoint_bytes = checkpoint_bytes;
  return job;
}

absl::StatusOr<Submission> CheckSubmission(const SubmitRequest& request,
                                           const std::string& job_id,
                                           JobFiles& files, Blobs& blobs,
                                           const MachineMemory& memory,
                                           const FindJob& find_job) {
  if (!report::Numbered(kJobKinds, static_cast<int64_t>(request.kind))) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: this mpsd has no kind of job with the number ",
                     static_cast<int>(request.kind)));
  }
  // A study contains the job.json of the training that it examines.
  return CheckTraining(request, job_id, files, blobs, memory, find_job);
}

std::string RequestHash(const SubmitRequest& request) {
  nlohmann::json spec = base::ParseTree<nlohmann::json>(request.spec_json);
  // "$schema" is for editors: the job is the same with and without the field.
  if (spec.is_object()) spec.erase("$schema");
  nlohmann::json canonical = {
      {"spec", spec.is_discarded() ? nlohmann::json(request.spec_json) : spec},
      {"inputs", nullptr},
      {"priority", request.priority},
      {"owner", request.owner},
      {"labels", request.labels}};
  // The kind is omitted for training, so that hashes of rows from before kinds
  // were added stay valid.
  if (request.kind != JobKind::kTraining) {
    canonical["kind"] = static_cast<int>(request.kind);
    canonical["study"] = request.study_json;
  }
  // Fields that earlier requests did not have are omitted for the same reason.
  if (!request.after.empty()) {
    canonical["after"] =
        std::set<std::string>(request.after.begin(), request.after.end());
  }
  if (request.held) canonical["held"] = true;
  return base::Sha256Hex(WithInputs(
      canonical.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
      request.inputs));
}

absl::Status Stopping() {
  return absl::UnavailableError("mpsd is stopping: submit again later");
}

absl::Status CheckResultBytes(UserLedger* ledger, const std::string& owner,
                              const UserLimits& limits) {
  if (ledger == nullptr || !limits.result_bytes) return absl::OkStatus();
  const absl::StatusOr<UserBytes> bytes = ledger->BytesOf(owner);
  return bytes.ok() ? CheckResults(owner, limits, bytes->results)
                    : bytes.status();
}

absl::StatusOr<SubmitResult> Submitter::Submit(const SubmitRequest& request,
                                               const Insert& insert) {
  RETURN_IF_ERROR(StillWanted(request.wanted));
  const std::string hash = RequestHash(request);
  ASSIGN_OR_RETURN(std::optional<SubmitResult> earlier,
                   FindEarlier(request, hash));
  if (earlier) return *std::move(earlier);

  RETURN_IF_ERROR(CheckAccepts(request));
  RETURN_IF_ERROR(CheckLimits(request));
  const FolderClaims::Watch watch = dependencies_.claims.Begin();
  ASSIGN_OR_RETURN(NewJob made, MakeJob(request, hash));
  Job& job = made.job;

  RETURN_IF_ERROR(CheckAccepts(request));
  RETURN_IF_ERROR(CountInputs(request));
  // The folder comes before the row, so that a row in the store always finds
  // its files. A kill between the two leaves a folder, which a later start
  // removes.
  absl::Status status = dependencies_.files.Create(
      job.id, job.spec_json, RequestFile::Encode(request), made.checked.links,
      request.wanted);
  if (!status.ok()) return status;
  status = CheckAccepts(request);
  if (status.ok()) {
    status = insert(made, request.limits, watch);
  }
  if (status.ok()) return SubmitResult{std::move(job), false};
  dependencies_.files.Remove(job.id);
  // Another call may have inserted a job with the same key meanwhile, which may
  // have been the last job that the user was allowed.
  if (!absl::IsAlreadyExists(status) && !absl::IsResourceExhausted(status)) {
    return status;
  }
  ASSIGN_OR_RETURN(earlier, FindEarlier(request, hash));
  if (earlier) return *std::move(earlier);
  return status;
}

namespace {

// The files that a name means: a PushedFolder or a snapshot.
std::string FilesOf(const std::filesystem::path& folder) {
  const bool pulled = folder.parent_path().filename() == "snapshots";
  return absl::StrCat(pulled ? "the Hugging Face cache's " : "the pushed ",
                      folder.filename().string().substr(0, 12));
}

}  // namespace

// Others may push or pull under a name that the owner has used.
absl::Status Submitter::NoteNewFiles(const Job& job, Submission& checked) {
  if (checked.model_folder.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string before,
                   dependencies_.store.LastModelFolder(job.owner, job.model));
  const std::string now = FilesOf(checked.model_folder);
  if (spec::Names(job.model, before) && FilesOf(before) != now) {
    absl::StrAppend(&checked.note, "; the files of ", job.model,
                    " are not those of your last job with it: ", now,
                    ", before ", FilesOf(before));
  }
  return absl::OkStatus();
}

// A made-up name that is taken gets a number, so that it means one job.
absl::Status Submitter::MakeNameUnique(Job& job) const {
  const std::string stem = job.name;
  for (int number = 2; number <= 10; ++number) {
    ASSIGN_OR_RETURN(const std::vector<FoundJob> found,
                     dependencies_.store.FindByText(
                         {.name = job.name, .owner = job.owner}, 1));
    if (found.empty()) return absl::OkStatus();
    job.name = absl::StrCat(stem, "-", number);
  }
  job.name = absl::StrCat(stem, "-", job.id.substr(job.id.size() - 4));
  return absl::OkStatus();
}

absl::StatusOr<Submitter::NewJob> Submitter::MakeJob(
    const SubmitRequest& request, const std::string& hash) {
  const std::string id = ids_.Next();
  ASSIGN_OR_RETURN(
      Submission checked,
      CheckSubmission(request, id, dependencies_.files, dependencies_.blobs,
                      Memory(), ReadableJobs(request)));
  ASSIGN_OR_RETURN(std::vector<std::string> after,
                   PriorsOf(request, checked.named_jobs));
  NewJob made{checked.MakeJob(request), std::move(checked)};
  made.job.id = id;
  if (!made.checked.named) RETURN_IF_ERROR(MakeNameUnique(made.job));
  made.job.request_hash = hash;
  made.job.create_time = dependencies_.clock.Now();
  made.job.after = std::move(after);
  RETURN_IF_ERROR(NoteNewFiles(made.job, made.checked));
  if (request.held) {
    made.job.held = true;
    made.job.hold_reason = "since its submission";
  }
  return made;
}

// Submit checks this again after each slow part: meanwhile the client may have
// gone, or Drain may have begun.
absl::Status Submitter::CheckAccepts(const SubmitRequest& request) {
  RETURN_IF_ERROR(StillWanted(request.wanted));
  return dependencies_.stopping ? Stopping() : absl::OkStatus();
}

MachineMemory Submitter::Memory() const {
  const QueueInfo info = dependencies_.view.Info();
  return {machine_bytes_, info.device,
          info.memory.recommended_max_bytes.value_or(0)};
}

absl::StatusOr<std::optional<SubmitResult>> Submitter::FindEarlier(
    const SubmitRequest& request, const std::string& hash) {
  if (request.idempotency_key.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(std::optional<Job> job,
                   dependencies_.store.FindByIdempotencyKey(
                       request.owner, request.idempotency_key));
  if (!job.has_value()) return std::nullopt;
  if (job->request_hash != hash) {
    return absl::AlreadyExistsError(absl::StrCat(
        "idempotency_key '", request.idempotency_key, "' was used for job ",
        job->id, " with another request: choose another key"));
  }
  return SubmitResult{*std::move(job), true};
}

absl::Status Submitter::CheckLimits(const SubmitRequest& request) {
  absl::Status status =
      CheckPriority(request.owner, request.limits, request.priority);
  if (status.ok()) {
    // Insert checks again, with the lock.
    status = CheckQueued(request.owner, request.limits,
                         dependencies_.view.CountOf(request.owner));
  }
  return status.ok() ? CheckResultBytes(dependencies_.ledger, request.owner,
                                        request.limits)
                     : status;
}

absl::Status Submitter::CountInputs(const SubmitRequest& request) {
  if (dependencies_.ledger == nullptr) return absl::OkStatus();
  std::set<std::string> blobs;
  for (const InputFile& input : request.inputs) blobs.insert(input.sha256);
  return dependencies_.ledger->Use(
      request.owner, UploadCheckOf(request.owner, request.limits), blobs);
}

FindJob Submitter::ReadableJobs(const SubmitRequest& request) {
  return [&request, this](const std::string& id) -> absl::StatusOr<Job> {
    if (request.may_read_job && !request.may_read_job(id)) {
      return absl::NotFoundError(id);
    }
    return dependencies_.store.Get(id);
  };
}

absl::StatusOr<std::vector<std::string>> Submitter::PriorsOf(
    const SubmitRequest& request, const std::vector<std::string>& named) {
  std::vector<std::string> priors = named;
  std::set<std::string> known(named.begin(), named.end());
  ASSIGN_OR_RETURN(const PriorStates states,
                   dependencies_.store.StatesOf(request.after));
  for (const std::string& id : request.after) {
    const bool may_read = !request.may_read_job || request.may_read_job(id);
    // Only existing jobs can be named, and the id of a future job is unknown:
    // so no cycle can arise.
    if (!may_read || !states.contains(id)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "after: there is no job '", base::Quotable(id),
          "' that you may wait for: `mpsctl list` shows the jobs"));
    }
    if (known.insert(id).second) priors.push_back(id);
  }
  return priors;
}

}  // namespace mpsd::jobs
