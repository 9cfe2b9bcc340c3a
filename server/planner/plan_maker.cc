// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_maker.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/host/traits.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_files.h"
#include "server/jobs/start_checks.h"
#include "server/jobs/submission.h"
#include "server/planner/plan_facts.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::planner {

namespace {

using Json = nlohmann::json;

// The errors of a plan; any other code would suggest another fault to the
// client.
constexpr absl::StatusCode kCodes[] = {
    absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
    absl::StatusCode::kFailedPrecondition, absl::StatusCode::kResourceExhausted,
    absl::StatusCode::kUnimplemented};

absl::Status Broken(const std::string& what) {
  return absl::InternalError(
      absl::StrCat("the process that plans (mpsd-worker --plan) ", what));
}

// Null if `object` has no such string.
const std::string* TextIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string()
             ? found->get_ptr<const std::string*>()
             : nullptr;
}

absl::Status ErrorOf(const Json& error) {
  const std::string* code = TextIn(error, "code");
  const std::string* message = TextIn(error, "message");
  if (code == nullptr || message == nullptr) {
    return Broken("reported an error without a code and a message");
  }
  const std::string text = base::Printable(
      base::Shortened(*message, limits::kMessageBytes), base::Breaks::kKeep);
  for (const absl::StatusCode known : kCodes) {
    if (absl::StatusCodeToString(known) == *code) {
      return absl::Status(known, text);
    }
  }
  return absl::InternalError(text);
}

}  // namespace

absl::Status PlanLines::Take(std::string_view bytes) {
  bytes_ += bytes.size();
  if (broken_.ok() && bytes_ > kOutputBytes) {
    broken_ =
        Broken(absl::StrCat("printed more than ", kOutputBytes, " bytes"));
  }
  while (broken_.ok() && !bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() > kLineBytes) {
      broken_ = Broken(
          absl::StrCat("printed a line of more than ", kLineBytes, " bytes"));
      break;
    }
    line_.append(part);
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    broken_ = TakeLine(line_);
    line_.clear();
  }
  return broken_;
}

absl::Status PlanLines::TakeLine(std::string_view line) {
  if (done_) return Broken("continued after its plan");
  const Json json = base::ParseTree<Json>(line);
  if (!json.is_object()) {
    return Broken(absl::StrCat("did not print a JSON object: '",
                               base::Quotable(line), "'"));
  }
  if (const std::string* stage = TextIn(json, "stage")) {
    on_stage_(base::Printable(base::Shortened(*stage, limits::kStageBytes)));
    return absl::OkStatus();
  }
  if (const auto plan = json.find("plan");
      plan != json.end() && plan->is_object()) {
    done_ = true;
    result_ = plan->dump(-1, ' ', false, Json::error_handler_t::replace);
    return absl::OkStatus();
  }
  if (const auto error = json.find("error");
      error != json.end() && error->is_object()) {
    done_ = true;
    result_ = ErrorOf(*error);
    return absl::OkStatus();
  }
  return Broken(absl::StrCat("printed neither a stage nor a plan: '",
                             base::Quotable(line), "'"));
}

absl::StatusOr<std::string> PlanLines::Result() const {
  if (!broken_.ok()) return broken_;
  if (!done_) return Broken("ended without a plan");
  return result_;
}

void PlanRun::Start(Make make) {
  thread_ = std::thread([this, make = std::move(make)] {
    absl::StatusOr<FinishedPlan> plan = make(*this);
    {
      absl::MutexLock lock(&mutex_);
      if (!plan.ok()) {
        error_ = plan.status();
      } else if (!given_up_) {
        news_.push_back({"", *std::move(plan)});
      }
    }
    Wake();
    ended_ = true;
  });
}

void PlanRun::TellStage(std::string stage) {
  constexpr size_t kWaitingStages = 32;
  {
    absl::MutexLock lock(&mutex_);
    if (news_.size() == kWaitingStages) news_.pop_front();
    news_.push_back({std::move(stage), std::nullopt});
  }
  Wake();
}

absl::StatusOr<std::optional<PlanNews>> PlanRun::Next() {
  absl::MutexLock lock(&mutex_);
  if (news_.empty()) {
    if (!error_.ok()) return error_;
    return std::nullopt;
  }
  PlanNews next = std::move(news_.front());
  news_.pop_front();
  return next;
}

void PlanRun::GiveUp() {
  given_up_ = true;
  std::deque<PlanNews> unread;  // may own a merged model
  absl::MutexLock lock(&mutex_);
  unread.swap(news_);
}

absl::Status PlanRun::Wanted() const {
  return given_up_ ? absl::CancelledError("no client waits for the plan")
                   : absl::OkStatus();
}

void PlanRun::Wake() {
  std::function<void()> wake;
  {
    absl::MutexLock lock(&mutex_);
    wake = wake_;
  }
  if (wake && !given_up_) wake();
}

void PlanRun::Join() {
  if (thread_.joinable()) thread_.join();
}

namespace fs = std::filesystem;
namespace {

using supervisor::SpawnedProcess;
using supervisor::TemporaryFolder;

constexpr size_t kLastWords = 4096;  // of its stderr, that an error quotes
// After its last line, a process has this long to end.
constexpr absl::Duration kExitGrace = absl::Seconds(2);

void KeepEnd(std::string& words, std::string_view bytes) {
  words.append(bytes);
  if (words.size() > kLastWords) words.erase(0, words.size() - kLastWords);
}

absl::Status HowItEnded(int status, const std::string& last_words) {
  std::string text = "the process that plans (mpsd-worker --plan) ";
  if (WIFSIGNALED(status)) {
    absl::StrAppend(&text, "crashed with signal ", WTERMSIG(status));
  } else {
    absl::StrAppend(&text, "ended without a plan, exit status ",
                    WEXITSTATUS(status));
  }
  if (!last_words.empty()) absl::StrAppend(&text, "; it printed: ", last_words);
  return absl::InternalError(text);
}

struct PlanCommand {
  std::string program;  // mpsd-worker
  std::vector<std::string> args;
  std::map<std::string, std::string> environment;  // the process' whole one
  absl::Duration limit;                            // while the machine is awake
};

// Runs `command` to its end and returns the plan that it printed, as JSON.
// Calls `wanted` several times a second; on an error the process is killed and
// the error returned. `on_stage` is called on this thread. No process of the
// command's group is left when this returns.
//   DEADLINE_EXCEEDED  the command took longer than its limit.
//   INTERNAL           the command broke the protocol, crashed or made no plan.
//   other codes        the error that the command reported, or it cannot start.
//
// `answered`, unless null, gets whether the result is the process' own.
absl::StatusOr<std::string> RunPlanProcess(
    const PlanCommand& command,
    const std::function<void(std::string)>& on_stage,
    const std::function<absl::Status()>& wanted, bool* answered = nullptr) {
  SpawnedProcess::Options spawn;
  spawn.program = command.program;
  spawn.args = command.args;
  spawn.environment = command.environment;
  PlanLines lines(on_stage);
  std::string last_words;
  absl::Duration exit_deadline = absl::InfiniteDuration();
  bool lingers = false;  // after its last line
  supervisor::Exchange exchange;
  exchange.out = [&](std::string_view bytes) { return lines.Take(bytes); };
  exchange.error = [&](std::string_view bytes) { KeepEnd(last_words, bytes); };
  exchange.wanted = [&]() -> absl::Status {
    RETURN_IF_ERROR(wanted());
    const absl::Duration now = base::AwakeTime();
    if (lines.done() && exit_deadline == absl::InfiniteDuration()) {
      exit_deadline = now + kExitGrace;
    }
    lingers = now >= exit_deadline;
    return lingers ? absl::CancelledError() : absl::OkStatus();
  };
  exchange.limit = command.limit;
  const absl::StatusOr<int> status =
      supervisor::RunToEnd(std::move(spawn), exchange);
  if (absl::IsDeadlineExceeded(status.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the plan took longer than ", absl::FormatDuration(command.limit),
        " and was abandoned: plan with fewer rows "
        "(dataset.max_train_samples)"));
  }
  if (!status.ok() && !lingers) return status.status();
  if (!lines.done()) {
    return HowItEnded(*status,
                      base::Printable(last_words, base::Breaks::kKeep));
  }
  if (answered != nullptr) *answered = true;
  return lines.Result();
}

absl::Status WriteFile(const fs::path& path, const std::string& bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<base::AtomicFile> file,
                   base::AtomicFile::Create(path));
  absl::Status status = file->Append(bytes);
  return status.ok() ? file->CommitUnsynced() : status;
}

// A plan reads the model and the adapter, so both must exist.
absl::Status CheckResultsAreThere(const spec::TrainSpec& spec) {
  const std::vector<std::string> missing = jobs::JobsNamedBy(spec);
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", missing.front(),
      " has no result yet: plan once it has SUCCEEDED, or plan with the model "
      "that it begins with"));
}

// A GPU with memory of its own is no part of the machine's chip.
bool HasMemoryOfItsOwn(const std::string& device) {
  const std::optional<backend::Choice> choice = backend::ChoiceOf(device);
  return choice &&
         backend::TraitsOf(*choice).memory == backend::MemoryPlace::kOwn;
}

// One plan, from the request to what the process printed.
class Making {
 public:
  Making(const PlanMaker::Options& options,
         const PlanMaker::Dependencies& dependencies,
         const PlanRequest& request, PlanRun& run)
      : options_(options),
        dependencies_(dependencies),
        request_(request),
        run_(run) {}

  absl::StatusOr<FinishedPlan> Run() {
    RETURN_IF_ERROR(CheckProbe());
    run_.TellStage("checking the job");
    RETURN_IF_ERROR(Check());
    ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFolder> folder,
                     TemporaryFolder::Create(options_.plans_dir, run_.id()));
    folder_ = std::move(folder);
    run_.TellStage("placing its files");
    RETURN_IF_ERROR(Place());
    const absl::StatusOr<std::string> json = RunPlanProcess(
        Command(),
        [this](const std::string& stage) { run_.TellStage(AsSpelled(stage)); },
        [this] { return run_.Wanted(); });
    if (!json.ok()) {
      return absl::Status(json.status().code(),
                          AsSpelled(std::string(json.status().message())));
    }
    return FinishedPlan{
        *json, LookAhead(dependencies_.reader, request_.submission.owner,
                         request_.submission.priority, request_.may_read)};
  }

 private:
  absl::Status CheckProbe() const {
    if (request_.probe_id.empty()) return absl::OkStatus();
    const absl::StatusOr<jobs::SubmitRequest> probed =
        dependencies_.reader.RequestOf(request_.probe_id);
    if (!probed.ok()) {
      return absl::Status(
          probed.status().code(),
          absl::StrCat("probe_id: ", probed.status().message()));
    }
    return CheckSameSteps(*probed, request_.submission);
  }

  absl::Status Check() {
    jobs::SubmitRequest submission = request_.submission;
    submission.anyway = true;  // the plan says whether it fits
    submission.wanted = [this] { return run_.Wanted(); };
    const auto find = [&](const std::string& id) -> absl::StatusOr<jobs::Job> {
      if (submission.may_read_job && !submission.may_read_job(id)) {
        return absl::NotFoundError(id);
      }
      return dependencies_.reader.Get(id);
    };
    ASSIGN_OR_RETURN(
        jobs::Submission checked,
        jobs::CheckSubmission(submission, run_.id(), dependencies_.files,
                              dependencies_.blobs, Memory(), find));
    submission_ = std::move(checked);
    ASSIGN_OR_RETURN(spec::TrainSpec spec,
                     spec::ParseTrainSpec(submission_.spec_json, "job.json"));
    spec_ = std::move(spec);
    RETURN_IF_ERROR(CheckResultsAreThere(spec_));
    return run_.Wanted();
  }

  // Puts job.json and its inputs into the plan's folder, laid out as in a job's
  // own, and the facts next to them.
  absl::Status Place() {
    jobs::JobFiles placed(folder_->path());
    const std::string there = dependencies_.files.InputPath(run_.id(), "");
    const std::string here = placed.InputPath(run_.id(), "");
    spec::VisitPaths(spec_, [&](const char*, std::string& path) {
      // Without the slash at its end it is the folder of all inputs.
      if (absl::StrCat(path, "/").starts_with(there)) {
        path = here + path.substr(std::min(there.size(), path.size()));
      }
    });
    absl::Status status =
        placed.Create(run_.id(), spec::ToJson(spec_), "{}", submission_.links,
                      [this] { return run_.Wanted(); });
    std::error_code error;
    if (status.ok()) fs::create_directory(folder_->path() / "tmp", error);
    if (error) {
      return absl::InternalError(absl::StrCat(
          (folder_->path() / "tmp").string(), ": ", error.message()));
    }
    spec_path_ = placed.SpecPath(run_.id());
    names_.emplace(placed.Folder(run_.id()));
    return status.ok() ? WriteFile(FactsPath(), Encode(CollectFacts()))
                       : status;
  }

  jobs::MachineMemory Memory() const {
    const jobs::QueueInfo info = dependencies_.reader.Info();
    return {options_.machine_bytes, info.device,
            info.memory.recommended_max_bytes.value_or(0)};
  }

  Facts CollectFacts() const {
    Facts facts;
    const jobs::MachineMemory memory = Memory();
    facts.device = spec_.device == spec::DeviceChoice::kAuto
                       ? memory.device
                       : std::string(backend::NameOf(spec_.device));
    if (!HasMemoryOfItsOwn(facts.device)) facts.chip = options_.chip;
    facts.gpu_cores = options_.gpu_cores;
    facts.cpu_cores = options_.cpu_cores;
    facts.memory_bytes = memory.host_bytes;
    facts.memory_limit_bytes = jobs::MemoryFor(memory, spec_.device);
    if (const std::optional<int64_t> free = dependencies_.files.FreeBytes()) {
      // 0 would mean unknown.
      facts.disk_free_bytes =
          std::max<int64_t>(*free - options_.min_free_bytes, 1);
    }
    facts.thresholds = request_.thresholds;
    facts.pace = PaceOfPastRuns(dependencies_.reader, submission_.model, spec_,
                                facts.device, request_.may_read);
    facts.probe_json = request_.probe_json;
    facts.read_roots = options_.read_roots;
    facts.read_roots.push_back(folder_->path());
    for (std::string& read :
         jobs::ReadInState(submission_.uses, spec_, dependencies_.files)) {
      facts.read_roots.push_back(std::move(read));
    }
    facts.closed_roots = options_.closed_roots;
    return facts;
  }

  PlanCommand Command() const {
    PlanCommand command;
    command.program = options_.worker_path;
    command.args = {"--plan", spec_path_, "--facts", FactsPath()};
    command.environment = options_.environment;
    command.environment["TMPDIR"] = folder_->path() / "tmp";
    command.limit = options_.limit;
    return command;
  }

  // `text` with the plan's files as job.json spells them.
  std::string AsSpelled(const std::string& text) const {
    return names_ ? names_->Respelled(text) : text;
  }
  std::string FactsPath() const { return folder_->path() / "facts.json"; }

  const PlanMaker::Options& options_;
  const PlanMaker::Dependencies& dependencies_;
  const PlanRequest& request_;
  PlanRun& run_;
  jobs::Submission submission_;
  spec::TrainSpec spec_;
  std::string spec_path_;
  std::optional<jobs::InputNames> names_;
  std::unique_ptr<TemporaryFolder> folder_;
};

constexpr char kMergeElsewhere[] =
    "download the adapter, and merge it with `mpsctl merge` where the model is";

bool MadeAdapter(const jobs::Job& job) {
  return job.output_kind == jobs::OutputKind::kAdapter;
}

bool IsGguf(const std::string& format) { return format.starts_with("gguf-"); }

absl::Status CheckMerge(const jobs::Job& job, const std::string& format,
                        const std::string& model) {
  if (!MadeAdapter(job) && IsGguf(format)) return absl::OkStatus();
  if (!MadeAdapter(job)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, " made no adapter: `mpsctl download ",
                     job.id, "` fetches the model that it made"));
  }
  std::error_code error;
  if (fs::exists(fs::path(model) / "config.json", error)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the model ", job.model, " that job ", job.id,
      " trained is no longer on mpsd's machine: ", kMergeElsewhere));
}

int64_t BytesOfWeights(const fs::path& model) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(model, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (it->path().extension() != ".safetensors") continue;
    const auto size = fs::file_size(it->path(), gone);
    if (!gone) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// Whether the disk takes `bytes` more of a merged model.
absl::Status CheckRoomFor(int64_t bytes, const PlanMaker::Options& options,
                          jobs::JobFiles& files) {
  const std::optional<int64_t> free = files.FreeBytes();
  if (!free || *free - bytes >= options.min_free_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no room for the merged model: mpsd's disk has ", base::BytesText(*free),
      " free, and --min-free-bytes keeps ",
      base::BytesText(options.min_free_bytes), "; ", kMergeElsewhere));
}

SpawnedProcess::Options MergeCommand(const PlanMaker::Options& options,
                                     const jobs::Job& job,
                                     const std::string& model,
                                     const std::string& format,
                                     const fs::path& folder) {
  SpawnedProcess::Options spawn;
  spawn.program = options.worker_path;
  spawn.args = {"--merge"};
  if (MadeAdapter(job)) {
    spawn.args.insert(spawn.args.end(), {"--adapter", job.output_path});
  }
  spawn.args.insert(
      spawn.args.end(),
      {"--model", MadeAdapter(job) ? model : job.output_path, "--out",
       folder / "model", "--facts", folder / "facts.json", "--format", format});
  spawn.environment = options.environment;
  spawn.environment["TMPDIR"] = folder;
  return spawn;
}

// What the worker's last error says, in the terms of the job's owner.
std::string MergeError(const jobs::Job& job, const std::string& model,
                       absl::string_view words) {
  constexpr absl::string_view kError = "mpsd-worker: ";
  const size_t error = words.rfind(kError);
  if (error != words.npos) words.remove_prefix(error + kError.size());
  return absl::StrReplaceAll(
      base::Printable(std::string(absl::StripTrailingAsciiWhitespace(words))),
      {{model, job.model},
       {job.output_path,
        absl::StrCat(MadeAdapter(job) ? "the adapter" : "the model", " of job ",
                     job.id)}});
}

absl::StatusOr<FinishedPlan> MakeMerge(const PlanMaker::Options& options,
                                       jobs::JobFiles& files,
                                       const jobs::Job& job,
                                       const std::string& format,
                                       PlanRun& run) {
  ASSIGN_OR_RETURN(const spec::TrainSpec spec,
                   spec::ParseTrainSpec(job.spec_json, "job.json"));
  RETURN_IF_ERROR(CheckMerge(job, format, spec.model));
  // A GGUF file is made of the merged model.
  const int64_t copies = MadeAdapter(job) && IsGguf(format) ? 2 : 1;
  RETURN_IF_ERROR(
      CheckRoomFor(copies * BytesOfWeights(spec.model), options, files));
  FinishedPlan made;
  ASSIGN_OR_RETURN(made.merged,
                   TemporaryFolder::Create(options.merges_dir, run.id()));
  const fs::path folder = made.merged->path();
  Facts facts;
  facts.read_roots = options.read_roots;
  facts.closed_roots = options.closed_roots;
  for (const std::string& read : jobs::ReadInState(job.uses, spec, files)) {
    facts.read_roots.push_back(read);
  }
  facts.read_roots.push_back(files.Folder(job.id));
  facts.read_roots.push_back(folder);
  RETURN_IF_ERROR(WriteFile(folder / "facts.json", Encode(facts)));
  std::string words;
  supervisor::Exchange exchange;
  exchange.out = [&](std::string_view bytes) {
    KeepEnd(words, bytes);
    return absl::OkStatus();
  };
  exchange.wanted = [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckRoomFor(0, options, files));
    return run.Wanted();
  };
  exchange.limit = 6 * options.limit;
  const absl::StatusOr<int> status = supervisor::RunToEnd(
      MergeCommand(options, job, spec.model, format, folder), exchange);
  if (absl::IsDeadlineExceeded(status.status())) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the merge took longer than ", absl::FormatDuration(exchange.limit),
        "; ", kMergeElsewhere));
  }
  if (!status.ok()) return status.status();
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return made;
  return absl::FailedPreconditionError(absl::StrCat(
      format == "merged" ? "the adapter cannot be merged: "
                         : absl::StrCat("cannot export as ", format, ": "),
      WIFSIGNALED(*status)
          ? absl::StrCat("mpsd-worker died of signal ", WTERMSIG(*status))
          : MergeError(job, spec.model, words)));
}

// Keeps the run of a watcher, and abandons it with the watcher.
class Watch final : public PlanWatch {
 public:
  explicit Watch(std::shared_ptr<PlanRun> run) : run_(std::move(run)) {}
  ~Watch() override { run_->GiveUp(); }
  absl::StatusOr<std::optional<PlanNews>> Next() override {
    return run_->Next();
  }

 private:
  const std::shared_ptr<PlanRun> run_;
};

constexpr char kCheckFolder[] = "check";  // in plans_dir

}  // namespace

absl::StatusOr<jobs::DataCheck> PlanMaker::Check(const std::string& id,
                                                 const jobs::Wanted& wanted) {
  jobs::JobFiles& files = dependencies_.files;
  ASSIGN_OR_RETURN(const jobs::Job job, dependencies_.reader.Get(id));
  const spec::TrainSpec spec = jobs::SpecOf(job);
  if (!jobs::JobsNamedBy(spec).empty()) {
    return absl::UnavailableError(
        "it continues another job, whose result its start takes");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFolder> folder,
                   TemporaryFolder::Create(options_.plans_dir, kCheckFolder));
  Facts facts;
  facts.check = true;
  facts.read_roots = options_.read_roots;
  facts.read_roots.push_back(folder->path());
  facts.read_roots.push_back(files.Folder(id));
  for (std::string& read : jobs::ReadInState(job.uses, spec, files)) {
    facts.read_roots.push_back(std::move(read));
  }
  facts.closed_roots = options_.closed_roots;
  const std::string path = folder->path() / "facts.json";
  RETURN_IF_ERROR(WriteFile(path, Encode(facts)));
  PlanCommand command{options_.worker_path,
                      {"--plan", files.SpecPath(id), "--facts", path},
                      options_.environment,
                      options_.limit};
  command.environment["TMPDIR"] = folder->path();
  bool answered = false;
  const absl::StatusOr<std::string> json = RunPlanProcess(
      command, [](const std::string&) {}, wanted, &answered);
  const auto spell = [&](const std::string& text) {
    return jobs::AsSpelled(text, files.Folder(id), spec.model, job.model);
  };
  // Of kCodes, only the want of memory may pass.
  jobs::DataCheck check;
  if (answered && !json.ok() && !absl::IsInternal(json.status()) &&
      !absl::IsResourceExhausted(json.status())) {
    check.fault = spell(std::string(json.status().message()));
    return check;
  }
  RETURN_IF_ERROR(json.status());
  const Json found = base::ParseTree<Json>(*json);
  if (!found.contains("warnings")) return check;
  for (const Json& warning : found["warnings"]) {
    if (!warning.is_string()) continue;
    check.warnings.push_back(base::Printable(base::Shortened(
        spell(warning.get<std::string>()), limits::kWarningBytes)));
  }
  return check;
}

PlanMaker::PlanMaker(Options options, Dependencies dependencies)
    : options_(std::move(options)),
      dependencies_(dependencies),
      ids_(dependencies.clock, jobs::JobIdGenerator::SystemRandom()) {
  TemporaryFolder::RemoveAll(options_.plans_dir);
  TemporaryFolder::RemoveAll(options_.merges_dir);
}

PlanMaker::~PlanMaker() {
  std::vector<std::shared_ptr<PlanRun>> runs;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    runs.swap(runs_);
  }
  for (const auto& run : runs) run->GiveUp();
  for (const auto& run : runs) run->Join();
}

absl::StatusOr<std::unique_ptr<PlanWatch>> PlanMaker::Plan(
    PlanRequest request, std::function<void()> wake) {
  const std::string user = request.submission.owner;
  auto kept = std::make_shared<const PlanRequest>(std::move(request));
  return Begin(user, std::move(wake), [this, kept](PlanRun& own) {
    return Making(options_, dependencies_, *kept, own).Run();
  });
}

absl::StatusOr<std::unique_ptr<PlanWatch>> PlanMaker::Merge(
    const jobs::Job& job, const std::string& format, const std::string& user,
    std::function<void()> wake) {
  {
    absl::MutexLock lock(&mutex_);
    const auto last = merged_.find(user);
    if (last != merged_.end() && !last->second.expired()) {
      return absl::UnavailableError(absl::StrCat(
          "a merged model is being downloaded by ", user,
          ", and each user has one at a time: wait for it, or end it with "
          "Ctrl-C"));
    }
  }
  return Begin(user, std::move(wake), [this, job, format, user](PlanRun& own) {
    absl::StatusOr<FinishedPlan> made =
        MakeMerge(options_, dependencies_.files, job, format, own);
    if (made.ok()) {
      absl::MutexLock lock(&mutex_);
      merged_[user] = made->merged;
    }
    return made;
  });
}

absl::StatusOr<std::unique_ptr<PlanWatch>> PlanMaker::Begin(
    const std::string& user, std::function<void()> wake, PlanRun::Make make) {
  absl::MutexLock lock(&mutex_);
  Reap();
  RETURN_IF_ERROR(CheckRoom(user));
  auto run = std::make_shared<PlanRun>(ids_.Next(), user, std::move(wake));
  // The maker joins the thread before it ends itself.
  run->Start(std::move(make));
  runs_.push_back(run);
  return std::make_unique<Watch>(std::move(run));
}

absl::Status PlanMaker::CheckRoom(const std::string& user) {
  if (stopping_) {
    return absl::UnavailableError("mpsd is stopping: try again later");
  }
  if (runs_.size() >= limits::kPlans) {
    return absl::UnavailableError(
        absl::StrCat("mpsd makes ", limits::kPlans,
                     " plans or merges at a time, and as many are under way: "
                     "try again in a minute"));
  }
  const bool has_one = std::any_of(
      runs_.begin(), runs_.end(),
      [&](const auto& run) { return run->user() == user && !run->given_up(); });
  if (!has_one) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("a plan or merge of ", user,
                   " is under way, and each user has one at a time: wait for "
                   "it, or end it with Ctrl-C"));
}

void PlanMaker::Reap() {
  std::erase_if(runs_, [](const std::shared_ptr<PlanRun>& run) {
    if (!run->ended()) return false;
    run->Join();  // the thread is at its end
    return true;
  });
}

void PlanMaker::Sweep() {
  // The check comes before the lock: a plan that begins later has a folder that
  // the check did not see.
  std::error_code error;
  std::vector<fs::path> folders;
  for (fs::directory_iterator it(options_.plans_dir, error), end;
       !error && it != end; it.increment(error)) {
    folders.push_back(it->path());
  }
  std::set<std::string> live;
  {
    absl::MutexLock lock(&mutex_);
    Reap();
    for (const auto& run : runs_) live.insert(run->id());
  }
  for (const fs::path& folder : folders) {
    if (folder.filename() == kCheckFolder) continue;
    if (!live.contains(folder.filename())) TemporaryFolder::RemoveLeft(folder);
  }
}

}  // namespace mpsd::planner
