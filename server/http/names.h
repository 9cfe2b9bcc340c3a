// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_NAMES_H_
#define MPSD_SERVER_HTTP_NAMES_H_

namespace mpsd::prometheus {

enum class MetricKind { kGauge, kCounter, kHistogram };

// Every metric of mpsd. Names end in their unit, and counters in _total
// (prometheus.io/docs/practices/naming); renaming a metric breaks dashboards.
// The table of deploy/metrics.md is made from these.
struct Metric {
  const char* name;
  MetricKind kind;
  const char* labels;  // the names of its labels, sorted: "device, job_id"
  const char* help;
};

// The gauge for a field of a step (server/jobs/job.h). A field that a
// step lacks leaves the gauge unset.
struct FieldGauge {
  const char* field;
  Metric metric;
};

// --- The queue.
inline constexpr Metric kJobs{"mpsd_jobs", MetricKind::kGauge, "state",
                              "Jobs in the database by state."};
inline constexpr Metric kJobsEnded{
    "mpsd_jobs_ended_total", MetricKind::kCounter, "state",
    "Jobs that ended while this mpsd ran, by state."};
// A value without its own label is counted under "other".
inline constexpr Metric kQueuedByPriority{
    "mpsd_queue_priority_jobs", MetricKind::kGauge, "priority",
    "Queued jobs by priority: the first 16 seen, the rest as other."};
inline constexpr Metric kQueuedByOwner{
    "mpsd_queue_owner_jobs", MetricKind::kGauge, "owner",
    "Queued jobs by owner: the first 32 seen, the rest as other."};
inline constexpr Metric kQueueOldest{
    "mpsd_queue_oldest_age_seconds", MetricKind::kGauge, "",
    "Time since the oldest queued job entered the queue, but for held jobs and "
    "those that wait for other jobs; 0: none waits."};
inline constexpr Metric kQueueEta{
    "mpsd_queue_eta_seconds", MetricKind::kGauge, "",
    "Training time left of all running and queued jobs together, but for held "
    "jobs and those that wait for other jobs, at the pace of each one's last "
    "step; no series while a job among them never finished a step."};
inline constexpr Metric kQueueWait{
    "mpsd_job_queue_wait_seconds", MetricKind::kHistogram, "",
    "Time from entering the queue to the start of a worker."};

// --- Training, by device.
inline constexpr Metric kStep{"mpsd_step_seconds", MetricKind::kHistogram,
                              "device", "Wall time of one optimizer step."};
inline constexpr Metric kSteps{"mpsd_steps_total", MetricKind::kCounter,
                               "device", "Optimizer steps that finished."};
inline constexpr Metric kTokens{"mpsd_tokens_total", MetricKind::kCounter,
                                "device", "Non-padding tokens trained on."};
inline constexpr Metric kCheckpoint{"mpsd_checkpoint_seconds",
                                    MetricKind::kHistogram, "device",
                                    "Wall time of writing one checkpoint."};
inline constexpr Metric kCpuFallbacks{
    "mpsd_cpu_fallback_ops_total", MetricKind::kCounter, "device, op",
    "Runs on the CPU of operators that have no Metal kernel."};

inline constexpr Metric kPhaseSeconds{
    "mpsd_phase_seconds_total", MetricKind::kCounter, "device, phase",
    "Time of workers by phase: load, train, data_wait, evaluate, save or "
    "paused; device unknown: of workers that ended before they opened one."};
inline constexpr Metric kJobStart{
    "mpsd_job_start_seconds", MetricKind::kHistogram, "device",
    "Time from the start of a worker to the end of its first step."};

// --- The worker; the series end with it.
inline constexpr Metric kAttemptStart{
    "mpsd_job_attempt_start_timestamp_seconds", MetricKind::kGauge, "job_id",
    "When the worker of a job was started, in Unix time; no series once the "
    "worker has ended."};
inline constexpr FieldGauge kMemoryGauges[] = {
    {"current_allocated_bytes",
     {"mpsd_device_memory_current_allocated_bytes", MetricKind::kGauge,
      "device", "Device memory held by live tensors of the worker."}},
    {"peak_allocated_bytes",
     {"mpsd_device_memory_peak_allocated_bytes", MetricKind::kGauge, "device",
      "Most device memory held by live tensors of the worker."}},
    {"driver_allocated_bytes",
     {"mpsd_device_memory_driver_allocated_bytes", MetricKind::kGauge, "device",
      "Device memory the driver holds for the worker."}},
    {"recommended_max_bytes",
     {"mpsd_device_memory_recommended_max_bytes", MetricKind::kGauge, "device",
      "Device memory the system recommends not to exceed."}},
    {"footprint_bytes",
     {"mpsd_worker_footprint_bytes", MetricKind::kGauge, "device",
      "Memory the system charges to the worker process."}},
};

// --- One job; the series end some time after the job.
inline constexpr Metric kJobInfo{
    "mpsd_job_info", MetricKind::kGauge, "job_id, model, name, owner, task",
    "Always 1 for a job that started; the labels say what it is."};
inline constexpr FieldGauge kStepGauges[] = {
    {"step",
     {"mpsd_job_step", MetricKind::kGauge, "device, job_id",
      "Optimizer steps the job has finished."}},
    {"total_steps",
     {"mpsd_job_planned_steps", MetricKind::kGauge, "device, job_id",
      "Optimizer steps the job will have finished at its end."}},
    {"epoch",
     {"mpsd_job_epoch", MetricKind::kGauge, "device, job_id",
      "Passes over the data that the job has finished, with fractions."}},
    {"eta_seconds",
     {"mpsd_job_eta_seconds", MetricKind::kGauge, "device, job_id",
      "Time left at the last step, without evaluations and checkpoints."}},
    {"tokens_per_second",
     {"mpsd_job_tokens_per_second", MetricKind::kGauge, "device, job_id",
      "Non-padding tokens trained on a second, mean of the last steps."}},
    {"loss",
     {"mpsd_job_loss", MetricKind::kGauge, "device, job_id",
      "Loss of the last step, mean over its labels."}},
    {"learning_rate",
     {"mpsd_job_learning_rate", MetricKind::kGauge, "device, job_id",
      "Learning rate of the last step."}},
    {"grad_norm",
     {"mpsd_job_grad_norm", MetricKind::kGauge, "device, job_id",
      "Gradient norm of the last step before clipping."}},
    {"padding_ratio",
     {"mpsd_job_padding_ratio", MetricKind::kGauge, "device, job_id",
      "Padding among the tokens of the last step."}},
    {"data_wait_ratio",
     {"mpsd_job_data_wait_ratio", MetricKind::kGauge, "device, job_id",
      "Share of the last step's time spent waiting for its data."}},
    {"device_utilization_ratio",
     {"mpsd_job_device_utilization_ratio", MetricKind::kGauge, "device, job_id",
      "Share of time the device was busy at the last step's end, 0 to 1."}},
};
inline constexpr Metric kLastStep{"mpsd_job_last_step_timestamp_seconds",
                                  MetricKind::kGauge, "device, job_id",
                                  "When the last step finished, in Unix time."};
inline constexpr Metric kLastCheckpoint{
    "mpsd_job_last_checkpoint_timestamp_seconds", MetricKind::kGauge,
    "device, job_id", "When the last checkpoint was written, in Unix time."};
inline constexpr Metric kEvalLoss{
    "mpsd_job_eval_loss", MetricKind::kGauge, "device, job_id",
    "Loss of the last evaluation, mean over its labels."};
// `metric`: "accuracy", "f1" …
inline constexpr Metric kEvalMetric{
    "mpsd_job_eval_metric", MetricKind::kGauge, "device, job_id, metric",
    "A metric of the task in the last evaluation."};

// --- The machine; a value that the machine does not report has no series.
inline constexpr Metric kHostOnBattery{
    "mpsd_host_on_battery", MetricKind::kGauge, "",
    "1 while the machine runs on battery, else 0."};
inline constexpr Metric kHostBattery{"mpsd_host_battery_ratio",
                                     MetricKind::kGauge, "",
                                     "Charge of the battery, 0 to 1."};
inline constexpr Metric kHostLowPower{"mpsd_host_low_power_mode",
                                      MetricKind::kGauge, "",
                                      "1 in Low Power Mode, else 0."};
inline constexpr Metric kHostThermal{
    "mpsd_host_thermal_level", MetricKind::kGauge, "",
    "0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping."};
inline constexpr Metric kHostMemoryPressure{"mpsd_host_memory_pressure_level",
                                            MetricKind::kGauge, "",
                                            "0 normal, 1 warn, 2 critical."};
inline constexpr Metric kHostSwap{"mpsd_host_swap_used_bytes",
                                  MetricKind::kGauge, "",
                                  "Swap in use on the machine."};
inline constexpr Metric kHostGpu{
    "mpsd_host_gpu_utilization_ratio", MetricKind::kGauge, "",
    "Share of time the GPU is busy for any process, 0 to 1."};
inline constexpr Metric kHostGpuResets{
    "mpsd_host_gpu_resets", MetricKind::kGauge, "",
    "Times the system reset the GPU since the machine started."};
inline constexpr Metric kHostWiredLimit{
    "mpsd_host_wired_limit_bytes", MetricKind::kGauge, "",
    "What the GPU may wire (iogpu.wired_limit_mb); 0: the system's policy."};
inline constexpr Metric kHostUserIdle{"mpsd_host_user_idle_seconds",
                                      MetricKind::kGauge, "",
                                      "Time since the last key or click."};

// --- Reasons that keep jobs from training (battery, thermal, memory_pressure,
// quiet_hours, user_active) or from starting (storage, disk, machine, device).
inline constexpr Metric kPaused{
    "mpsd_paused", MetricKind::kGauge, "reason",
    "1 while this keeps jobs from training, else 0."};
inline constexpr Metric kPauses{"mpsd_pauses_total", MetricKind::kCounter,
                                "reason",
                                "Times this began to keep jobs from training."};
inline constexpr Metric kPausedSeconds{
    "mpsd_paused_seconds_total", MetricKind::kCounter, "reason",
    "Time during which this kept jobs from training."};
inline constexpr Metric kHeld{
    "mpsd_held", MetricKind::kGauge, "reason",
    "1 while this keeps queued jobs from starting, else 0."};
inline constexpr Metric kHolds{
    "mpsd_holds_total", MetricKind::kCounter, "reason",
    "Times this began to keep queued jobs from starting."};
inline constexpr Metric kHeldSeconds{
    "mpsd_held_seconds_total", MetricKind::kCounter, "reason",
    "Time during which this kept queued jobs from starting."};

// --- The ends of attempts. `class`: the fault (server/jobs/attempt_end.h).
inline constexpr Metric kWorkerExits{
    "mpsd_worker_exits_total", MetricKind::kCounter, "class, reason",
    "Workers that ended, by reason and fault class: nobody, job, machine, "
    "interruption."};
inline constexpr Metric kJobRetries{
    "mpsd_job_retries_total", MetricKind::kCounter, "class, reason",
    "Times a job went back to the queue after an attempt, by the attempt's "
    "end."};

// `result`: sent, failed, dropped.
inline constexpr Metric kNotifications{
    "mpsd_notifications_total", MetricKind::kCounter, "result",
    "Notifications that were sent, given up or not queued."};

// `result`: succeeded, failed, cancelled.
inline constexpr Metric kModelPulls{"mpsd_model_pulls_total",
                                    MetricKind::kCounter, "result",
                                    "Pulls of models from the hub that ended."};
inline constexpr Metric kRunningPulls{"mpsd_model_pulls_running",
                                      MetricKind::kGauge, "",
                                      "Pulls of models in progress."};
inline constexpr Metric kPulledBytes{"mpsd_model_pulled_bytes_total",
                                     MetricKind::kCounter, "",
                                     "Bytes of models that came from the hub."};

// --- mpsd itself; the names of process_* are those of every client library.
inline constexpr Metric kBuildInfo{"mpsd_build_info", MetricKind::kGauge,
                                   "commit, compiler, torch, version",
                                   "Always 1; the labels say what was built."};
inline constexpr Metric kProcessCpu{"process_cpu_seconds_total",
                                    MetricKind::kCounter, "",
                                    "CPU time of mpsd, user and system."};
inline constexpr Metric kProcessResident{"process_resident_memory_bytes",
                                         MetricKind::kGauge, "",
                                         "Resident memory of mpsd."};
inline constexpr Metric kProcessDescriptors{
    "process_open_fds", MetricKind::kGauge, "", "Descriptors mpsd has open."};
inline constexpr Metric kProcessMostDescriptors{
    "process_max_fds", MetricKind::kGauge, "", "Descriptors mpsd may open."};
inline constexpr Metric kProcessStart{"process_start_time_seconds",
                                      MetricKind::kGauge, "",
                                      "When mpsd started, in Unix time."};

// --- The API. Methods that do not exist are counted under "unknown".
inline constexpr Metric kRpcRequests{
    "mpsd_rpc_requests_total", MetricKind::kCounter, "code, method",
    "RPCs that ended, by the status that the client received."};
inline constexpr Metric kRpcSeconds{
    "mpsd_rpc_seconds", MetricKind::kHistogram, "method",
    "Wall time of unary RPCs, from arrival to end."};
inline constexpr Metric kRpcOpenStreams{"mpsd_rpc_open_streams",
                                        MetricKind::kGauge, "method",
                                        "Streaming RPCs that are open now."};

// --- The state folder; a measurement that is some minutes old has no series.
inline constexpr Metric kDatabaseCommit{
    "mpsd_database_commit_seconds", MetricKind::kHistogram, "",
    "Wall time of one commit of the database."};
inline constexpr Metric kStateDiskFree{
    "mpsd_state_disk_free_bytes", MetricKind::kGauge, "",
    "Bytes that mpsd can still write to the disk of its state folder."};
inline constexpr Metric kStateDiskSize{"mpsd_state_disk_size_bytes",
                                       MetricKind::kGauge, "",
                                       "Size of the disk of the state folder."};
// `kind`: server/state_usage.h.
inline constexpr Metric kStateBytes{
    "mpsd_state_bytes", MetricKind::kGauge, "kind",
    "Disk space of the files in the state folder, links not followed."};

inline constexpr Metric kStateBudget{
    "mpsd_state_budget_bytes", MetricKind::kGauge, "",
    "Budget of the state folder; no series: it has no budget."};
// `kind`: job, checkpoints, blob, partial_upload, leftover.
inline constexpr Metric kCollected{"mpsd_collected_total", MetricKind::kCounter,
                                   "kind",
                                   "What retention removed: jobs that had "
                                   "ended, their checkpoints, unused uploads."};
inline constexpr Metric kCollectedBytes{
    "mpsd_collected_bytes_total", MetricKind::kCounter, "kind",
    "Bytes that retention freed on the state folder's disk."};

// --- The device's self-test.
inline constexpr Metric kSelftestPassed{
    "mpsd_selftest_timestamp_seconds", MetricKind::kGauge, "device",
    "When the device's self-test last passed, in Unix time."};

// --- What serves the API and the metrics.
inline constexpr Metric kApiCertificateExpiry{
    "mpsd_certificate_expiry_timestamp_seconds", MetricKind::kGauge, "",
    "When the certificate of the API's ports ends, in Unix time."};
inline constexpr Metric kCertificateExpiry{
    "mpsd_metrics_certificate_expiry_timestamp_seconds", MetricKind::kGauge, "",
    "When the certificate of the metrics address ends, in Unix time."};

// The metrics that correspond to no field of a step, as in the table.
inline constexpr const Metric* kMetrics[] = {
    &kJobs,
    &kJobsEnded,
    &kQueuedByPriority,
    &kQueuedByOwner,
    &kQueueOldest,
    &kQueueEta,
    &kQueueWait,
    &kStep,
    &kSteps,
    &kTokens,
    &kCheckpoint,
    &kCpuFallbacks,
    &kPhaseSeconds,
    &kJobStart,
    &kAttemptStart,
    &kJobInfo,
    &kLastStep,
    &kLastCheckpoint,
    &kEvalLoss,
    &kEvalMetric,
    &kHostOnBattery,
    &kHostBattery,
    &kHostLowPower,
    &kHostThermal,
    &kHostMemoryPressure,
    &kHostSwap,
    &kHostGpu,
    &kHostGpuResets,
    &kHostWiredLimit,
    &kHostUserIdle,
    &kPaused,
    &kPauses,
    &kPausedSeconds,
    &kHeld,
    &kHolds,
    &kHeldSeconds,
    &kWorkerExits,
    &kJobRetries,
    &kNotifications,
    &kModelPulls,
    &kRunningPulls,
    &kPulledBytes,
    &kBuildInfo,
    &kProcessCpu,
    &kProcessResident,
    &kProcessDescriptors,
    &kProcessMostDescriptors,
    &kProcessStart,
    &kRpcRequests,
    &kRpcSeconds,
    &kRpcOpenStreams,
    &kDatabaseCommit,
    &kStateDiskFree,
    &kStateDiskSize,
    &kStateBytes,
    &kStateBudget,
    &kCollected,
    &kCollectedBytes,
    &kSelftestPassed,
    &kApiCertificateExpiry,
    &kCertificateExpiry,
};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_HTTP_NAMES_H_
