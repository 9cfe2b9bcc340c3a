// SPDX-License-Identifier: Apache-2.0
#include "core/report/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::tensorboard {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bit-reversed

// The CRC's change by each byte.
constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    }
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return crc ^ 0xffffffff;
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

namespace {

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr int kEventTime = 1, kEventStep = 2, kEventVersion = 3,
              kEventSummary = 5, kEventSession = 7;
constexpr int kSummaryValue = 1, kValueTag = 1, kValueScalar = 2;
constexpr int kSessionStatus = 1;
constexpr uint64_t kSessionStart = 1;

// Little-endian on every machine.
template <typename T>
void AppendFixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

// Writes the fields of one protobuf message.
class Message {
 public:
  Message& Varint(int field, uint64_t value) {
    Key(field, 0);
    AppendVarint(value);
    return *this;
  }
  Message& Double(int field, double value) {
    Key(field, 1);
    AppendFixed(bytes_, std::bit_cast<uint64_t>(value));
    return *this;
  }
  Message& Bytes(int field, std::string_view value) {
    Key(field, 2);
    AppendVarint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& Float(int field, float value) {
    Key(field, 5);
    AppendFixed(bytes_, std::bit_cast<uint32_t>(value));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Key(int field, int wire_type) {
    AppendVarint(static_cast<uint64_t>(field) << 3 |
                 static_cast<uint64_t>(wire_type));
  }
  void AppendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_.push_back(static_cast<char>(value | 0x80));
    }
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

Message EventAt(absl::Time time) {
  Message event;
  event.Double(kEventTime, static_cast<double>(absl::ToUnixMicros(time)) / 1e6);
  return event;
}

Message EventAt(absl::Time time, int64_t step) {
  Message event = EventAt(time);
  // Step 0 is the default, which is omitted.
  if (step != 0) event.Varint(kEventStep, static_cast<uint64_t>(step));
  return event;
}

}  // namespace

std::string VersionEvent(absl::Time time) {
  return EventAt(time).Bytes(kEventVersion, "brain.Event:2").bytes();
}

std::string RestartEvent(absl::Time time, int64_t step) {
  return EventAt(time, step)
      .Bytes(kEventSession,
             Message().Varint(kSessionStatus, kSessionStart).bytes())
      .bytes();
}

std::string ScalarsEvent(absl::Time time, int64_t step,
                         const Scalars& scalars) {
  Message summary;
  for (const auto& [tag, value] : scalars) {
    summary.Bytes(kSummaryValue,
                  Message()
                      .Bytes(kValueTag, tag)
                      .Float(kValueScalar, static_cast<float>(value))
                      .bytes());
  }
  return EventAt(time, step).Bytes(kEventSummary, summary.bytes()).bytes();
}

std::string RecordOf(std::string_view event) {
  std::string record;
  AppendFixed(record, static_cast<uint64_t>(event.size()));
  AppendFixed(record, MaskedCrc32c(record));
  record.append(event);
  AppendFixed(record, MaskedCrc32c(event));
  return record;
}

namespace fs = std::filesystem;
namespace {

// TensorBoard reads every file whose name contains "tfevents".
constexpr char kPrefix[] = "events.out.tfevents.";
constexpr char kSuffix[] = ".mpsd";

// The number in the name of the newest event file; 0 for none.
absl::StatusOr<int64_t> NewestIn(const fs::path& folder) {
  int64_t newest = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view text = name;
    int64_t number = 0;
    if (absl::ConsumePrefix(&text, kPrefix) &&
        absl::ConsumeSuffix(&text, kSuffix) &&
        absl::SimpleAtoi(text, &number)) {
      newest = std::max(newest, number);
    }
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return newest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(
    const fs::path& folder, int64_t next_step, const base::Clock& clock) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  ASSIGN_OR_RETURN(const int64_t newest, NewestIn(folder));
  const absl::Time now = clock.Now();
  // The time as in TensorBoard's own files, but later than that of any older
  // file, even if the clock was set back.
  const int64_t number = std::max(absl::ToUnixSeconds(now), newest + 1);
  fs::path path =
      folder / absl::StrFormat("%s%010d%s", kPrefix, number, kSuffix);
  std::FILE* file = std::fopen(path.c_str(), "wxe");
  if (file == nullptr) return base::ErrnoStatus(errno, path.string());
  std::unique_ptr<EventFile> events(
      new EventFile(std::move(path), file, clock));
  events->Append(VersionEvent(now));
  if (newest > 0) events->Append(RestartEvent(now, next_step));
  return events;
}

void EventFile::Add(int64_t step, const Scalars& scalars) {
  Append(ScalarsEvent(clock_.Now(), step, scalars));
}

void EventFile::Append(std::string_view event) {
  if (waiting_.size() < kMostWaiting) waiting_ += RecordOf(event);
  while (!waiting_.empty()) {
    const ssize_t written =
        write(fileno(file_.get()), waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    waiting_.erase(0, static_cast<size_t>(written));
  }
}

namespace {

// Collects the numbers of a field list.
class Collector {
 public:
  Collector(std::string group, Scalars& out)
      : group_(std::move(group)), out_(out) {}

  void operator()(const char* name, double value) {
    const std::string_view field = name;
    out_.emplace_back(
        absl::StrCat(group_, field == "seconds" ? "step_seconds" : name),
        value);
  }
  void operator()(const char* name, int64_t value) {
    const std::string_view field = name;
    // The step is every curve's axis. The counts of tokens are those of the
    // data; their rate is a curve.
    if (field == "step" || field == "total_steps" ||
        field.ends_with("tokens")) {
      return;
    }
    (*this)(name, static_cast<double>(value));
  }
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*this)(name, *value);
  }
  void operator()(const char*, const report::MemoryCounters& value) {
    Collector memory("memory/", out_);
    Fields(memory, value, &value);
  }
  void operator()(const char*, const report::Metrics& value) {
    for (const auto& [name, number] : value) (*this)(name.c_str(), number);
  }
  // Fields that are not curves.
  void operator()(const char*, const std::string&) {}
  void operator()(const char*, const report::Counts&) {}

 private:
  const std::string group_;
  Scalars& out_;
};

}  // namespace

Scalars ScalarsOf(const report::Progress& progress) {
  Scalars scalars;
  Collector collector("train/", scalars);
  Fields(collector, progress, &progress);
  if (progress.seconds > 0) {
    scalars.emplace_back(
        "train/tokens_per_second",
        static_cast<double>(progress.tokens) / progress.seconds);
  }
  return scalars;
}

Scalars ScalarsOf(const report::Evaluated& evaluated) {
  Scalars scalars = {{"eval/loss", evaluated.eval_loss},
                     {"eval/seconds", evaluated.seconds}};
  for (const auto& [name, value] : evaluated.metrics) {
    scalars.emplace_back(absl::StrCat("eval/", name), value);
  }
  return scalars;
}

}  // namespace mpsd::tensorboard
