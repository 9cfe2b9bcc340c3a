// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_NAMES_H_
#define MPSD_SERVER_PROMETHEUS_NAMES_H_

namespace mpsd::prometheus {

// Every metric of mpsd. Names end in their unit, and counters in _total
// (prometheus.io/docs/practices/naming); renaming a metric breaks dashboards.
struct Metric {
  const char* name;
  const char* help;
};

// The gauge for a field of a step (server/jobs/event_fields.h). A field that a
// step lacks leaves the gauge unset.
struct FieldGauge {
  const char* field;
  Metric metric;
};

inline constexpr Metric kJobs{"mpsd_jobs", "Jobs in the database by state."};
inline constexpr Metric kQueueWait{
    "mpsd_job_queue_wait_seconds",
    "Time from entering the queue to the start of a worker."};

// Labelled by device.
inline constexpr Metric kStep{"mpsd_step_seconds",
                              "Wall time of one optimizer step."};
inline constexpr Metric kCheckpoint{"mpsd_checkpoint_seconds",
                                    "Wall time of writing one checkpoint."};
inline constexpr Metric kTokens{"mpsd_tokens_total",
                                "Non-padding tokens trained on."};
// Labelled by device and op.
inline constexpr Metric kCpuFallbacks{
    "mpsd_cpu_fallback_ops_total",
    "Runs on the CPU of operators that have no Metal kernel."};

// Labelled by device; the series end with the worker.
inline constexpr FieldGauge kMemoryGauges[] = {
    {"current_allocated_bytes",
     {"mpsd_device_memory_current_allocated_bytes",
      "Device memory held by live tensors of the worker."}},
    {"peak_allocated_bytes",
     {"mpsd_device_memory_peak_allocated_bytes",
      "Most device memory held by live tensors of the worker."}},
    {"driver_allocated_bytes",
     {"mpsd_device_memory_driver_allocated_bytes",
      "Device memory the driver holds for the worker."}},
    {"recommended_max_bytes",
     {"mpsd_device_memory_recommended_max_bytes",
      "Device memory the system recommends not to exceed."}},
    {"footprint_bytes",
     {"mpsd_worker_footprint_bytes",
      "Memory the system charges to the worker process."}},
};

// Labelled by job and device; the series end some time after the job.
inline constexpr FieldGauge kStepGauges[] = {
    {"loss", {"mpsd_job_loss", "Loss of the last step, mean over its labels."}},
    {"learning_rate",
     {"mpsd_job_learning_rate", "Learning rate of the last step."}},
    {"grad_norm",
     {"mpsd_job_grad_norm", "Gradient norm of the last step before clipping."}},
    {"padding_ratio",
     {"mpsd_job_padding_ratio", "Padding among the tokens of the last step."}},
    {"data_wait_ratio",
     {"mpsd_job_data_wait_ratio",
      "Share of the last step's time spent waiting for its data."}},
    {"device_utilization_ratio",
     {"mpsd_job_device_utilization_ratio",
      "Share of time the device was busy at the last step's end, 0 to 1."}},
};
inline constexpr Metric kEvalLoss{
    "mpsd_job_eval_loss", "Loss of the last evaluation, mean over its labels."};
// Labelled by job, device and metric ("accuracy", "f1" …).
inline constexpr Metric kEvalMetric{
    "mpsd_job_eval_metric", "A metric of the task in the last evaluation."};

// Gauges of the machine; a value that the machine does not tell has no series.
inline constexpr Metric kHostOnBattery{
    "mpsd_host_on_battery", "1 while the machine runs on battery, else 0."};
inline constexpr Metric kHostBattery{"mpsd_host_battery_ratio",
                                     "Charge of the battery, 0 to 1."};
inline constexpr Metric kHostLowPower{"mpsd_host_low_power_mode",
                                      "1 in Low Power Mode, else 0."};
inline constexpr Metric kHostThermal{
    "mpsd_host_thermal_level",
    "0 nominal, 1 moderate, 2 heavy, 3 trapping, 4 sleeping."};
inline constexpr Metric kHostMemoryPressure{"mpsd_host_memory_pressure_level",
                                            "0 normal, 1 warn, 2 critical."};
inline constexpr Metric kHostSwap{"mpsd_host_swap_used_bytes",
                                  "Swap in use on the machine."};
inline constexpr Metric kHostGpu{
    "mpsd_host_gpu_utilization_ratio",
    "Share of time the GPU is busy for any process, 0 to 1."};
inline constexpr Metric kHostGpuResets{
    "mpsd_host_gpu_resets",
    "Times the system reset the GPU since the machine started."};
inline constexpr Metric kHostWiredLimit{
    "mpsd_host_wired_limit_bytes",
    "What the GPU may wire (iogpu.wired_limit_mb); 0: the system's policy."};
inline constexpr Metric kHostUserIdle{"mpsd_host_user_idle_seconds",
                                      "Time since the last key or click."};

// Labelled by reason: battery, thermal, memory_pressure, quiet_hours,
// user_active.
inline constexpr Metric kPaused{
    "mpsd_paused", "1 while this keeps jobs from training, else 0."};
inline constexpr Metric kPauses{"mpsd_pauses_total",
                                "Times this began to keep jobs from training."};

// Labelled by reason: storage, disk, machine, device.
inline constexpr Metric kHeld{
    "mpsd_held", "1 while this keeps queued jobs from starting, else 0."};

inline constexpr Metric kWorkerExits{"mpsd_worker_exits_total",
                                     "Workers that ended, by reason."};
inline constexpr Metric kBuildInfo{"mpsd_build_info",
                                   "Always 1; the labels say what was built."};

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_NAMES_H_
