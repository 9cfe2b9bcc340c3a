// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace mpsd::prometheus {

enum class MetricKind { kGauge, kCounter, kHistogram };

// A metric of mpsd. Names end in their unit, and counters in _total
// (prometheus.io/docs/practices/naming); renaming a metric breaks dashboards.
// The table of deploy/metrics.md is made of kMetrics.
struct Metric {
  const char* name;
  MetricKind kind;
  const char* labels;  // the names of its labels, sorted: "device, job_id"
  const char* help;
  // The field of a step (server/store/job.h) that the gauge shows; a field that
  // a step lacks leaves the gauge unset.
  const char* field = "";
};

inline constexpr Metric kMetrics[] = {
    // --- The queue.
    {"mpsd_jobs", MetricKind::kGauge, "state",
     "Jobs in the database by state."},
    {"mpsd_jobs_ended_total", MetricKind::kCounter, "state",
     "Jobs that ended while this mpsd ran, by state."},
    // A value without its own label is counted under "other".
    {"mpsd_queue_priority_jobs", MetricKind::kGauge, "priority",
     "Queued jobs by priority: the first 16 seen, the rest as other."},
    {"mpsd_queue_owner_jobs", MetricKind::kGauge, "owner",
     "Queued jobs by owner: the first 32 seen, the rest as other."},
    {"mpsd_queue_oldest_age_seconds", MetricKind::kGauge, "",
     "Time since the oldest queued job entered the queue, but for held jobs "
     "and those that wait for other jobs; 0: none waits."},
    {"mpsd_queue_eta_seconds", MetricKind::kGauge, "",
     "Training time left of all running and queued jobs together, but for held "
     "jobs and those that wait for other jobs, at the pace of each one's last "
     "step; no series while a job among them never finished a step."},
    {"mpsd_job_queue_wait_seconds", MetricKind::kHistogram, "",
     "Time from entering the queue to the start of a worker."},
    // --- Training, by device.
    {"mpsd_step_seconds", MetricKind::kHistogram, "device",
     "Wall time of one optimizer step."},
    {"mpsd_steps_total", MetricKind::kCounter, "device",
     "Optimizer steps that finished."},
    {"mpsd_tokens_total", MetricKind::kCounter, "device",
     "Non-padding tokens trained on."},
    {"mpsd_checkpoint_seconds", MetricKind::kHistogram, "device",
     "Wall time of writing one checkpoint."},
    {"mpsd_cpu_fallback_ops_total", MetricKind::kCounter, "device, op",
     "Runs on the CPU of operators that have no Metal kernel."},
    {"mpsd_phase_seconds_total", MetricKind::kCounter, "device, phase",
     "Time of workers by phase: load, train, data_wait, evaluate, save or "
     "paused; device unknown: of workers that ended before they opened one."},
    {"mpsd_job_start_seconds", MetricKind::kHistogram, "device",
     "Time from the start of a worker to the end of its first step."},
    // --- The worker; the series end with it.
    {"mpsd_job_attempt_start_timestamp_seconds", MetricKind::kGauge, "job_id",
     "When the worker of a job was started, in Unix time; no series once the "
     "worker has ended."},
    {"mpsd_device_memory_current_allocated_bytes", MetricKind::kGauge, "device",
     "Device memory held by live tensors of the worker.",
     "current_allocated_bytes"},
    {"mpsd_device_memory_peak_allocated_bytes", MetricKind::kGauge, "device",
     "Most device memory held by live tensors of the worker.",
     "peak_allocated_bytes"},
    {"mpsd_device_memory_driver_allocated_bytes", MetricKind::kGauge, "device",
     "Device memory the driver holds for the worker.",
     "driver_allocated_bytes"},
    {"mpsd_device_memory_recommended_max_bytes", MetricKind::kGauge, "device",
     "Device memory the system recommends not to exceed.",
     "recommended_max_bytes"},
    {"mpsd_worker_footprint_bytes", MetricKind::kGauge, "device",
     "Memory the system charges to the worker process.", "footprint_bytes"},
    // --- One job; the series end some time after the job.
    {"mpsd_job_info", MetricKind::kGauge, "job_id, model, name, owner, task",
     "Always 1 for a job that started; the labels say what it is."},
    {"mpsd_job_step", MetricKind::kGauge, "device, job_id",
     "Optimizer steps the job has finished.", "step"},
    {"mpsd_job_planned_steps", MetricKind::kGauge, "device, job_id",
     "Optimizer steps the job will have finished at its end.", "total_steps"},
    {"mpsd_job_epoch", MetricKind::kGauge, "device, job_id",
     "Passes over the data that the job has finished, with fractions.",
     "epoch"},
    {"mpsd_job_eta_seconds", MetricKind::kGauge, "device, job_id",
     "Time left at the last step, without evaluations and checkpoints.",
     "eta_seconds"},
    {"mpsd_job_tokens_per_second", MetricKind::kGauge, "device, job_id",
     "Non-padding tokens trained on per second (tok/s), mean of the last "
     "steps.",
     "tokens_per_second"},
    {"mpsd_job_loss", MetricKind::kGauge, "device, job_id",
     "Loss of the last step, mean over its labels.", "loss"},
    {"mpsd_job_learning_rate", MetricKind::kGauge, "device, job_id",
     "Learning rate of the last step.", "learning_rate"},
    {"mpsd_job_grad_norm", MetricKind::kGauge, "device, job_id",
     "Gradient norm of the last step before clipping.", "grad_norm"},
    // `metric`: "rewards/margins" …
    {"mpsd_job_step_metric", MetricKind::kGauge, "device, job_id, metric",
     "A metric of the last step of a job that learns preferences."},
    {"mpsd_job_padding_ratio", MetricKind::kGauge, "device, job_id",
     "Padding among the tokens of the last step.", "padding_ratio"},
    {"mpsd_job_data_wait_ratio", MetricKind::kGauge, "device, job_id",
     "Share of the last step's time spent waiting for its data.",
     "data_wait_ratio"},
    {"mpsd_job_device_utilization_ratio", MetricKind::kGauge, "device, job_id",
     "Share of time the device was busy at the last step's end, 0 to 1.",
     "device_utilization_ratio"},
    {"mpsd_job_last_step_timestamp_seconds", MetricKind::kGauge,
     "device, job_id", "When the last step finished, in Unix time."},
    {"mpsd_job_last_checkpoint_timestamp_seconds", MetricKind::kGauge,
     "device, job_id", "When the last checkpoint was written, in Unix time."},
    {"mpsd_job_eval_loss", MetricKind::kGauge, "device, job_id",
     "Loss of the last evaluation, mean over its labels."},
    // `metric`: "accuracy", "f1" …
    {"mpsd_job_eval_metric", MetricKind::kGauge, "device, job_id, metric",
     "A metric of the task in the last evaluation."},
    // --- The machine; a value that the machine does not report has no series.
    {"mpsd_host_on_battery", MetricKind::kGauge, "",
     "1 while the machine runs on battery, else 0."},
    {"mpsd_host_battery_ratio", MetricKind::kGauge, "",
     "Charge of the battery, 0 to 1."},
    {"mpsd_host_low_power_mode", MetricKind::kGauge, "",
     "1 in Low Power Mode, else 0."},
    {"mpsd_host_thermal_level", MetricKind::kGauge, "",
     "0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping."},
    {"mpsd_host_memory_pressure_level", MetricKind::kGauge, "",
     "0 normal, 1 warn, 2 critical."},
    {"mpsd_host_swap_used_bytes", MetricKind::kGauge, "",
     "Swap in use on the machine."},
    {"mpsd_host_gpu_utilization_ratio", MetricKind::kGauge, "",
     "Share of time the GPU is busy for any process, 0 to 1."},
    {"mpsd_host_gpu_resets", MetricKind::kGauge, "",
     "Times the system reset the GPU since the machine started."},
    {"mpsd_host_wired_limit_bytes", MetricKind::kGauge, "",
     "What the GPU may wire (iogpu.wired_limit_mb); 0: the system's policy."},
    {"mpsd_host_user_idle_seconds", MetricKind::kGauge, "",
     "Time since the last key or click."},
    // --- Reasons that keep jobs from training (battery, thermal,
    // memory_pressure,
    // quiet_hours, user_active) or from starting (storage, disk, machine,
    // device).
    {"mpsd_paused", MetricKind::kGauge, "reason",
     "1 while this keeps jobs from training, else 0."},
    {"mpsd_pauses_total", MetricKind::kCounter, "reason",
     "Times this began to keep jobs from training."},
    {"mpsd_paused_seconds_total", MetricKind::kCounter, "reason",
     "Time during which this kept jobs from training."},
    {"mpsd_held", MetricKind::kGauge, "reason",
     "1 while this keeps queued jobs from starting, else 0."},
    {"mpsd_holds_total", MetricKind::kCounter, "reason",
     "Times this began to keep queued jobs from starting."},
    {"mpsd_held_seconds_total", MetricKind::kCounter, "reason",
     "Time during which this kept queued jobs from starting."},
    // --- The ends of attempts. `class`: the fault (server/jobs/attempt_end.h).
    {"mpsd_worker_exits_total", MetricKind::kCounter, "class, reason",
     "Workers that ended, by reason and fault class: none, job, machine, "
     "interruption."},
    {"mpsd_job_retries_total", MetricKind::kCounter, "class, reason",
     "Times a job went back to the queue after an attempt, by the attempt's "
     "end."},
    // `result`: sent, failed, dropped.
    {"mpsd_notifications_total", MetricKind::kCounter, "result",
     "Notifications that were sent, given up or not queued."},
    // `result`: succeeded, failed, cancelled.
    {"mpsd_model_pulls_total", MetricKind::kCounter, "result",
     "Pulls of models from the hub that ended."},
    {"mpsd_model_pulls_running", MetricKind::kGauge, "",
     "Pulls of models in progress."},
    {"mpsd_model_pulled_bytes_total", MetricKind::kCounter, "",
     "Bytes of models that came from the hub."},
    // --- mpsd itself; the names of process_* are those of every client
    // library.
    {"mpsd_build_info", MetricKind::kGauge, "commit, compiler, torch, version",
     "Always 1; the labels say what was built."},
    {"process_cpu_seconds_total", MetricKind::kCounter, "",
     "CPU time of mpsd, user and system."},
    {"process_resident_memory_bytes", MetricKind::kGauge, "",
     "Resident memory of mpsd."},
    {"process_open_fds", MetricKind::kGauge, "", "Descriptors mpsd has open."},
    {"process_max_fds", MetricKind::kGauge, "", "Descriptors mpsd may open."},
    {"process_start_time_seconds", MetricKind::kGauge, "",
     "When mpsd started, in Unix time."},
    // --- The API. Methods that do not exist are counted under "unknown".
    {"mpsd_rpc_requests_total", MetricKind::kCounter, "code, method",
     "RPCs that ended, by the status that the client received."},
    {"mpsd_rpc_seconds", MetricKind::kHistogram, "method",
     "Wall time of unary RPCs, from arrival to end."},
    {"mpsd_rpc_open_streams", MetricKind::kGauge, "method",
     "Streaming RPCs that are open now."},
    // --- The state folder; a measurement that is some minutes old has no
    // series.
    {"mpsd_database_commit_seconds", MetricKind::kHistogram, "",
     "Wall time of one commit of the database."},
    {"mpsd_state_disk_free_bytes", MetricKind::kGauge, "",
     "Bytes that mpsd can still write to the disk of its state folder."},
    {"mpsd_state_disk_size_bytes", MetricKind::kGauge, "",
     "Size of the disk of the state folder."},
    // `kind`: server/state_dir.h.
    {"mpsd_state_bytes", MetricKind::kGauge, "kind",
     "Disk space of the files in the state folder, links not followed."},
    {"mpsd_state_budget_bytes", MetricKind::kGauge, "",
     "Budget of the state folder; no series: it has no budget."},
    // `kind`: job, checkpoints, blob, partial_upload, leftover.
    {"mpsd_collected_total", MetricKind::kCounter, "kind",
     "What retention removed: jobs that had ended, their checkpoints, unused "
     "uploads."},
    {"mpsd_collected_bytes_total", MetricKind::kCounter, "kind",
     "Bytes that retention freed on the state folder's disk."},
    // --- The device's self-test.
    {"mpsd_selftest_timestamp_seconds", MetricKind::kGauge, "device",
     "When the device's self-test last passed, in Unix time."},
    // --- What serves the API and the metrics.
    {"mpsd_certificate_expiry_timestamp_seconds", MetricKind::kGauge, "",
     "When the certificate of the API's ports ends, in Unix time."},
    {"mpsd_metrics_certificate_expiry_timestamp_seconds", MetricKind::kGauge,
     "", "When the certificate of the metrics address ends, in Unix time."},
};

// A metric of the table, by its name. A name without a row does not compile.
class Named {
 public:
  // A name converts to its metric where one is needed, and that to its row.
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval Named(const char* name) : metric_(RowOf(name)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator const Metric&() const { return *metric_; }

  const Metric* operator->() const { return metric_; }

 private:
  static consteval const Metric* RowOf(std::string_view name) {
    for (const Metric& metric : kMetrics) {
      if (metric.name == name) return &metric;
    }
    throw "kMetrics has no row of this name";
  }

  const Metric* metric_;
};

}  // namespace mpsd::prometheus
