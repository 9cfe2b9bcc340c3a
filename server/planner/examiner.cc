// SPDX-License-Identifier: Apache-2.0
#include "server/planner/examiner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/host/environment.h"
#include "core/host/machine.h"
#include "server/planner/doctor.h"

// The sources of the facts: the worker's output and verdict, a measurement of
// the disk, the service manager's file; then the examiner, which gathers them.

namespace mpsd::doctor {

namespace {

using nlohmann::json;

constexpr size_t kMostBackends = 8;

// Null if `object` has no such member.
const json* Member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

std::string TextOf(const json& object, const char* name) {
  const json* member = Member(object, name);
  if (member == nullptr || !member->is_string()) return "";
  return Foreign(member->get_ref<const std::string&>());
}

bool FlagOf(const json& object, const char* name) {
  const json* member = Member(object, name);
  return member != nullptr && member->is_boolean() && member->get<bool>();
}

void ReadBackends(const json& line, WorkerGates& gates) {
  const json* list = Member(line, "backends");
  if (list == nullptr || !list->is_array()) return;
  for (const json& entry : *list) {
    if (gates.backends.size() == kMostBackends) return;
    Backend backend;
    backend.name = TextOf(entry, "name");
    backend.built = FlagOf(entry, "built");
    backend.available = FlagOf(entry, "available");
    backend.device = TextOf(entry, "device");
    backend.problem = TextOf(entry, "problem");
    if (!backend.name.empty()) gates.backends.push_back(std::move(backend));
  }
}

void ReadEnvironment(const json& line, WorkerGates& gates) {
  const json* variables = Member(line, "environment");
  if (variables == nullptr || !variables->is_object()) return;
  for (const auto& [name, value] : variables->items()) {
    if (gates.environment.size() == kMostVariables) return;
    // The whole value: it is compared.
    if (value.is_string()) {
      gates.environment.emplace(name, value.get<std::string>());
    }
  }
}

void ReadMatmul(const json& line, WorkerGates& gates) {
  const json* member = Member(line, "matmul");
  if (member == nullptr || !member->is_object()) return;
  Matmul matmul;
  matmul.asked_device = TextOf(*member, "asked_device");
  matmul.result_device = TextOf(*member, "result_device");
  matmul.right = FlagOf(*member, "right");
  const json* seconds = Member(*member, "seconds");
  if (seconds != nullptr && seconds->is_number()) {
    matmul.seconds = seconds->get<double>();
  }
  if (!matmul.asked_device.empty()) gates.matmul = std::move(matmul);
}

void ReadLine(const json& line, WorkerGates& gates) {
  ReadMatmul(line, gates);
  if (Member(line, "torch_version") == nullptr) return;
  gates.worker_version = TextOf(line, "worker_version");
  gates.torch_version = TextOf(line, "torch_version");
  gates.built_against = TextOf(line, "built_against");
  const json* protocol = Member(line, "protocol_version");
  if (protocol != nullptr && protocol->is_number_integer()) {
    gates.protocol_version = protocol->get<int>();
  }
  ReadBackends(line, gates);
  ReadEnvironment(line, gates);
}

// The last stage of a worker that did not reach its end.
const char* Place(const WorkerGates& gates) {
  if (gates.built_against.empty()) return " while it looked for devices";
  return gates.matmul ? " at its end" : " in a product of matrices";
}

}  // namespace

WorkerGates ParseGates(std::string_view output) {
  WorkerGates gates;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(output.size(), line.size() + 1));
    ReadLine(base::ParseTree<json>(line), gates);
  }
  const bool whole = gates.matmul && !gates.built_against.empty();
  gates.end = whole ? WorkerGates::End::kDone : WorkerGates::End::kNoSense;
  if (!whole) gates.problem = "mpsd-worker --gates printed something else";
  return gates;
}

WorkerGates ReadGates(std::string_view output, std::optional<int> status,
                      absl::Duration limit) {
  constexpr char kWho[] = "mpsd-worker --gates";
  WorkerGates gates = ParseGates(output);
  if (!status) {
    gates.end = WorkerGates::End::kTooSlow;
    gates.problem = absl::StrCat(kWho, " was killed after ",
                                 absl::FormatDuration(limit), Place(gates));
  } else if (WIFSIGNALED(*status)) {
    gates.end = WorkerGates::End::kCrashed;
    gates.problem = absl::StrCat(kWho, " crashed with signal ",
                                 WTERMSIG(*status), Place(gates));
  } else if (WEXITSTATUS(*status) != 0) {
    gates.end = WorkerGates::End::kCrashed;
    gates.problem = absl::StrCat(kWho, " ended with exit status ",
                                 WEXITSTATUS(*status), Place(gates));
  }
  return gates;
}

Selftest ReadSelftest(const std::filesystem::path& path) {
  Selftest selftest;
  const auto verdict = supervisor::ReadVerdict(path);
  if (!verdict || !verdict->passed) return selftest;
  selftest.state =
      *verdict->passed ? Selftest::State::kPassed : Selftest::State::kFailed;
  selftest.summary = Foreign(verdict->summary);
  selftest.device = Foreign(verdict->device);
  selftest.time = verdict->time;
  return selftest;
}

namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

constexpr size_t kPiece = 1 << 20;

double SecondsSince(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

// A file without a name from its creation on, so that a crash leaves nothing.
class ProbeFile {
 public:
  explicit ProbeFile(const fs::path& folder) : folder_(folder) {
    std::string name = (folder / "disk-probe-XXXXXX").string();
    fd_.reset(mkstemp(name.data()));
    if (!fd_.valid()) return;
    fcntl(fd_.get(), F_SETFD, FD_CLOEXEC);
    unlink(name.c_str());
#ifdef F_NOCACHE
    fcntl(fd_.get(), F_NOCACHE, 1);
#endif
  }
  int fd() const { return fd_.get(); }
  absl::Status Error() const {
    return base::ErrnoStatus(errno, folder_.string());
  }

 private:
  const fs::path folder_;
  base::UniqueFd fd_;
};

// Bytes that no file system can compress.
std::vector<uint64_t> Noise() {
  std::vector<uint64_t> numbers(kPiece / sizeof(uint64_t));
  std::mt19937_64 generator(Steady::now().time_since_epoch().count());
  std::generate(numbers.begin(), numbers.end(), std::ref(generator));
  return numbers;
}

// To the disk itself: on a Mac fsync leaves bytes in the drive's own memory.
bool Flush(int fd) {
#ifdef F_FULLFSYNC
  if (fcntl(fd, F_FULLFSYNC) == 0) return true;
#endif
  return fsync(fd) == 0;
}

// Bytes per second; sets how many were written.
absl::StatusOr<double> Write(const ProbeFile& file, const DiskProbe& probe,
                             int64_t* written) {
  std::vector<uint64_t> piece = Noise();
  const Steady::time_point start = Steady::now();
  const double patience = absl::ToDoubleSeconds(probe.patience);
  while (*written < probe.bytes &&
         (*written == 0 || SecondsSince(start) < patience)) {
    // No two pieces are equal.
    piece[0] += 1;
    const ssize_t n = write(file.fd(), piece.data(), kPiece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file.Error();
    *written += n;
  }
  if (!Flush(file.fd())) return file.Error();
  return static_cast<double>(*written) / std::max(SecondsSince(start), 1e-6);
}

absl::StatusOr<double> Read(const ProbeFile& file, const DiskProbe& probe,
                            int64_t written) {
#ifdef POSIX_FADV_DONTNEED
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
#endif
  std::vector<char> piece(kPiece);
  const Steady::time_point start = Steady::now();
  const double patience = absl::ToDoubleSeconds(probe.patience);
  int64_t read = 0;
  while (read < written && (read == 0 || SecondsSince(start) < patience)) {
    const ssize_t n = pread(file.fd(), piece.data(), kPiece, read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file.Error();
    if (n == 0) break;
    read += n;
  }
  return static_cast<double>(read) / std::max(SecondsSince(start), 1e-6);
}

}  // namespace

absl::StatusOr<DiskSpeed> MeasureDisk(const DiskProbe& probe) {
  std::error_code error;
  const fs::space_info space = fs::space(probe.folder, error);
  if (error) {
    return base::ErrnoStatus(error.value(), probe.folder.string());
  }
  const auto needed =
      static_cast<uintmax_t>(probe.keep_free_bytes + 2 * probe.bytes);
  if (space.available < needed) {
    return absl::ResourceExhaustedError(
        absl::StrCat(probe.folder.string(), ": the disk is nearly full"));
  }
  const ProbeFile file(probe.folder);
  if (file.fd() < 0) return file.Error();
  int64_t written = 0;
  ASSIGN_OR_RETURN(const double write, Write(file, probe, &written));
  ASSIGN_OR_RETURN(const double read, Read(file, probe, written));
  return DiskSpeed{write, read, absl::Now()};
}

namespace {

constexpr size_t kLargestFile = 64 << 10;
constexpr char kUnit[] = "mpsd.service";

// --- systemd -----------------------------------------------------------------

// Words of Environment=: "A=b", 'A=b c' and A=b, with C's escapes for quotes,
// backslashes, tabs and new lines.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      const char next = text[++i];
      word += next == 'n' ? '\n' : next == 't' ? '\t' : next;
      in_word = true;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
      in_word = true;
    } else if (c == quote && quote != 0) {
      quote = 0;
    } else if (quote == 0 && absl::ascii_isspace(c)) {
      if (in_word) words.push_back(std::exchange(word, ""));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (in_word) words.push_back(word);
  return words;
}

// Seconds of "150", "2min 30s", "1h"; nullopt for "infinity" and invalid text.
std::optional<double> SecondsOf(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"s", 1},       {"sec", 1},   {"m", 60},
      {"min", 60},  {"h", 3600},    {"hr", 3600}, {"ms", 1e-3},
      {"d", 86400}, {"day", 86400}, {"us", 1e-6}};
  double sum = 0;
  const std::vector<std::string> parts =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const size_t digits = part.find_first_not_of("0123456789.");
    const std::string unit =
        digits == std::string::npos ? "" : part.substr(digits);
    double number = 0;
    const auto* known =
        std::find_if(std::begin(kUnits), std::end(kUnits),
                     [&](const auto& pair) { return pair.first == unit; });
    if (known == std::end(kUnits) ||
        !absl::SimpleAtod(part.substr(0, digits), &number)) {
      return std::nullopt;
    }
    sum += number * known->second;
  }
  if (parts.empty()) return std::nullopt;
  return sum;
}

void Assign(const std::string& name, const std::string& value,
            Service& service) {
  if (name == "Environment") {
    if (value.empty()) service.environment.clear();
    for (const std::string& word : Words(value)) {
      const size_t split = word.find('=');
      if (split == std::string::npos || split == 0) continue;
      service.environment[word.substr(0, split)] = word.substr(split + 1);
    }
  } else if (name == "LimitNOFILE") {
    // "soft:hard", or one for both.
    int64_t number = 0;
    service.descriptors.reset();
    if (absl::SimpleAtoi(value.substr(0, value.find(':')), &number)) {
      service.descriptors = number;
    }
  } else if (name == "TimeoutStopSec" || name == "TimeoutSec") {
    service.stop_seconds = SecondsOf(value);
  }
}

// A backslash at the end of a line continues it in the next one.
void ReadUnit(const std::string& text, Service& service) {
  std::string section, whole;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& raw : lines) {
    std::string line(absl::StripAsciiWhitespace(raw));
    if (whole.empty() && (line.starts_with('#') || line.starts_with(';'))) {
      continue;
    }
    if (line.ends_with('\\')) {
      line.back() = ' ';
      whole += line;
      continue;
    }
    line.insert(0, std::exchange(whole, ""));
    if (line.starts_with('[')) section = line;
    const size_t split = line.find('=');
    if (section != "[Service]" || split == std::string::npos) continue;
    Assign(std::string(absl::StripAsciiWhitespace(line.substr(0, split))),
           std::string(absl::StripAsciiWhitespace(line.substr(split + 1))),
           service);
  }
}

// The unit and its drop-ins (mpsd.service.d/*.conf) by name.
std::vector<std::string> UnitTexts(const fs::path& unit) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator entries(unit.string() + ".d", error);
  for (; !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    if (entries->path().extension() == ".conf") {
      files.push_back(entries->path());
    }
  }
  std::sort(files.begin(), files.end());
  files.insert(files.begin(), unit);
  std::vector<std::string> texts;
  for (const fs::path& file : files) {
    if (auto text = base::ReadSmallFile(file, kLargestFile); text.ok()) {
      texts.push_back(*std::move(text));
    }
  }
  return texts;
}

// --- launchd -----------------------------------------------------------------

std::string Unescaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&lt;", "<"},
                                    {"&gt;", ">"},
                                    {"&quot;", "\""},
                                    {"&apos;", "'"},
                                    {"&amp;", "&"}});
}

// `keys`: those that lead to the value, from the outside in.
void TakeValue(const std::vector<std::string>& keys, const std::string& value,
               Service& service) {
  using Keys = std::vector<std::string>;
  int64_t number = 0;
  const bool is_number = absl::SimpleAtoi(value, &number);
  if (keys.size() == 2 && keys[0] == "EnvironmentVariables") {
    service.environment[keys[1]] = value;
  } else if (keys == Keys{"ProcessType"}) {
    service.process_type = Foreign(value);
  } else if (keys == Keys{"SoftResourceLimits", "NumberOfFiles"}) {
    if (is_number) service.descriptors = number;
  } else if (keys == Keys{"ExitTimeOut"} && is_number) {
    service.stop_seconds = static_cast<double>(number);
  }
}

// Walks over the tags and reads only dictionaries, keys, strings and integers:
// a property list has no attributes that matter, and nothing recurses.
void ReadPlist(const std::string& text, Service& service) {
  std::vector<std::string> keys;  // the last one of each open dictionary
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
    const bool comment = text.compare(at, 4, "<!--") == 0;
    const size_t end = text.find(comment ? "-->" : ">", at);
    if (end == std::string::npos) return;
    const std::string tag = comment ? "" : text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag == "dict") keys.emplace_back();
    if (tag == "/dict" && !keys.empty()) keys.pop_back();
    if (keys.empty() || (tag != "key" && tag != "string" && tag != "integer")) {
      continue;
    }
    const size_t next = text.find("</" + tag + ">", at);
    if (next == std::string::npos) return;
    const std::string value = Unescaped(text.substr(at, next - at));
    if (tag == "key") {
      keys.back() = value;
    } else {
      TakeValue(keys, value, service);
    }
    at = next;
  }
}

// --- both --------------------------------------------------------------------

// The last folder of the control group is the unit's name.
std::optional<bool> IsInGroup(std::string_view cgroup) {
  const std::string text(absl::StripAsciiWhitespace(std::string(cgroup)));
  const size_t slash = text.rfind('/');
  // In a container every process is in the group "/".
  if (slash == std::string::npos || slash + 1 == text.size()) {
    return std::nullopt;
  }
  return text.substr(slash + 1) == kUnit;
}

Service FindUnit(const ServicePlaces& places, const host::Environment& daemon,
                 std::string_view cgroup) {
  const auto config = daemon.find("XDG_CONFIG_HOME");
  const fs::path user_folder = config != daemon.end() ? fs::path(config->second)
                                                      : places.home / ".config";
  for (const fs::path& file : {places.root / "etc/systemd/system" / kUnit,
                               user_folder / "systemd/user" / kUnit}) {
    const std::vector<std::string> texts = UnitTexts(file);
    if (texts.empty()) continue;
    Service service = ParseUnit(texts);
    service.file = file.string();
    service.runs_mpsd = IsInGroup(cgroup);
    return service;
  }
  return {};
}

Service FindPlist(const ServicePlaces& places,
                  const host::Environment& daemon) {
  const std::pair<fs::path, std::string> files[] = {
      {places.root / "Library/LaunchDaemons", "org.mpsd.daemon"},
      {places.home / "Library/LaunchAgents", "org.mpsd.agent"}};
  for (const auto& [folder, label] : files) {
    const fs::path file = folder / (label + ".plist");
    const auto text = base::ReadSmallFile(file, kLargestFile);
    if (!text.ok()) continue;
    Service service = ParsePlist(*text);
    service.file = file.string();
    // launchd gives each process the label of its service; a program started
    // from a terminal gets "0" or the terminal's label.
    const auto name = daemon.find("XPC_SERVICE_NAME");
    service.runs_mpsd = name != daemon.end() && name->second == label;
    return service;
  }
  return {};
}

}  // namespace

Service ParseUnit(const std::vector<std::string>& texts) {
  Service service;
  service.manager = "systemd";
  for (const std::string& text : texts) ReadUnit(text, service);
  return service;
}

Service ParsePlist(const std::string& text) {
  Service service;
  service.manager = "launchd";
  ReadPlist(text, service);
  return service;
}

Service FindService(const ServicePlaces& places,
                    const host::Environment& daemon, std::string_view cgroup) {
  return places.launchd ? FindPlist(places, daemon)
                        : FindUnit(places, daemon, cgroup);
}

namespace {

constexpr size_t kMostOfAKind = 10;

Machine LookAtMachine() {
  Machine machine;
  machine.architecture = host::Architecture();
  machine.translated = host::IsTranslated();
  machine.system = host::OperatingSystem();
  machine.macos_version = host::MacosVersion();
  machine.chip = host::ProcessorName();
  machine.nvidia = host::HasNvidiaCard();
  machine.cores = host::CountCores();
  machine.gpu_cores = host::GpuCores();
  machine.memory_bytes = host::PhysicalMemoryBytes();
  return machine;
}

// Missing on a Mac.
std::string ControlGroup() {
  constexpr size_t kLargest = 64 << 10;
  return base::ReadSmallFile("/proc/self/cgroup", kLargest).value_or("");
}

bool IsLarger(const host::Process& a, const host::Process& b) {
  return a.memory_bytes.value_or(-1) > b.memory_bytes.value_or(-1);
}

}  // namespace

std::vector<OtherProcess> PickOthers(std::vector<host::Process> processes,
                                     const std::vector<int64_t>& gpu_users,
                                     int64_t mpsd) {
  std::stable_sort(processes.begin(), processes.end(), IsLarger);
  std::vector<OtherProcess> others;
  size_t large = 0, users = 0;
  for (const host::Process& process : processes) {
    if (process.pid == mpsd || process.parent == mpsd) continue;
    const bool uses_gpu = std::find(gpu_users.begin(), gpu_users.end(),
                                    process.pid) != gpu_users.end();
    const bool is_large =
        large < kMostOfAKind && process.memory_bytes.value_or(0) > 0;
    if (!is_large && !(uses_gpu && users < kMostOfAKind)) continue;
    large += is_large ? 1 : 0;
    users += uses_gpu ? 1 : 0;
    others.push_back(
        {process.pid, Foreign(process.name), process.memory_bytes, uses_gpu});
  }
  return others;
}

absl::StatusOr<Facts> MachineExaminer::Examine(
    bool deep, const std::function<absl::Status()>& wanted) {
  const jobs::QueueInfo queue = options_.queue();
  Facts facts;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(LookAtTorch(wanted));
    if (deep) {
      MeasureDisk();
      TestAgain(queue);
    }
    facts.worker = gates_;
    facts.disk = LookAtDisk();
  }
  facts.mpsd_version = options_.mpsd_version;
  facts.protocol_version = options_.protocol_version;
  facts.machine = LookAtMachine();
  facts.host = queue.host;
  facts.running_job = queue.running_job_id;
  facts.selftest = LookAtSelftest();
  const std::vector<host::Mount> mounts = host::ListMounts();
  facts.mounts = options_.folders;
  facts.mounts.insert(facts.mounts.begin(),
                      {"state", options_.state_dir.string(), std::nullopt});
  for (FolderMount& folder : facts.mounts) {
    folder.mount = host::MountOf(folder.folder, mounts);
  }
  facts.processes = PickOthers(
      host::ListProcesses(),
      host::ListGpuUsers().value_or(std::vector<int64_t>()), getpid());
  facts.open_descriptors = host::ReadProcessUsage().open_descriptors;
  facts.limits = host::ReadProcessLimits();
  facts.service =
      FindService(options_.places, options_.daemon_environment, ControlGroup());
  facts.stop_grace_seconds = absl::ToDoubleSeconds(options_.stop_grace);
  facts.configured = options_.configured;
  facts.daemon_environment = options_.daemon_environment;
  facts.expected_environment = options_.gates.environment;
  facts.time = clock_.Now();
  return facts;
}

absl::Status MachineExaminer::LookAtTorch(
    const std::function<absl::Status()>& wanted) {
  if (IsFresh(gates_.time)) return absl::OkStatus();
  const absl::StatusOr<supervisor::GatesRun> run =
      supervisor::RunGates(options_.gates, wanted);
  RETURN_IF_ERROR(wanted());
  if (run.ok()) {
    gates_ = ReadGates(run->output, run->status, options_.gates.limit);
  } else {
    gates_ = {};
    gates_.end = WorkerGates::End::kCrashed;
    gates_.problem = Foreign(absl::StrCat("mpsd-worker --gates cannot start: ",
                                          run.status().message()));
  }
  gates_.time = clock_.Now();
  return absl::OkStatus();
}

void MachineExaminer::MeasureDisk() {
  if (IsFresh(measured_)) return;
  const auto speed =
      mpsd::doctor::MeasureDisk({.folder = options_.state_dir,
                                 .keep_free_bytes = options_.min_free_bytes});
  measured_ = clock_.Now();
  speed_problem_.clear();
  speed_.reset();
  if (speed.ok()) {
    speed_ = *speed;
  } else {
    speed_problem_ = Foreign(std::string(speed.status().message()));
  }
}

void MachineExaminer::TestAgain(const jobs::QueueInfo& queue) {
  if (options_.tested == nullptr || !queue.running_job_id.empty() ||
      IsFresh(tested_)) {
    return;
  }
  const Selftest last = LookAtSelftest();
  const bool young = last.time && IsYounger(*last.time, options_.fresh_verdict);
  if (last.state == Selftest::State::kPassed && young) return;
  if (options_.tested->TestAgain()) tested_ = clock_.Now();
}

Selftest MachineExaminer::LookAtSelftest() const {
  Selftest test;
  if (options_.tested == nullptr) {
    test.state = Selftest::State::kSkipped;
    return test;
  }
  const supervisor::TestedLauncher::State state = options_.tested->state();
  test = ReadSelftest(options_.verdict_path);
  test.running = state.testing;
  if (state.testing) return test;
  if (state.verdict.ok()) {
    // A worker without an accelerator passes and writes no verdict.
    if (test.state != Selftest::State::kPassed) {
      test = {};
      test.state = Selftest::State::kNothingToTest;
    }
    return test;
  }
  if (test.state != Selftest::State::kFailed) {
    // For example, it crashed or could not start.
    test = {};
    test.state = Selftest::State::kFailed;
    test.summary = Foreign(std::string(state.verdict.message()));
  }
  return test;
}

Disk MachineExaminer::LookAtDisk() const {
  Disk disk;
  disk.min_free_bytes = options_.min_free_bytes;
  disk.speed = speed_;
  disk.speed_problem = speed_problem_;
  std::error_code error;
  const auto space = std::filesystem::space(options_.state_dir, error);
  if (error) return disk;
  disk.free_bytes = static_cast<int64_t>(space.available);
  disk.size_bytes = static_cast<int64_t>(space.capacity);
  return disk;
}

}  // namespace mpsd::doctor
