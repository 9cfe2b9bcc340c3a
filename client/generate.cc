// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/app.h"
#include "client/download.h"
#include "client/jobs.h"
#include "client/study.h"
#include "client/submit.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/generation.h"
#include "core/spec/train_spec.h"
#include "mpsd/v1/models.pb.h"
#include "nlohmann/json.hpp"

// `mpsctl generate`: the prompts are the data of a job that starts from the
// job's result, or from a model.

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kPromptsFile[] = "prompts.jsonl";  // the path in the spec

struct GenerateArguments {
  std::string of;  // a job, or a model
  std::vector<std::string> prompts, stop;
  std::string input, output;
  bool raw = false, compare_base = false, greedy = false, do_sample = false;
  bool bf16 = false;
  std::optional<int32_t> max_new_tokens, top_k, seed;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  QueueOptions queue;
};

// The lines of the prompts' file, checked.
absl::StatusOr<std::string> PromptLines(const GenerateArguments& arguments) {
  if (arguments.prompts.empty() == arguments.input.empty()) {
    return absl::InvalidArgumentError("expected --prompt or --input");
  }
  std::string lines, origin = "--prompt";
  if (!arguments.input.empty()) {
    origin = arguments.input;
    ASSIGN_OR_RETURN(
        lines, base::ReadSmallFile(arguments.input, spec::kMostPromptBytes));
  }
  for (const std::string& prompt : arguments.prompts) {
    lines += json{{"prompt", prompt}}.dump(-1, ' ', false,
                                           json::error_handler_t::replace) +
             "\n";
  }
  RETURN_IF_ERROR(spec::ParsePrompts(lines, origin).status());
  return lines;
}

// A file for as long as it takes to send it.
class SentFile {
 public:
  explicit SentFile(const std::string& text)
      : path_((fs::temp_directory_path() / "mpsctl-XXXXXX").string()) {
    const int fd = mkstemp(path_.data());
    if (fd < 0) {
      status_ = base::ErrnoStatus(errno, path_);
      return;
    }
    close(fd);
    status_ = base::WriteFileAtomic(path_, text);
  }
  ~SentFile() { unlink(path_.c_str()); }
  SentFile(const SentFile&) = delete;
  SentFile& operator=(const SentFile&) = delete;

  const std::string& path() const { return path_; }
  const absl::Status& status() const { return status_; }

 private:
  std::string path_;
  absl::Status status_;
};

// Whether `name` is a folder or a model of the daemon, and no job.
bool NamesModel(const Console& console, const std::string& name) {
  if (name.find('/') != name.npos) return true;
  v1::ListModelsRequest request;
  request.set_name(name);
  v1::ListModelsResponse found;
  return console.daemon.Call(&ModelStub::ListModels, request, &found).ok() &&
         !found.models().empty();
}

json SpecOfModel(const GenerateArguments& arguments) {
  std::error_code error;
  const bool here = fs::is_directory(arguments.of, error);
  return {{"model", here ? fs::absolute(arguments.of).string() : arguments.of},
          {"training", {{"bf16", arguments.bf16}}}};
}

// The spec that starts from the result of the job `id`, of `request`: its base
// with its adapter, or its model, computed as in training.
absl::StatusOr<json> SpecOfJob(const v1::SubmitRequest& request,
                               const std::string& id) {
  ASSIGN_OR_RETURN(const spec::TrainSpec spec,
                   spec::ParseTrainSpec(request.spec_json(), "job.json"));
  if (spec.task != spec::Task::kCausalLm) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", id,
                     " trains a classifier: only a language model generates "
                     "text"));
  }
  const json from = base::ParseTree<json>(request.spec_json());
  const std::string result = absl::StrCat(spec::kNamedResult, id);
  json to = {{"training", {{"bf16", spec.training.bf16}}}};
  if (from.contains("device")) to["device"] = from["device"];
  if (spec.fine_tune_type != spec::FineTuneType::kLora) {
    to["model"] = result;  // has the template and the end token of its job
    return to;
  }
  to["model"] = spec.model;
  to["adapter"] = result;
  if (from.contains("quantization_config")) {
    to["quantization_config"] = from["quantization_config"];
  }
  for (const char* field : {"chat_template_path", "eos_token"}) {
    const json training = from.value("training", json::object());
    if (training.contains(field)) to["training"][field] = training[field];
  }
  return to;
}

v1::Study StudyOf(const GenerateArguments& a) {
  v1::Study study;
  v1::GenerateOptions& options = *study.mutable_generate();
  options.set_raw(a.raw);
  options.set_compare_base(a.compare_base);
  if (a.max_new_tokens) options.set_max_new_tokens(*a.max_new_tokens);
  const bool shapes = a.temperature || a.top_k || a.top_p || a.min_p;
  if (a.greedy || a.do_sample || shapes) options.set_do_sample(!a.greedy);
  if (a.temperature) options.set_temperature(*a.temperature);
  if (a.top_k) options.set_top_k(*a.top_k);
  if (a.top_p) options.set_top_p(*a.top_p);
  if (a.min_p) options.set_min_p(*a.min_p);
  if (a.repetition_penalty) {
    options.set_repetition_penalty(*a.repetition_penalty);
  }
  for (const std::string& text : a.stop) options.add_stop_strings(text);
  if (a.seed) options.set_seed(*a.seed);
  return study;
}

// Fills *request but for the prompts' file.
ExitCode Prepare(const GenerateArguments& arguments, const Console& console,
                 v1::SubmitRequest* request) {
  json spec;
  if (NamesModel(console, arguments.of)) {
    spec = SpecOfModel(arguments);
  } else {
    ExitCode code = ExitCode::kOk;
    const auto id = ResolveJobId(console, arguments.of, &code);
    if (!id) return code;
    v1::GetSubmissionRequest ask;
    ask.set_id(*id);
    v1::SubmitRequest job;
    const grpc::Status status =
        console.daemon.Call(&JobStub::GetSubmission, ask, &job);
    if (!status.ok()) return console.Fail(status);
    auto of_job = SpecOfJob(job, *id);
    if (!of_job.ok())
      return console.BadInput(of_job.status(), kNothingSubmitted);
    spec = *std::move(of_job);
    // Of the job's files only a chat template is one of this job's.
    for (const v1::InputFile& input : job.inputs()) {
      if (input.path() != kPromptsFile) *request->add_inputs() = input;
    }
  }
  spec["name"] = base::Shortened(absl::StrCat("generate ", arguments.of), 256);
  spec["dataset"] = {{"train", kPromptsFile}};
  request->set_spec_json(
      spec.dump(2, ' ', false, json::error_handler_t::replace));
  DropUnusedInputs(*request);
  *request->mutable_study() = StudyOf(arguments);
  request->set_priority(arguments.queue.priority);
  request->set_anyway(arguments.queue.anyway);
  const absl::Status added =
      AddJobLabels(arguments.queue.job_labels, request->mutable_labels());
  return added.ok() ? ExitCode::kOk
                    : console.BadInput(added, kNothingSubmitted);
}

absl::Status CheckArguments(const GenerateArguments& arguments) {
  if (arguments.output.empty()) return absl::OkStatus();
  std::error_code error;
  if (fs::exists(arguments.output, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat("--output: ", Printable(arguments.output), " exists"));
  }
  return CheckOutputFile("--output", arguments.output);
}

ExitCode ShowAnswers(const GenerateArguments& arguments, const std::string& id,
                     const Console& course, const Console& console) {
  v1::StudyResult result;
  const grpc::Status status = GetStudyResult(console, id, &result);
  if (!status.ok()) return console.Fail(status);
  if (!console.json) {
    PrintAnswers(result, console);
  } else {
    for (const v1::GeneratedRow& row : result.generate().rows()) {
      console.PrintJson(row);
    }
  }
  if (arguments.output.empty()) return ExitCode::kOk;
  return FetchOutputFile(course, id, "out.jsonl", arguments.output);
}

ExitCode Generate(const GenerateArguments& arguments, const Console& console) {
  if (absl::Status s = CheckArguments(arguments); !s.ok()) {
    return console.BadInput(s, kNothingSubmitted);
  }
  const absl::StatusOr<std::string> lines = PromptLines(arguments);
  if (!lines.ok()) return console.BadInput(lines.status(), kNothingSubmitted);
  v1::SubmitRequest request;
  ExitCode code = Prepare(arguments, console, &request);
  if (code != ExitCode::kOk) return code;
  const SentFile file(*lines);
  std::vector<LocalFile> files = {{kPromptsFile, file.path(), "", 0}};
  absl::Status hashed = file.status();
  if (hashed.ok()) hashed = HashFiles(files, {});
  if (!hashed.ok()) return console.BadInput(hashed, kNothingSubmitted);
  v1::InputFile* input = request.add_inputs();
  input->set_path(kPromptsFile);
  input->set_sha256(files.front().sha256);
  const auto upload = [&] { return Upload(console, files); };
  const grpc::Status sent = upload();
  if (!sent.ok()) return console.Fail(sent);
  // With --json, stdout is the answers', for scripts.
  const Console course{console.json ? console.err : console.out, console.err,
                       console.terminal, console.daemon, false};
  std::string id;
  code = SendJob(arguments.queue.detach ? console : course, std::move(request),
                 upload, arguments.queue.detach, &id);
  if (code != ExitCode::kOk || arguments.queue.detach) return code;
  return ShowAnswers(arguments, id, course, console);
}

void DeclareSettings(Command& verb, GenerateArguments& a) {
  verb.add_option("--max-new-tokens N", a.max_new_tokens,
                  "Of an answer; default: the model's, else 256")
      ->check(Range<int>(1, spec::kMostNewTokens));
  Option* greedy =
      verb.add_flag("--greedy", a.greedy, "Always the likeliest token");
  verb.add_flag("--do-sample", a.do_sample,
                "Draw tokens; default: as the model's\n"
                "generation_config.json says; each of the next four does too")
      ->excludes(greedy);
  verb.add_option("--temperature T", a.temperature, "Divides the logits")
      ->excludes(greedy);
  verb.add_option("--top-k K", a.top_k, "Of the K likeliest tokens; 0: of all")
      ->excludes(greedy);
  verb.add_option("--top-p P", a.top_p,
                  "Of the likeliest tokens that have this probability")
      ->excludes(greedy);
  verb.add_option("--min-p P", a.min_p,
                  "Of tokens with this share of the likeliest's probability")
      ->excludes(greedy);
  verb.add_option("--repetition-penalty X", a.repetition_penalty,
                  "Above 1: tokens that were there are less likely");
  verb.add_list("--stop TEXT", a.stop, "Ends an answer; repeatable");
  verb.add_option("--seed N", a.seed,
                  "The same seed draws the same; default 0");
}

void DeclareGenerate(Command& verb, GenerateArguments& a) {
  verb.add_argument(kJobIdName, a.of,
                    "The job whose adapter or model answers, or a MODEL")
      ->check(Given);
  verb.add_list("--prompt TEXT", a.prompts, "A user's turn; repeatable");
  verb.add_option("--input FILE", a.input,
                  "JSON Lines: {\"prompt\": TEXT} or {\"messages\": [...]}")
      ->check(Given);
  verb.add_option("-o,--output FILE", a.output,
                  "Save the answers as JSON Lines")
      ->check(Given);
  verb.add_flag("--compare-base", a.compare_base,
                "Answer without the adapter too");
  verb.add_flag("--raw", a.raw,
                "The prompts as they are, without the model's chat template");
  DeclareSettings(verb, a);
  verb.add_flag("--bf16", a.bf16,
                "Of a MODEL; a job's is that of its training");
  DeclareSending(verb, a.queue);
  verb.get_option("--detach")
      ->description("Do not wait: `mpsctl show` has the answers");
}

}  // namespace

void PrintAnswers(const v1::StudyResult& result, const Console& console) {
  const v1::GenerateResult& generated = result.generate();
  std::ostream& out = console.out;
  for (const v1::GeneratedRow& row : generated.rows()) {
    out << "prompt: " << PrintableLines(row.prompt())
        << "\nanswer: " << PrintableLines(row.completion()) << '\n';
    if (row.has_base_completion()) {
      out << "base:   " << PrintableLines(row.base_completion()) << '\n';
    }
    out << '\n';
  }
  const int left = generated.prompts() - generated.rows_size();
  if (left > 0) {
    out << left << " more: `mpsctl download " << result.job_id()
        << " --output DIR`\n";
  }
  out << absl::StrFormat(
      "%s, %s in %.3g s on %s (%.3g tok/s)\n",
      CountOf(generated.prompts(), "prompt"),
      CountOf(generated.new_tokens(), "token"), generated.seconds(),
      Printable(generated.device()),
      generated.new_tokens() / std::max(generated.seconds(), 1e-9));
}

std::vector<Verb> GenerateVerbs() {
  return {
      {"generate", "What a job's result or a model answers",
       Takes(DeclareGenerate, Generate),
       "mpsctl generate @last --prompt 'Who are you?' --compare-base\n"
       "mpsctl generate moods --input prompts.jsonl --output answers.jsonl"},
  };
}

}  // namespace mpsd::client
