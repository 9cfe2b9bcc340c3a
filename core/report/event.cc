// SPDX-License-Identifier: Apache-2.0
#include "core/report/event.h"

#include <bit>

#include "core/report/crc32c.h"

namespace mpsd::tensorboard {
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

}  // namespace mpsd::tensorboard
