// SPDX-License-Identifier: Apache-2.0
#include "server/planner/service_file.h"

#include <algorithm>
#include <iterator>
#include <optional>
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
#include "core/base/file.h"
#include "server/planner/judge.h"
#include "server/planner/texts.h"

// How mpsd is started: limits, the service manager's file, the environment.

namespace mpsd::doctor {

namespace {

namespace fs = std::filesystem;

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

using runbook::Finding;

Finding DescriptorsGate(const Facts& facts,
                        const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "limits.descriptors";
  const double least = thresholds.Get("doctor.descriptors");
  if (!facts.limits.descriptors) return Pass(kName, "no limit");
  const auto limit = static_cast<double>(*facts.limits.descriptors);
  std::string found = absl::StrCat(*facts.limits.descriptors, " allowed");
  if (facts.open_descriptors) {
    absl::StrAppend(&found, ", ", *facts.open_descriptors, " open");
  }
  if (limit >= least) {
    return With(Pass(kName, found), limit, least, "descriptors");
  }
  return With(Warn(kName, found,
                   "Raise it: NumberOfFiles in the plist, LimitNOFILE in the "
                   "unit, `ulimit -n` in a shell."),
              limit, least, "descriptors");
}

Finding ProcessesGate(const Facts& facts,
                      const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "limits.processes";
  const double least = thresholds.Get("doctor.processes");
  if (!facts.limits.processes) return Pass(kName, "no limit");
  const auto limit = static_cast<double>(*facts.limits.processes);
  const std::string found =
      absl::StrCat(*facts.limits.processes, " allowed to mpsd's user");
  if (limit >= least) {
    return With(Pass(kName, found), limit, least, "processes");
  }
  return With(Warn(kName, found,
                   "Raise it: NumberOfProcesses in the plist, LimitNPROC in "
                   "the unit, `ulimit -u` in a shell."),
              limit, least, "processes");
}

Finding FileGate(const Facts& facts) {
  constexpr char kName[] = "service.file";
  const Service& service = facts.service;
  if (service.file.empty()) {
    return NotTold(kName, "none found: mpsd was started by hand");
  }
  const std::string found =
      absl::StrCat(service.manager, ", ", Foreign(service.file));
  if (!service.runs_mpsd) return Pass(kName, found);
  if (*service.runs_mpsd) return Pass(kName, found + ", which runs this mpsd");
  return Warn(kName, found + ", but this mpsd was started otherwise",
              "Two may wait for one device, and this one has the environment "
              "of a shell: stop it and start the service.");
}

Finding ProcessTypeGate(const Facts& facts) {
  constexpr char kName[] = "service.process_type";
  const std::string& type = facts.service.process_type;
  if (type == "Interactive") return Pass(kName, type);
  return Warn(kName, type.empty() ? "none" : type,
              "Set ProcessType to Interactive in the plist (deploy/install.sh "
              "does): otherwise launchd throttles processor and disk.");
}

Finding FileDescriptorsGate(const Facts& facts,
                            const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "service.descriptors";
  const double least = thresholds.Get("doctor.descriptors");
  const auto limit = facts.service.descriptors;
  if (!limit) {
    return Warn(kName, "the file sets none",
                "Run deploy/install.sh again: launchd's own limit is 256, "
                "systemd's 1024.");
  }
  const std::string found = absl::StrCat(*limit, " in the file");
  const auto figure = static_cast<double>(*limit);
  if (figure >= least) {
    return With(Pass(kName, found), figure, least, "descriptors");
  }
  return With(Warn(kName, found, "Run deploy/install.sh again."), figure, least,
              "descriptors");
}

// A worker that is killed before its checkpoint is complete loses steps.
Finding StopGate(const Facts& facts) {
  constexpr char kName[] = "service.stop_time";
  const auto seconds = facts.service.stop_seconds;
  if (!seconds) {
    return NotTold(kName, "the file sets none: the manager's own");
  }
  const std::string found =
      absl::StrCat(*seconds, " s from SIGTERM to SIGKILL; a worker gets ",
                   facts.stop_grace_seconds, " s for its checkpoint");
  // launchd's 0 waits forever.
  const bool endless = facts.service.manager == "launchd" && *seconds == 0;
  if (endless || *seconds >= facts.stop_grace_seconds) {
    return With(Pass(kName, found), *seconds, facts.stop_grace_seconds, "s");
  }
  return With(Warn(kName, found,
                   "Raise ExitTimeOut in the plist or TimeoutStopSec in the "
                   "unit above --stop-grace-seconds."),
              *seconds, facts.stop_grace_seconds, "s");
}

Finding DriftGate(const std::vector<Variable>& table, const Facts& facts) {
  constexpr char kName[] = "environment.drift";
  std::vector<std::string> drifted;
  for (const Variable& variable : table) {
    if (variable.drift.empty()) continue;
    drifted.push_back(absl::StrCat(variable.name, ": ", variable.drift));
  }
  if (!drifted.empty()) {
    return Warn(kName, absl::StrJoin(drifted, "; "),
                "Write the intended value into the plist, the unit or "
                "[environment] of mpsd.toml, and restart mpsd.");
  }
  const bool worker = facts.worker.end == WorkerGates::End::kDone;
  const bool service = facts.service.runs_mpsd.value_or(false);
  if (!worker && !service) return NotTold(kName);
  return Pass(kName,
              absl::StrCat(table.size(), " variables, ",
                           service ? "as the service's file has them"
                                   : "no service to compare with",
                           worker ? "" : "; no worker reported its own"));
}

// Variables that are harmful whatever their origin: what they name is loaded
// into mpsd or its workers, or they hide that the GPU does not do the work.
Finding HarmGate(const std::vector<Variable>& table) {
  constexpr char kName[] = "environment.harmful";
  constexpr std::string_view kHarmful[] = {"DYLD_INSERT_LIBRARIES",
                                           "LD_PRELOAD",
                                           "PYTHONPATH",
                                           "PYTHONHOME",
                                           "MTL_DEBUG_LAYER",
                                           "MTL_SHADER_VALIDATION",
                                           "LD_AUDIT",
                                           "CUDA_LAUNCH_BLOCKING"};
  std::vector<std::string> found;
  for (const Variable& variable : table) {
    const auto& value = variable.worker ? variable.worker : variable.daemon;
    if (!value || value->empty() || *value == "0") continue;
    const bool fallback = variable.name == "PYTORCH_ENABLE_MPS_FALLBACK";
    if (fallback || std::find(std::begin(kHarmful), std::end(kHarmful),
                              variable.name) != std::end(kHarmful)) {
      found.push_back(absl::StrCat(variable.name, "=", *value));
    }
  }
  if (found.empty()) return Pass(kName, "none is set");
  return Warn(kName, absl::StrJoin(found, ", "),
              "Unset them for mpsd: they load other code into it, slow the "
              "device down, or hide what runs on the processor.");
}

}  // namespace

void JudgeService(const Facts& facts, const runbook::Thresholds& thresholds,
                  Findings& findings) {
  findings.push_back(DescriptorsGate(facts, thresholds));
  findings.push_back(ProcessesGate(facts, thresholds));
  findings.push_back(FileGate(facts));
  if (!facts.service.file.empty()) {
    if (facts.service.manager == "launchd") {
      findings.push_back(ProcessTypeGate(facts));
    }
    findings.push_back(FileDescriptorsGate(facts, thresholds));
    findings.push_back(StopGate(facts));
  }
  const std::vector<Variable> table = CompareEnvironments(facts);
  findings.push_back(DriftGate(table, facts));
  findings.push_back(HarmGate(table));
}

}  // namespace mpsd::doctor
