// SPDX-License-Identifier: Apache-2.0
#include "client/record_text.h"

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

// Collects the rows of a section.
class Section {
 public:
  explicit Section(const char* title) { section_.title = title; }

  // A row that is left out where there is no value.
  void Add(const std::string& name, const std::string& value) {
    if (!value.empty()) Tell(name, value);
  }
  // A row whose absence tells something.
  void Tell(const std::string& name, const std::string& value) {
    section_.rows.push_back({Printable(name), Printable(value)});
  }
  void AddTo(std::vector<RecordSection>& all) {
    if (!section_.rows.empty()) all.push_back(std::move(section_));
  }

 private:
  RecordSection section_;
};

template <typename Map>
void AddAll(const Map& map, const char* prefix, Section& section) {
  // A map of protobuf has no order.
  using Value = typename Map::mapped_type;
  const std::map<std::string, Value> sorted(map.begin(), map.end());
  for (const auto& [name, value] : sorted) {
    section.Add(absl::StrCat(prefix, name), absl::StrCat(value));
  }
}

std::string When(bool told, const google::protobuf::Timestamp& time,
                 absl::TimeZone zone) {
  return told ? DateTime(ToTime(time), zone) : "";
}

std::string SecondsOr(bool told, double seconds) {
  return told ? Seconds(seconds) : "";
}

std::string BytesOr(bool told, int64_t bytes) {
  return told ? Bytes(bytes) : "";
}

std::string LossOr(bool told, double loss) { return told ? Loss(loss) : ""; }

std::string CountOr(bool told, int64_t count) {
  return told ? Count(static_cast<double>(count)) : "";
}

Section DescribeRun(const v1::Record& r, absl::TimeZone zone) {
  Section section("RUN");
  section.Add("kind", RecordKindName(r));
  section.Add("name", r.name());
  if (r.kind() != v1::JOB_KIND_UNSPECIFIED) {
    section.Add("state", absl::StrCat(StateName(r.state()),
                                      r.exit_reason().empty() ? "" : ", ",
                                      r.exit_reason()));
  }
  if (r.verdict() != v1::VERDICT_UNSPECIFIED) {
    section.Add("verdict", RecordVerdict(r));
  }
  section.Add("message", r.message());
  section.Add("owner", r.owner());
  section.Add("model", r.model());
  section.Add("submitted", When(r.has_create_time(), r.create_time(), zone));
  section.Add("ended", When(r.has_end_time(), r.end_time(), zone));
  if (r.attempt_count() > 0) {
    section.Add("attempts", absl::StrCat(r.attempt_count()));
  }
  AddAll(r.labels(), "label ", section);
  section.Add("sweep", r.sweep_id());
  section.Add("request", r.request_hash());
  return section;
}

Section DescribeEnvironment(const v1::RunEnvironment& e) {
  Section section("ENVIRONMENT");
  section.Tell("torch", e.torch_version());
  section.Tell("mpsd", e.worker_version().empty() ? e.daemon_version()
                                                  : e.worker_version());
  section.Add("commit", e.daemon_commit());
  section.Tell("system", e.operating_system());
  section.Tell("processor", e.processor());
  section.Tell("device", e.device());
  section.Add("device is", e.device_description());
  section.Add("dtype", e.dtype());
  section.Add("attention", e.attention());
  section.Add("gradients", e.gradients());
  AddAll(e.variables(), "$", section);
  if (e.file_systems().empty()) section.Tell("file systems", "");
  AddAll(e.file_systems(), "file system of ", section);
  return section;
}

Section DescribeShape(const v1::Record& r) {
  const v1::RunShape& s = r.shape();
  Section section("SHAPE");
  section.Add("task", s.task());
  if (s.batch_size() > 0) {
    section.Add("batch", absl::StrCat(s.batch_size(), " rows, times ",
                                      s.gradient_accumulation_steps()));
  }
  section.Add("chosen batch",
              CountOr(s.has_chosen_batch_size(), s.chosen_batch_size()));
  section.Add("max length", CountOr(s.has_max_length(), s.max_length()));
  section.Add("parameters",
              CountOr(s.has_trainable_parameters(), s.trainable_parameters()));
  if (s.total_steps() > 0) {
    section.Add("steps", absl::StrCat(r.steps(), "/", s.total_steps()));
  }
  const v1::RunMemory& m = r.memory();
  section.Tell("peak device memory",
               BytesOr(m.has_peak_allocated_bytes(), m.peak_allocated_bytes()));
  section.Add("peak of the driver", BytesOr(m.has_peak_driver_allocated_bytes(),
                                            m.peak_driver_allocated_bytes()));
  section.Tell("worker's peak footprint",
               BytesOr(m.has_peak_footprint_bytes(), m.peak_footprint_bytes()));
  section.Add("worker's last footprint",
              BytesOr(m.has_footprint_bytes(), m.footprint_bytes()));
  section.Add("estimated memory",
              BytesOr(m.estimated_bytes() > 0, m.estimated_bytes()));
  section.Tell("CPU fallback",
               r.fallbacks().allowed() ? "allowed" : "not allowed");
  AddAll(r.fallbacks().ops(), "fallback ", section);
  return section;
}

Section DescribeData(const v1::RunData& d) {
  Section section("DATA");
  section.Add("train SHA-256", d.train_sha256());
  section.Add("eval SHA-256", d.eval_sha256());
  section.Add("rows", CountOr(d.has_rows(), d.rows()));
  section.Add("tokens", CountOr(d.has_tokens(), d.tokens()));
  for (const v1::DataFile& file : d.inputs()) {
    section.Add(absl::StrCat("input ", file.path()), file.sha256());
  }
  if (d.input_count() > d.inputs_size()) {
    section.Add("inputs", absl::StrCat(d.input_count(), ", the first ",
                                       d.inputs_size(), " shown"));
  }
  AddAll(d.model_sha256(), "model ", section);
  return section;
}

Section DescribeConditions(const v1::Record& r) {
  const v1::RunConditions& c = r.conditions();
  Section section("CONDITIONS");
  section.Tell("power", absl::StrJoin(c.power_sources(), ", "));
  if (c.has_least_battery_ratio()) {
    section.Add("least charge",
                absl::StrFormat("%.0f %%", 100 * c.least_battery_ratio()));
  }
  section.Tell("Low Power Mode", !c.has_low_power_mode() ? ""
                                 : c.low_power_mode()    ? "on"
                                                         : "off");
  section.Tell("thermal", absl::StrJoin(c.thermal_levels(), ", "));
  section.Tell("memory pressure", absl::StrJoin(c.memory_pressures(), ", "));
  section.Tell("swap",
               !c.has_most_swap_bytes()
                   ? ""
                   : absl::StrCat(Bytes(c.first_swap_bytes()), " at first, ",
                                  Bytes(c.most_swap_bytes()), " at most"));
  section.Tell("others at the machine",
               SecondsOr(c.has_user_active_seconds(), c.user_active_seconds()));
  if (c.has_gpu_utilization_ratio()) {
    section.Add("GPU in use",
                absl::StrFormat("%.0f %%", 100 * c.gpu_utilization_ratio()));
  }
  section.Add("GPU resets", CountOr(c.gpu_resets() > 0, c.gpu_resets()));
  section.Tell("round trip",
               !r.durations().has_round_trip_seconds()
                   ? ""
                   : absl::StrFormat(
                         "%.3g ms", 1000 * r.durations().round_trip_seconds()));
  if (!r.has_pauses()) {
    section.Tell("pauses", "");
    return section;
  }
  section.Tell("pauses", r.pauses().count() == 0
                             ? "none"
                             : absl::StrCat(r.pauses().count(), ", ",
                                            Seconds(r.pauses().seconds())));
  const std::map<std::string, double> reasons(
      r.pauses().seconds_by_reason().begin(),
      r.pauses().seconds_by_reason().end());
  for (const auto& [reason, seconds] : reasons) {
    section.Add(absl::StrCat("paused for ", reason), Seconds(seconds));
  }
  return section;
}

Section DescribeDurations(const v1::RunDurations& d) {
  Section section("DURATIONS");
  section.Tell("queue", SecondsOr(d.has_queue_seconds(), d.queue_seconds()));
  section.Tell("load", SecondsOr(d.has_load_seconds(), d.load_seconds()));
  section.Tell("first step",
               SecondsOr(d.has_first_step_seconds(), d.first_step_seconds()));
  section.Tell("steady step",
               !d.has_steady_step_seconds()
                   ? ""
                   : absl::StrFormat("%.3gs", d.steady_step_seconds()));
  section.Add("training", SecondsOr(d.has_train_seconds(), d.train_seconds()));
  section.Add("waiting for data",
              SecondsOr(d.has_data_wait_seconds(), d.data_wait_seconds()));
  section.Add("evaluation",
              SecondsOr(d.has_evaluation_seconds(), d.evaluation_seconds()));
  section.Add("saving", SecondsOr(d.has_save_seconds(), d.save_seconds()));
  section.Add("device", Seconds(d.device_seconds()));
  section.Add("in total", SecondsOr(d.has_total_seconds(), d.total_seconds()));
  return section;
}

Section DescribeResults(const v1::Record& r) {
  Section section("RESULTS");
  section.Add("eval loss before",
              LossOr(r.has_eval_loss_before(), r.eval_loss_before()));
  section.Add("eval loss", LossOr(r.has_eval_loss(), r.eval_loss()));
  section.Add("train loss", LossOr(r.has_train_loss(), r.train_loss()));
  const std::map<std::string, double> metrics(r.metrics().begin(),
                                              r.metrics().end());
  for (const auto& [name, value] : metrics) section.Add(name, Loss(value));
  if (r.has_best_evaluation()) {
    section.Add("best eval loss",
                absl::StrCat(Loss(r.best_evaluation().eval_loss()), " at step ",
                             r.best_evaluation().step()));
  }
  return section;
}

}  // namespace

std::vector<RecordSection> DescribeRecord(const v1::Record& record,
                                          absl::TimeZone zone) {
  std::vector<RecordSection> all;
  DescribeRun(record, zone).AddTo(all);
  // An entry that was written by hand is no run.
  if (record.kind() == v1::JOB_KIND_UNSPECIFIED) return all;
  DescribeEnvironment(record.environment()).AddTo(all);
  DescribeShape(record).AddTo(all);
  DescribeData(record.data()).AddTo(all);
  DescribeConditions(record).AddTo(all);
  DescribeDurations(record.durations()).AddTo(all);
  DescribeResults(record).AddTo(all);
  return all;
}

std::string RecordKindName(const v1::Record& record) {
  if (record.kind() == v1::JOB_KIND_UNSPECIFIED) return "note";
  constexpr size_t kPrefix = sizeof("JOB_KIND_") - 1;
  const std::string name = v1::JobKind_Name(record.kind());
  return name.size() < kPrefix ? absl::StrCat("kind ", record.kind())
                               : absl::AsciiStrToLower(name.substr(kPrefix));
}

std::string RecordTitle(const v1::Record& record) {
  if (!record.name().empty() || record.notes().empty()) return record.name();
  return record.kind() == v1::JOB_KIND_UNSPECIFIED ? record.notes(0).text()
                                                   : "";
}

std::string RecordVerdict(const v1::Record& record) {
  switch (record.verdict()) {
    case v1::VERDICT_PASS:
      return "pass";
    case v1::VERDICT_WARN:
      return "warn";
    case v1::VERDICT_FAIL:
      return "fail";
    default:
      return "-";
  }
}

}  // namespace mpsd::client
