// SPDX-License-Identifier: Apache-2.0
// A stand-in for mpsd-worker: it speaks the protocol of core/wire on fd 3 and
// misbehaves on demand. The mode is the spec's name after "fake:", or else the
// environment variable FAKE_WORKER_MODE, or else "ok"; Modes() lists them.
// "training.max_steps" of the spec sets the steps (default 5). A study ends
// with a plausible result.json whose verdict is PASS. Nothing it does lasts
// longer than a minute.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "core/base/line_channel.h"
#include "core/host/environment.h"
#include "core/wire/messages.h"

namespace {

namespace fs = std::filesystem;
namespace wire = mpsd::wire;
using mpsd::base::LineChannel;

constexpr absl::Duration kForever = absl::Seconds(60);

void Sleep(absl::Duration duration) {
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(duration));
}

// What fake_worker answers to --gates: as a machine with a processor alone, or
// as FAKE_WORKER_GATES says, "hang", "crash" (in the product), "garbage",
// "wrong" (product) or "flood". The file that FAKE_WORKER_GATES_LOG names gets
// a byte a call.
int FakeGates() {
  const char* variable = std::getenv("FAKE_WORKER_GATES");
  const std::string mode = variable == nullptr ? "ok" : variable;
  if (const char* log = std::getenv("FAKE_WORKER_GATES_LOG")) {
    if (std::FILE* file = std::fopen(log, "a")) {
      std::fputc('.', file);
      std::fclose(file);
    }
  }
  if (mode == "garbage") {
    std::puts("\xff\xfe this is no JSON");
    return 0;
  }
  while (mode == "flood") std::puts(std::string(4000, 'x').c_str());
  nlohmann::json environment = nlohmann::json::object();
  for (const auto& [name, value] :
       mpsd::host::ThoseThatMatter(mpsd::host::CurrentEnvironment())) {
    environment[name] = value;
  }
  const nlohmann::json facts = {{"worker_version", MPSD_VERSION},
                                {"protocol_version", wire::kProtocolVersion},
                                {"torch_version", "2.15.0"},
                                {"built_against", "2.15.0"},
                                {"backends", nlohmann::json::array()},
                                {"environment", environment}};
  std::puts(facts.dump().c_str());
  std::fflush(stdout);
  if (mode == "hang") std::this_thread::sleep_for(std::chrono::minutes(1));
  if (mode == "crash") std::raise(SIGABRT);
  const nlohmann::json matmul = {{"asked_device", "cpu"},
                                 {"result_device", "cpu"},
                                 {"right", mode != "wrong"},
                                 {"seconds", 0.01}};
  std::puts(nlohmann::json({{"matmul", matmul}}).dump().c_str());
  return 0;
}

// What fake_worker does when a plan is asked of it (server/planner/
// plan_maker.h): the job's name after "fake:" is a mode of Modes().
namespace plans {

using Json = nlohmann::json;

[[noreturn]] void Stay() {
  sleep(60);
  _exit(0);
}

// The protocol of server/planner/plan_maker.h.
void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}
void SayStage(const std::string& stage) { Say(Json{{"stage", stage}}.dump()); }
void SayError(const std::string& code, const std::string& message) {
  Json error;
  error["error"]["code"] = code;
  error["error"]["message"] = message;
  Say(error.dump());
  _exit(1);
}

std::string Read(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A plan that fits, with the facts and the number of inputs that lie next to
// job.json as findings.
std::string PlanOf(const fs::path& job, const std::string& facts) {
  std::error_code none;
  int64_t inputs = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(job.parent_path() / "inputs", none)) {
    if (!entry.is_directory()) ++inputs;
  }
  Json findings = Json::array();
  const auto add = [&](const char* name, const std::string& found) {
    Json finding;
    finding["name"] = name;
    finding["found"] = found;
    findings.push_back(std::move(finding));
  };
  const char* tmpdir = std::getenv("TMPDIR");
  add("fake.facts", facts);
  add("fake.job", job.string());
  add("fake.inputs", std::to_string(inputs));
  add("fake.tmpdir", tmpdir == nullptr ? "" : tmpdir);
  Json line;
  line["plan"]["verdict"] = "VERDICT_PASS";
  line["plan"]["findings"] = std::move(findings);
  line["plan"]["steps"]["total_steps"] = "12";
  line["plan"]["time"]["total_seconds"] = 60.0;
  return line.dump();
}
void SayPlan(const fs::path& job, const std::string& facts) {
  Say(PlanOf(job, facts));
}

using Mode = std::function<void(const fs::path& job)>;

const std::map<std::string, Mode>& Modes() {
  static const auto* modes = new std::map<std::string, Mode>{
      {"garbage",
       [](const fs::path&) {
         Say("\xff\xfe this is no JSON");
         Stay();
       }},
      {"hang", [](const fs::path&) { Stay(); }},
      {"deaf",
       [](const fs::path&) {
         std::signal(SIGTERM, SIG_IGN);
         Stay();
       }},
      {"crash-abort",
       [](const fs::path&) {
         std::fputs("MPSGraph assertion failed\n", stderr);
         std::raise(SIGABRT);
       }},
      {"exit-1", [](const fs::path&) { _exit(1); }},
      {"endless",
       [](const fs::path&) {
         const std::string bytes(1 << 16, 'x');
         while (std::fwrite(bytes.data(), 1, bytes.size(), stdout) > 0) {
         }
       }},
      {"stderr-flood",
       [](const fs::path&) {
         const std::string line(200, 'x');
         for (int i = 0; i < 20000; ++i) {
           std::fprintf(stderr, "%s\n", line.c_str());
         }
         std::fputs("last words\n", stderr);
         _exit(1);
       }},
      {"talk-after-done",
       [](const fs::path& job) {
         // In one write: no reader listens for long after a plan.
         Say(PlanOf(job, "{}") + "\n" + PlanOf(job, "{}"));
         Stay();
       }},
      {"linger",
       [](const fs::path& job) {
         SayPlan(job, "{}");
         Stay();
       }},
      // The check of a queued job's data.
      {"bad-data",
       [](const fs::path& job) {
         const Json spec = Json::parse(Read(job.c_str()));
         SayError("INVALID_ARGUMENT", (job.parent_path() / "inputs").string() +
                                          "/up/e2.csv:2: no label; " +
                                          spec["model"].get<std::string>());
       }},
      {"lost-data",
       [](const fs::path&) {
         Say(R"({"plan": {"warnings": ["45 of 60 rows dropped"]}})");
       }},
      {"slow-data", [](const fs::path&) { Stay(); }},
      {"late-data",
       [](const fs::path&) {
         sleep(7);
         SayError("INVALID_ARGUMENT", "train.jsonl:9: late");
       }},
      {"crash-data", [](const fs::path&) { std::raise(SIGABRT); }},
      {"rejected",
       [](const fs::path& job) {
         SayError("INVALID_ARGUMENT", (job.parent_path() / "inputs").string() +
                                          "/up/e2.csv:2: no label");
       }},
      {"hostile",
       [](const fs::path&) {
         SayStage("\x1b]0;PWNED\a\x1b[2J\nforged");
         SayError("UNAUTHENTICATED", "\x1b[2J" + std::string(1 << 20, 'x'));
       }},
  };
  return *modes;
}

int FakePlan(int argc, char** argv) {
  if (argc != 5 || std::string(argv[3]) != "--facts") return 2;
  const Json spec = Json::parse(Read(argv[2]), nullptr, false);
  const std::string name = spec.is_object() ? spec.value("name", "") : "";
  SayStage("tokenizing");
  const bool check =
      Json::parse(Read(argv[4]), nullptr, false).contains("check");
  // The other modes of a plan's are also modes of a run's.
  const auto mode =
      Modes().find(name.starts_with("fake:") && check == name.ends_with("-data")
                       ? name.substr(5)
                       : "");
  if (mode != Modes().end()) {
    mode->second(argv[2]);
  } else {
    SayPlan(argv[2], Read(argv[4]));
  }
  return 0;
}

}  // namespace plans

// A plausible result.json of a study, without findings.
nlohmann::json FakeStudy(wire::JobKind kind) {
  const nlohmann::json seconds = {{"median", 0.1},
                                  {"p10", 0.09},
                                  {"p90", 0.12},
                                  {"min", 0.08},
                                  {"max", 0.13}};
  switch (kind) {
    case wire::JobKind::kTraining:
      break;
    case wire::JobKind::kProbe:
      return {{"probe",
               {{"device", "cpu"},
                {"warmup_steps", 2},
                {"steps", 8},
                {"step_rows", 2},
                {"micro_batch_rows", 2},
                {"step_seconds", seconds},
                {"tokens_per_second", 1000.0},
                {"rows_per_second", 20.0},
                {"peak_bytes", 3 << 20},
                {"peak_from", "footprint"},
                {"estimate", {{"total_bytes", 3 << 20}}},
                {"estimate_ratio", 1.0},
                {"memory_limit_bytes", 1 << 30}}}};
    case wire::JobKind::kBatchSweep: {
      nlohmann::json points = nlohmann::json::array();
      for (int batch = 1; batch <= 4; batch *= 2) {
        points.push_back({{"batch", batch},
                          {"fits", true},
                          {"peak_bytes", batch << 20},
                          {"step_seconds", seconds},
                          {"tokens_per_second", 1000.0 * batch},
                          {"rows_per_second", 10.0 * batch},
                          {"steps", 6}});
      }
      return {{"batch_sweep",
               {{"device", "cpu"},
                {"points", points},
                {"largest_batch", 4},
                {"knee_batch", 4},
                {"best_tokens_per_second", 4000.0},
                {"peak_from", "footprint"},
                {"ended_by", "rows"},
                {"job_batch", 2}}}};
    }
    case wire::JobKind::kDeviceComparison:
      return {{"device_comparison", {{"device", "cpu"}}}};
    case wire::JobKind::kProfile:
      return {{"profile", {{"device", "cpu"}}}};
    case wire::JobKind::kGenerate:
      return {{"generate", {{"device", "cpu"}}}};
    case wire::JobKind::kSmoke: {
      nlohmann::json epochs = nlohmann::json::array();
      for (int epoch = 1; epoch <= 10; ++epoch) {
        epochs.push_back({{"epoch", epoch},
                          {"footprint_bytes", 2 << 20},
                          {"step_seconds", 0.1}});
      }
      return {{"smoke",
               {{"device", "cpu"},
                {"environment",
                 {{"torch_version", "2.11.0-fake"}, {"train_sha256", "abc"}}},
                {"rows", 8},
                {"step_rows", 2},
                {"steps_per_epoch", 4},
                {"epochs", epochs},
                {"step_seconds", seconds},
                {"memory_from", "footprint"},
                {"memory_growth", 0.0}}}};
    }
  }
  return nlohmann::json::object();
}

struct Worker {
  LineChannel channel{wire::kWorkerFd};
  wire::Start start;
  nlohmann::json spec;
  int64_t step = 0;
  int64_t total_steps = 5;
  double eval_before = 2;

  void Say(const wire::FromWorker& message) {
    channel.Send(wire::Encode(message)).IgnoreError();
  }
  void Write(const std::string& bytes) {
    [[maybe_unused]] ssize_t n =
        send(channel.fd(), bytes.data(), bytes.size(), 0);
  }
  fs::path Folder() const { return start.output_dir; }
};

[[noreturn]] void Exit(int status) { _exit(status); }

std::optional<wire::ToWorker> Hear(Worker& w, absl::Duration timeout) {
  auto line = w.channel.Receive(timeout);
  if (absl::IsDeadlineExceeded(line.status())) return std::nullopt;
  // End of stream: the daemon is gone.
  if (!line.ok() || !line->has_value()) return wire::Stop{};
  auto message = wire::DecodeToWorker(**line);
  if (!message.ok()) Exit(3);
  return *message;
}

void Hello(Worker& w, int version = wire::kProtocolVersion) {
  w.Say(wire::Hello{version, getpid(), "0.1.0-fake", "2.11.0-fake"});
}

std::optional<int64_t> LastCheckpoint(const Worker& w) {
  std::optional<int64_t> last;
  std::error_code none;
  for (const auto& entry :
       fs::directory_iterator(w.Folder() / "checkpoints", none)) {
    const std::string name = entry.path().filename();
    if (name.rfind("step-", 0) == 0) {
      last = std::max<int64_t>(last.value_or(0), std::stoll(name.substr(5)));
    }
  }
  return last;
}

void ReceiveStart(Worker& w) {
  auto message = Hear(w, kForever);
  if (!message || !std::holds_alternative<wire::Start>(*message)) Exit(0);
  w.start = std::get<wire::Start>(*message);
  std::ifstream file(w.start.spec_path);
  w.spec = nlohmann::json::parse(file, nullptr, false);
  if (w.spec.contains("training")) {
    const int64_t steps = w.spec["training"].value("max_steps", -1);
    if (steps > 0) w.total_steps = steps;
  }
  w.step = LastCheckpoint(w).value_or(0);
  std::fprintf(stderr, "fake worker starts at step %lld\n",
               static_cast<long long>(w.step));
}

void WriteFile(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void Checkpoint(Worker& w) {
  const fs::path folder =
      w.Folder() / "checkpoints" / ("step-" + std::to_string(w.step));
  WriteFile(folder / "adapter_config.json", "{\"peft_type\": \"LORA\"}\n");
  w.Say(wire::Checkpointed{w.step, folder.string(), 22, 0.01, {}});
}

wire::Progress NextStep(Worker& w) {
  ++w.step;
  wire::Progress progress;
  progress.step = w.step;
  progress.total_steps = w.total_steps;
  progress.epoch = static_cast<double>(w.step) / w.total_steps;
  progress.loss = 2.0 / static_cast<double>(w.step);
  progress.learning_rate = 1e-3;
  progress.grad_norm = 0.5;
  progress.tokens = 100;
  progress.label_tokens = 50;
  progress.seconds = 0.1;
  progress.device = "cpu";
  progress.memory.current_allocated_bytes = 1 << 20;
  progress.memory.footprint_bytes = 2 << 20;
  return progress;
}

void Step(Worker& w) { w.Say(NextStep(w)); }

// A step with every field that a Mac has.
void StepOnMac(Worker& w) {
  wire::Progress progress = NextStep(w);
  progress.padded_tokens = 120;
  progress.data_wait_seconds = 0.01;
  progress.device = "mps";
  progress.memory.peak_allocated_bytes = 3 << 20;
  progress.memory.driver_allocated_bytes = 4 << 20;
  progress.memory.recommended_max_bytes = 8 << 20;
  progress.cpu_fallback_ops = {{"aten::_linalg_svd", w.step}};
  progress.device_utilization_ratio = 0.9;
  progress.metrics = {{"rewards/margins", 0.1 * w.step}};
  w.Say(progress);
}

// The run's loss at its step: weight decay makes it worse, training better; 0.5
// for a whole run without weight decay.
double EvalLoss(const Worker& w) {
  const double decay = w.spec.contains("training")
                           ? w.spec["training"].value("weight_decay", 0.0)
                           : 0.0;
  return 0.5 + decay +
         static_cast<double>(w.total_steps - std::min(w.step, w.total_steps)) /
             1000;
}

void Stop(Worker& w, wire::StopReason reason) {
  if (reason == wire::StopReason::kPreempt) Checkpoint(w);
  w.Say(wire::Stopped{reason, w.step});
  Exit(0);
}

// Until `until`, `pause` after each step, a checkpoint every `save_steps`.
void Train(Worker& w, int64_t until, absl::Duration pause, int64_t save_steps,
           void (*step)(Worker&) = Step) {
  while (w.step < until) {
    step(w);
    if (save_steps > 0 && w.step % save_steps == 0) Checkpoint(w);
    auto message = Hear(w, pause);
    if (message && std::holds_alternative<wire::Pause>(*message)) {
      w.Say(wire::Held{w.step});
      message = Hear(w, kForever);
      if (message && std::holds_alternative<wire::Resume>(*message)) {
        w.Say(wire::Resumed{w.step});
      }
    }
    if (message && std::holds_alternative<wire::Stop>(*message)) {
      Stop(w, std::get<wire::Stop>(*message).reason);
    }
  }
}

void SayStudied(Worker& w, const std::string& verdict) {
  nlohmann::json result = FakeStudy(w.start.kind);
  result["verdict"] = verdict;
  result["findings"] = {
      {{"name", "fake"}, {"verdict", verdict}, {"found", "as the fake says"}}};
  WriteFile(w.Folder() / "result.json", result.dump(1));
  wire::Done done;
  done.steps = w.step;
  done.output_path = w.Folder().string();
  done.output_kind = wire::OutputKind::kStudy;
  done.seconds = 1;
  w.Say(done);
}

void SayDone(Worker& w) {
  if (w.start.kind != wire::JobKind::kTraining) {
    return SayStudied(w, "VERDICT_PASS");
  }
  const fs::path adapter = w.Folder() / "adapter";
  WriteFile(adapter / "adapter_config.json", "{\"peft_type\": \"LORA\"}\n");
  WriteFile(adapter / "adapter_model.safetensors",
            std::string("\x02\0\0\0\0\0\0\0{}", 10));
  w.Say(wire::Evaluated{w.step, EvalLoss(w), 50, 0.1, {}, /*best=*/true});
  wire::Done done;
  done.steps = w.step;
  done.output_path = adapter.string();
  done.train_loss = 0.75;
  done.eval_loss_before = w.eval_before;
  done.eval_loss_after = EvalLoss(w);
  done.seconds = 1;
  w.Say(done);
}

void TrainWhole(Worker& w, absl::Duration pause, int64_t save_steps) {
  w.Say(wire::Heartbeat{"loading model", 0, "cpu"});
  if (w.start.kind != wire::JobKind::kTraining) {
    Train(w, w.total_steps, pause, 0);
    return SayDone(w);
  }
  w.Say(wire::Evaluated{0, w.eval_before, 50, 0.1, {}});
  Train(w, w.total_steps, pause, save_steps);
  Checkpoint(w);
  SayDone(w);
}

// Half of the run, an evaluation with metrics, and the other half.
void TrainOnMac(Worker& w) {
  constexpr absl::Duration kPause = absl::Milliseconds(20);
  w.Say(wire::Heartbeat{"loading model", 0, "mps"});
  Train(w, w.total_steps / 2, kPause, 20, StepOnMac);
  w.Say(wire::Evaluated{w.step, 0.7, 8, 0.1, {{"accuracy", 0.5}}});
  Train(w, w.total_steps, kPause, 20, StepOnMac);
  Checkpoint(w);
  SayDone(w);
}

void Fail(Worker& w, wire::FailureKind kind, const std::string& message) {
  w.Say(wire::Failed{kind, message});
  Exit(1);
}

void Flood() {
  const std::string line(200, 'x');
  for (int i = 0; i < 20000; ++i) std::fprintf(stderr, "%s\n", line.c_str());
}

// Deaf to Stop, SIGTERM and the end of the stream.
[[noreturn]] void TalkForever(Worker& w) {
  std::signal(SIGTERM, SIG_IGN);
  for (absl::Duration t; t < kForever; t += absl::Milliseconds(10)) {
    w.Say(wire::Heartbeat{"ignoring all requests", 0.5});
    Sleep(absl::Milliseconds(10));
  }
  Exit(0);
}

using Mode = std::function<void(Worker&)>;

// What happens after Start; returning means exit 0.
const std::map<std::string, Mode>& Modes() {
  using Kind = wire::FailureKind;
  static const auto* modes = new std::map<std::string, Mode>{
      {"ok", [](Worker& w) { TrainWhole(w, absl::ZeroDuration(), 0); }},
      {"ok-slow", [](Worker& w) { TrainWhole(w, absl::Milliseconds(20), 5); }},
      {"study-warn", [](Worker& w) { SayStudied(w, "VERDICT_WARN"); }},
      {"study-fail", [](Worker& w) { SayStudied(w, "VERDICT_FAIL"); }},
      {"study-no-result",
       [](Worker& w) {
         SayStudied(w, "VERDICT_PASS");
         fs::remove(w.Folder() / "result.json");
       }},
      {"mac", TrainOnMac},
      {"warn",
       [](Worker& w) {
         w.Say(wire::Warning{"torch is not\namused\x1b[31m"});
         Step(w);
         w.Say(wire::Warning{"memory grows"});
         w.Say(wire::Warning{"memory grows"});
         TrainWhole(w, absl::ZeroDuration(), 0);
       }},
      {"environment",
       [](Worker& w) {
         for (char** v = environ; *v != nullptr; ++v) {
           std::fprintf(stderr, "%s\n", *v);
         }
         SayDone(w);
       }},
      {"read-roots",
       [](Worker& w) {
         for (const std::string& root : w.start.read_roots) {
           std::fprintf(stderr, "may read %s\n", root.c_str());
         }
         for (const std::string& root : w.start.closed_roots) {
           std::fprintf(stderr, "no other in %s\n", root.c_str());
         }
         SayDone(w);
       }},
      {"crash-segv",
       [](Worker& w) {
         Step(w);
         std::fputs("about to crash\n", stderr);
         // A sanitizer would catch it and exit(1) instead.
         std::signal(SIGSEGV, SIG_DFL);
         std::raise(SIGSEGV);
       }},
      {"crash-abort",
       [](Worker& w) {
         Step(w);
         std::fputs("MPSGraph assertion failed\n", stderr);
         std::raise(SIGABRT);
       }},
      {"exit-1", [](Worker&) { Exit(1); }},
      {"exit-0", [](Worker&) {}},
      {"hang",
       [](Worker& w) {
         Step(w);
         Sleep(kForever);
       }},
      {"garbage",
       [](Worker& w) {
         w.Write("\xff\xfe this is no JSON\n");
         Sleep(kForever);
       }},
      {"half-line",
       [](Worker& w) {
         Step(w);
         w.Write("{\"type\": \"progr");
         Exit(1);
       }},
      {"oom",
       [](Worker& w) { Fail(w, Kind::kOutOfMemory, "MPS out of memory"); }},
      {"rejected",
       [](Worker& w) {
         Fail(w, Kind::kRejected, "train.jsonl:3: no field messages");
       }},
      {"rejected-input",
       [](Worker& w) {
         const std::string inputs =
             w.start.spec_path.substr(0, w.start.spec_path.rfind('/')) +
             "/inputs/";
         w.Say(wire::Warning{inputs + "train.jsonl is short"});
         Fail(w, Kind::kRejected, inputs + "up/e2.csv:2: no label");
       }},
      // What is in a data file, as a worker without bounds repeats it.
      {"hostile",
       [](Worker& w) {
         const std::string forged =
             "\x1b]0;PWNED\a\x1b[2J\n2026-11-22T10:00:00.000Z info job FORGED: "
             "SUCCEEDED\r\xc2\x9b\xe2\x80\xae";
         w.Say(wire::Heartbeat{forged, 0});
         w.Say(wire::Warning{forged});
         wire::Evaluated evaluated{0, 0.5, 8, 0.1, {}};
         for (int i = 0; i < 1000; ++i) {
           evaluated.metrics.emplace_back(forged + std::to_string(i), i);
         }
         w.Say(evaluated);
         Fail(w, Kind::kRejected, forged + std::string(5 << 20, 'x'));
       }},
      {"nonfinite",
       [](Worker& w) { Fail(w, Kind::kNonFinite, "the loss is NaN"); }},
      {"internal",
       [](Worker& w) { Fail(w, Kind::kInternal, "INTERNAL ASSERT FAILED"); }},
      {"slow-exit", TalkForever},
      {"stderr-flood",
       [](Worker& w) {
         Flood();
         TrainWhole(w, absl::ZeroDuration(), 0);
       }},
      {"flood-then-crash",
       [](Worker&) {
         Flood();
         std::fputs("last words\n", stderr);
         std::raise(SIGABRT);
       }},
      {"checkpoint-then-crash",
       [](Worker& w) {
         Train(w, w.step + 1, absl::ZeroDuration(), 1);
         if (w.step < w.total_steps) std::raise(SIGABRT);
         SayDone(w);
       }},
      {"linger",
       [](Worker& w) {
         SayDone(w);
         Sleep(kForever);
       }},
      {"talk-after-done",
       [](Worker& w) {
         SayDone(w);
         Step(w);
         Sleep(kForever);
       }},
      {"unasked-stop", [](Worker& w) { Stop(w, wire::StopReason::kCancel); }},
      {"hello-twice",
       [](Worker& w) {
         Hello(w);
         Sleep(kForever);
       }},
      {"close-fd",
       [](Worker&) {
         close(wire::kWorkerFd);
         Sleep(kForever);
       }},
  };
  return *modes;
}

// Modes that go wrong before Start.
void MisbehaveEarly(Worker& w, const std::string& mode) {
  if (mode == "bad-version") {
    Hello(w, 99);
    Sleep(kForever);
  } else if (mode == "no-hello") {
    Step(w);
    Sleep(kForever);
  } else if (mode == "mute") {
    Sleep(kForever);
  } else if (mode == "leak-check") {
    // Descriptors that a worker should not have inherited.
    for (int fd = 5; fd < 256; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) Exit(100);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--plan") {
    return plans::FakePlan(argc, argv);
  }
  // The self-test: FAKE_WORKER_SELFTEST is its exit status.
  if (argc > 1 && std::string(argv[1]) == "--selftest") {
    const char* status = std::getenv("FAKE_WORKER_SELFTEST");
    return status == nullptr ? 0 : std::atoi(status);
  }
  if (argc > 1 && std::string(argv[1]) == "--gates") return FakeGates();
  const char* variable = std::getenv("FAKE_WORKER_MODE");
  std::string mode = variable != nullptr ? variable : "ok";
  Worker w;
  MisbehaveEarly(w, mode);
  Hello(w);
  ReceiveStart(w);
  const std::string name = w.spec.is_object() ? w.spec.value("name", "") : "";
  if (name.rfind("fake:", 0) == 0) mode = name.substr(5);
  auto found = Modes().find(mode);
  (found != Modes().end() ? found : Modes().find("ok"))->second(w);
  Exit(0);
}
