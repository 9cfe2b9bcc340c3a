// SPDX-License-Identifier: Apache-2.0
#include "client/text/format.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/certificates.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace mpsd::client {
namespace {

// The UTF-8 character that begins at `*at`, which advances past it.
char32_t Take(const std::string& text, size_t* at) {
  const auto lead = static_cast<unsigned char>(text[(*at)++]);
  char32_t c = lead < 0xC0   ? lead
               : lead < 0xE0 ? lead & 0x1F
               : lead < 0xF0 ? lead & 0x0F
                             : lead & 0x07;
  for (; *at < text.size() && (text[*at] & 0xC0) == 0x80; ++*at) {
    c = c << 6 | (text[*at] & 0x3F);
  }
  return c;
}

// The first and last of the characters that a terminal draws two columns wide:
// East Asian ones and pictures.
constexpr std::pair<char32_t, char32_t> kWide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
    {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x1B2FF}, {0x1F000, 0x1FAFF}, {0x20000, 0x3FFFD}};

int Columns(char32_t c) {
  for (const auto& [first, last] : kWide) {
    if (c >= first && c <= last) return 2;
  }
  return 1;
}

}  // namespace

std::string StateName(v1::JobState state) {
  const std::string name(v1::JobState_Name(state));
  constexpr size_t kPrefix = sizeof("JOB_STATE_") - 1;
  return name.size() > kPrefix ? name.substr(kPrefix) : "?";
}

std::string ShownState(const v1::Job& job) {
  const bool pauses =
      job.state() == v1::JOB_STATE_RUNNING && job.pause().held();
  return pauses ? "PAUSED" : StateName(job.state());
}

bool IsFinal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

std::string ShortJobId(const std::string& id) {
  constexpr size_t kShown = 8;
  return id.substr(id.size() - std::min(id.size(), kShown));
}

std::string AheadText(const v1::Job& job) {
  if (job.queue_position() <= 0) return "";
  return absl::StrCat(", ", job.queue_position(), " ahead of it");
}

std::string KindName(v1::JobKind kind) {
  if (!IsStudy(kind)) return "training";
  constexpr size_t kPrefix = sizeof("JOB_KIND_") - 1;
  const std::string name(v1::JobKind_Name(kind));
  if (name.size() <= kPrefix) return absl::StrFormat("kind %d", kind);
  return absl::StrReplaceAll(absl::AsciiStrToLower(name.substr(kPrefix)),
                             {{"_", " "}});
}

bool IsStudy(v1::JobKind kind) {
  return kind != v1::JOB_KIND_UNSPECIFIED && kind != v1::JOB_KIND_TRAINING;
}

std::string Seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  const int64_t s = std::llround(seconds);
  if (s < 60) return absl::StrFormat("%ds", s);
  if (s < 3600) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  if (s < 86400) return absl::StrFormat("%dh%02dm", s / 3600, s / 60 % 60);
  return absl::StrFormat("%dd%02dh", s / 86400, s / 3600 % 24);
}

std::string Seconds(absl::Duration time) {
  return Seconds(absl::ToDoubleSeconds(time));
}

std::string Count(double value) {
  if (!std::isfinite(value)) return "-";
  std::string digits = absl::StrFormat("%d", std::llround(std::abs(value)));
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(i, 1, ',');
  }
  return value < 0 ? "-" + digits : digits;
}

std::string CountOf(int64_t count, const std::string& what) {
  return absl::StrCat(Count(static_cast<double>(count)), " ", what,
                      count == 1 ? "" : "s");
}

std::string Percent(double ratio, int decimals, const char* unit) {
  return absl::StrFormat("%.*f%s", decimals, 100 * ratio, unit);
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string Loss(double value) { return absl::StrFormat("%.4f", value); }

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

std::string DateTime(absl::Time time, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, zone);
}

std::string DateTime(const google::protobuf::Timestamp& time,
                     absl::TimeZone zone) {
  return DateTime(ToTime(time), zone);
}

int Width(const std::string& text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) width += Columns(Take(text, &at));
  return width;
}

std::string Cut(const std::string& text, int columns) {
  if (columns <= 0) return "";
  if (Width(text) <= columns) return text;
  size_t end = 0;
  int width = 1;  // the "…"
  for (size_t at = 0; at < text.size(); end = at) {
    width += Columns(Take(text, &at));
    if (width > columns) break;
  }
  return text.substr(0, end) + "…";
}

std::string Fitted(const std::string& text, int columns, bool utf8) {
  const std::string clean = Printable(text);
  if (utf8) return Cut(clean, columns);
  std::string ascii;
  for (size_t at = 0; at < clean.size();) {
    const char32_t c = Take(clean, &at);
    ascii += c < 0x80 ? static_cast<char>(c) : '?';
  }
  return ascii.substr(0, std::max(columns, 0));
}

std::string Printable(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  return base::Printable(text);
}

std::string PrintableLines(const std::string& text) {
  return base::Indented(base::Printable(text, base::Breaks::kKeep));
}

namespace {

constexpr int kLongestBar = 30;
constexpr int kShortestBar = 6;

constexpr int kLevels = 8;
constexpr const char* kBlocks[kLevels] = {"▁", "▂", "▃", "▄",
                                          "▅", "▆", "▇", "█"};
constexpr const char* kPlain[kLevels] = {"_", ".", ":", "-",
                                         "=", "+", "*", "#"};

std::string Repeat(const char* mark, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += mark;
  return text;
}

}  // namespace

std::string Bar(int64_t done, int64_t total, const std::string& text,
                int columns, bool utf8) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / total, 0.0, 1.0) : 0;
  const std::string percent =
      absl::StrFormat("%3d%% ", static_cast<int>(share * 100));
  const int room = columns - Width(percent) - 1 - Width(text);
  const int length = std::min(room, kLongestBar);
  if (length < kShortestBar) return Fitted(percent + text, columns, utf8);
  const int full = static_cast<int>(share * length);
  return absl::StrCat(percent, Repeat(utf8 ? "━" : "#", full),
                      Repeat(utf8 ? "─" : "-", length - full), " ", text);
}

std::string Sparkline(const std::vector<double>& values, int columns,
                      bool utf8) {
  const size_t shown =
      std::min(values.size(), static_cast<size_t>(std::max(columns, 0)));
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(shown);
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (auto it = begin; it != values.end(); ++it) {
    if (!std::isfinite(*it)) continue;
    least = std::min(least, *it);
    greatest = std::max(greatest, *it);
  }
  std::string text;
  for (auto it = begin; it != values.end(); ++it) {
    if (!std::isfinite(*it)) {
      text += ' ';
      continue;
    }
    // Halves, because the whole range may be more than a double holds.
    const double share =
        least < greatest ? (*it / 2 - least / 2) / (greatest / 2 - least / 2)
                         : 0.5;
    const int level =
        std::clamp(static_cast<int>(std::nearbyint(share * (kLevels - 1))), 0,
                   kLevels - 1);
    text += utf8 ? kBlocks[level] : kPlain[level];
  }
  return text;
}

namespace {

std::string Text(std::string text) {
  text = base::Printable(text, base::Breaks::kKeep);
  constexpr std::string_view kFormula = "=+-@\t";
  const bool is_formula =
      !text.empty() && kFormula.find(text[0]) != std::string_view::npos;
  return is_formula ? "'" + text : text;
}

std::string Field(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  std::string text =
      value.is_string()
          ? Text(value.get<std::string>())
          : value.dump(-1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

std::string CsvLine(const std::vector<nlohmann::ordered_json>& values) {
  std::string line;
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : ",", Field(values[i]));
  }
  return line + "\r\n";
}

std::string ResumeText(const v1::Job& job) {
  // An older daemon's job.
  if (!job.has_checkpoint_step()) return "resumes from its last checkpoint";
  if (job.checkpoint_step() == 0) {
    return "starts from step 0: it has no checkpoint";
  }
  std::string text = absl::StrCat("resumes from step ", job.checkpoint_step());
  if (job.progress().total_steps() > 0) {
    absl::StrAppend(&text, " of ", job.progress().total_steps());
  }
  return text;
}

std::string AdviceAfterFailure(const v1::Job& job) {
  const std::string& reason = job.exit_reason();
  const std::string clone = absl::StrCat("`mpsctl clone ", job.id(), " --set ");
  if (reason == "Rejected") {
    if (job.kind() == v1::JOB_KIND_DEVICE_COMPARISON) return "";
    return absl::StrCat("Correct the data or job.json, and submit it again; ",
                        clone, "FIELD=VALUE` changes a field.");
  }
  if (reason == "OutOfMemory") {
    return absl::StrCat("Submit it with less memory: ", clone,
                        "training.per_device_train_batch_size=N`.");
  }
  if (reason == "NonFinite") {
    return absl::StrCat("Submit it with a lower rate: ", clone,
                        "training.learning_rate=RATE`.");
  }
  const std::string retry =
      absl::StrCat("`mpsctl retry ", job.id(), "` ", ResumeText(job), ".");
  return reason == "TimeLimit"
             ? "Once an admin has raised the limit of its hours, " + retry
             : retry;
}

Table::Table(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(std::move(cell));
  base::CheckAtMost(cells.size(), rows_[0].size(), "cells and columns");
  rows_.push_back(std::move(cells));
}

std::vector<int> Table::Widths() const {
  std::vector<int> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  return widths;
}

void Table::PrintNumbers(std::ostream& out) const {
  const std::vector<int> widths = Widths();
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - Width(row[i]), ' ');
      out << "  " << (i == 0 ? row[i] + gap : gap + row[i]);
    }
    out << '\n';
  }
}

void Table::Print(std::ostream& out, int columns) const {
  const std::vector<int> widths = Widths();
  // Below this a terminal breaks the lines instead.
  constexpr int kLeast = 16;  // columns of the last one
  int least = kLeast;
  for (size_t i = 0; i + 1 < widths.size(); ++i) least += widths[i] + 2;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 == row.size()) break;
      line.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    out << (columns > 0 ? Cut(line, std::max(columns, least)) : line) << '\n';
  }
}

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;
using Json = nlohmann::ordered_json;

// QUEUED for JOB_STATE_QUEUED of the enum JobState.
Json PlainName(const EnumValueDescriptor& value) {
  std::string prefix;
  for (char c : std::string(value.type()->name())) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  prefix += '_';
  const absl::string_view name = value.name();
  if (name == prefix + "UNSPECIFIED") return nullptr;
  return std::string(absl::StripPrefix(name, prefix));
}

Json TimeText(const Timestamp& time) {
  const absl::Time t =
      absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", t, absl::UTCTimeZone());
}

Json OfMessage(const Message& message) {
  const auto* time = dynamic_cast<const Timestamp*>(&message);
  return time == nullptr ? ToJson(message) : TimeText(*time);
}

// The value of a field, or the one at `at` of a list.
Json ValueAt(const Message& m, const FieldDescriptor& field, int at = 0) {
  const Reflection& get = *m.GetReflection();
  const bool listed = field.is_repeated();
  switch (field.cpp_type()) {
#define MPSD_VALUE(TYPE, Type)                           \
  case FieldDescriptor::CPPTYPE_##TYPE:                  \
    return listed ? get.GetRepeated##Type(m, &field, at) \
                  : get.Get##Type(m, &field);
    MPSD_VALUE(INT32, Int32)
    MPSD_VALUE(INT64, Int64)
    MPSD_VALUE(UINT32, UInt32)
    MPSD_VALUE(UINT64, UInt64)
    MPSD_VALUE(DOUBLE, Double)
    MPSD_VALUE(FLOAT, Float)
    MPSD_VALUE(BOOL, Bool)
    MPSD_VALUE(STRING, String)
#undef MPSD_VALUE
    case FieldDescriptor::CPPTYPE_ENUM:
      return PlainName(listed ? *get.GetRepeatedEnum(m, &field, at)
                              : *get.GetEnum(m, &field));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return OfMessage(listed ? get.GetRepeatedMessage(m, &field, at)
                              : get.GetMessage(m, &field));
  }
  return nullptr;
}

// The API's maps have string keys. Sorted, because protobuf's order is random.
Json Map(const Message& m, const FieldDescriptor& field) {
  nlohmann::json object = nlohmann::json::object();
  const Reflection& get = *m.GetReflection();
  for (int i = 0; i < get.FieldSize(m, &field); ++i) {
    const Message& entry = get.GetRepeatedMessage(m, &field, i);
    const Descriptor& type = *entry.GetDescriptor();
    object[ValueAt(entry, *type.map_key()).get<std::string>()] =
        ValueAt(entry, *type.map_value());
  }
  return Json(object);
}

Json List(const Message& m, const FieldDescriptor& field) {
  Json array = Json::array();
  const Reflection& get = *m.GetReflection();
  for (int i = 0; i < get.FieldSize(m, &field); ++i) {
    array.push_back(ValueAt(m, field, i));
  }
  return array;
}

void Put(const Message& m, const FieldDescriptor& field, Json& object) {
  // A std::string& here, a view in newer versions of Protocol Buffers.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::string name(field.name());
  if (field.is_map()) {
    object[name] = Map(m, field);
  } else if (field.is_repeated()) {
    object[name] = List(m, field);
  } else if (field.has_presence() && !m.GetReflection()->HasField(m, &field)) {
    if (field.real_containing_oneof() == nullptr) object[name] = nullptr;
  } else if (absl::EndsWith(name, "_json")) {
    const std::string text = m.GetReflection()->GetString(m, &field);
    Json parsed = base::ParseTree<Json>(text);
    object[name.substr(0, name.size() - 5)] =
        parsed.is_discarded() ? Json(nullptr) : parsed;
  } else {
    object[name] = ValueAt(m, field);
  }
}

}  // namespace

std::string ProtoJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  // Only a time beyond the year 9999 has no JSON.
  return status.ok() ? text : "{}";
}

std::vector<std::string> ValueNames(
    const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    const Json name = PlainName(*type.value(i));
    if (name.is_string()) names.push_back(name);
  }
  return names;
}

Json ToJson(const Message& message) {
  Json object = Json::object();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    Put(message, *type.field(i), object);
  }
  return object;
}

namespace {

// Certificates with fewer days are worth a warning.
constexpr int64_t kFewDays = 14;

std::string Until(absl::Time expiry, absl::Time now) {
  return absl::StrCat("until ",
                      absl::FormatTime("%Y-%m-%d", expiry, absl::UTCTimeZone()),
                      " (", DaysText(expiry - now), ")");
}

std::string WayText(const v1::WhoAmIResponse& who, absl::Time now) {
  switch (who.way()) {
    case v1::WAY_SOCKET:
      return "by the socket";
    case v1::WAY_PAGE:
      return "by the web page";
    case v1::WAY_TOKEN:
      break;
    default:
      return "in a way this mpsctl does not know";
  }
  const v1::Token& token = who.token();
  return absl::StrCat("by token ", Printable(token.id()),
                      token.has_expire_time()
                          ? " " + Until(ToTime(token.expire_time()), now)
                          : ", which never expires");
}

}  // namespace

std::string DaysText(absl::Duration left) {
  left = absl::Ceil(left, absl::Minutes(1));
  if (left >= absl::Hours(48)) {
    return absl::StrCat((left + absl::Hours(12)) / absl::Hours(24), " days");
  }
  const int64_t minutes = left / absl::Minutes(1);
  return absl::StrFormat("%dh%02dm", minutes / 60, minutes % 60);
}

std::string RoleName(v1::Role role) {
  const std::string name = v1::Role_Name(role);
  return name.empty() ? absl::StrCat("role ", static_cast<int>(role))
                      : absl::AsciiStrToLower(name.substr(5));
}

std::string IdentityText(const v1::WhoAmIResponse& who, absl::Time now) {
  return absl::StrCat(who.user().empty() ? "-" : Printable(who.user()), ", ",
                      RoleName(who.role()), ", ", WayText(who, now));
}

std::string CertificateText(absl::Time expiry, absl::Time now) {
  const int64_t days = certificates::DaysLeft(expiry, now);
  if (days < 0) {
    return absl::StrCat(
        "EXPIRED on ",
        absl::FormatTime("%Y-%m-%d", expiry, absl::UTCTimeZone()),
        ": its admin renews it with `mpsd tls renew`");
  }
  const std::string text = Until(expiry, now);
  return days < kFewDays
             ? absl::StrCat(text, ": have its admin run `mpsd tls renew` SOON")
             : text;
}

namespace {

constexpr absl::Duration kIdle = absl::Minutes(1);

// "heavy" for THERMAL_LEVEL_HEAVY.
std::string Level(const std::string& name) {
  return absl::AsciiStrToLower(name.substr(name.rfind('_') + 1));
}

const char* Words(int reason) {
  switch (reason) {
    case v1::PAUSE_REASON_BATTERY:
      return "on battery or in Low Power Mode";
    case v1::PAUSE_REASON_THERMAL:
      return "too hot";
    case v1::PAUSE_REASON_MEMORY_PRESSURE:
      return "short of memory";
    case v1::PAUSE_REASON_QUIET_HOURS:
      return "quiet hours";
    case v1::PAUSE_REASON_USER_ACTIVE:
      return "the machine is in use";
    default:
      return "a reason this mpsctl does not know";
  }
}

void Add(std::string& text, const std::string& part) {
  absl::StrAppend(&text, text.empty() ? "" : ", ", part);
}

std::string PowerText(const v1::HostReading& host) {
  std::string text;
  if (host.has_on_battery()) text = host.on_battery() ? "battery" : "mains";
  if (host.has_battery_ratio()) {
    absl::StrAppend(&text, text.empty() ? "battery " : " ",
                    Percent(host.battery_ratio(), 0, "%"));
  }
  if (host.low_power_mode()) Add(text, "Low Power Mode");
  return text;
}

}  // namespace

std::string HostText(const v1::HostReading& host) {
  std::string text = PowerText(host);
  if (host.thermal_level() != v1::THERMAL_LEVEL_UNSPECIFIED) {
    Add(text, "heat " + Level(v1::ThermalLevel_Name(host.thermal_level())));
  }
  if (host.memory_pressure() != v1::MEMORY_PRESSURE_UNSPECIFIED) {
    Add(text, "memory pressure " +
                  Level(v1::MemoryPressure_Name(host.memory_pressure())));
  }
  if (host.has_swap_used_bytes()) {
    Add(text, base::BytesText(host.swap_used_bytes()) + " swap");
  }
  if (host.has_gpu_utilization_ratio()) {
    Add(text, "GPU busy " + Percent(host.gpu_utilization_ratio(), 0, "%"));
  }
  if (host.gpu_resets() > 0) {
    Add(text, absl::StrCat(host.gpu_resets(), " GPU resets"));
  }
  if (host.wired_limit_bytes() > 0) {
    Add(text, "GPU may wire " + base::BytesText(host.wired_limit_bytes()));
  }
  if (absl::Seconds(host.user_idle_seconds()) >= kIdle) {
    Add(text, "idle for " + Seconds(host.user_idle_seconds()));
  }
  return text;
}

std::string PauseReasonText(const v1::Pause& pause) {
  std::string reasons;
  for (int reason : pause.reasons()) Add(reasons, Words(reason));
  return reasons;
}

std::string PauseText(const v1::Pause& pause, absl::Time now) {
  if (pause.reasons().empty()) return "";
  const std::string reasons = PauseReasonText(pause);
  if (!pause.has_since()) return "paused: " + reasons;
  if (!pause.held()) return "pausing: " + reasons;
  return absl::StrCat("PAUSED for ", Seconds(now - ToTime(pause.since())), ": ",
                      reasons);
}

std::string StatusText(const v1::Job& job, absl::Time now, absl::TimeZone zone,
                       const std::string& running_eta) {
  const bool runs = job.state() == v1::JOB_STATE_RUNNING;
  const int place = job.queue_position();
  std::string text = runs ? PauseText(job.pause(), now) : "";
  if (text.empty()) text = StateName(job.state());
  if (job.past()) Add(text, "deleted");
  if (job.cancel_requested() && !IsFinal(job.state())) Add(text, "cancelling");
  if (job.has_queue_position()) {
    Add(text, place == 0 ? "next" : absl::StrCat(place, " ahead of it"));
  }
  if (job.state() == v1::JOB_STATE_QUEUED && job.has_not_before()) {
    Add(text, "not before " + DateTime(job.not_before(), zone));
  }
  if (!runs && job.has_pause()) {
    Add(text, "paused: " + PauseReasonText(job.pause()));
  }
  if (job.held() || !job.hold().empty()) {
    Add(text, !job.held() ? job.hold()
                          : absl::StrCat("held", job.hold().empty() ? "" : ": ",
                                         job.hold()));
  } else if (job.has_queue_position() && !running_eta.empty()) {
    Add(text,
        (place == 0 ? "starts in about " : "the running job ends in about ") +
            running_eta);
  }
  return text;
}

std::string TookText(const v1::Job& job) {
  if (!job.has_end_time()) return "";
  const absl::Time end = ToTime(job.end_time());
  std::string text = Seconds(end - ToTime(job.create_time())) + " in total";
  if (job.attempt() > 1) {
    Add(text, absl::StrCat(Seconds(end - ToTime(job.start_time())),
                           " in the last of ", job.attempt(), " attempts"));
  }
  return text;
}

std::string MemoryText(const v1::DeviceMemory& memory) {
  std::string text;
  const Json json = ToJson(memory);
  for (const auto& [field, bytes] : json.items()) {
    if (bytes.is_null()) continue;
    Add(text,
        absl::StrCat(base::BytesText(bytes.get<int64_t>()), " ",
                     absl::StrReplaceAll(field, {{"recommended_max", "limit"},
                                                 {"_allocated", ""},
                                                 {"_bytes", ""},
                                                 {"_", " "}})));
  }
  return text;
}

std::string FallbackText(const v1::Progress& progress) {
  const std::map<std::string, int64_t> sorted(
      progress.cpu_fallback_ops().begin(), progress.cpu_fallback_ops().end());
  std::string text;
  for (const auto& [op, count] : sorted) {
    Add(text, absl::StrCat(Printable(op), " ", count,
                           count == 1 ? " time" : " times"));
  }
  return text;
}

}  // namespace mpsd::client
