// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_METRICS_NAMES_H_
#define MPSD_SERVER_METRICS_NAMES_H_

namespace mpsd::metrics {

// Every metric of mpsd. Names end in their unit, counters in _total
// (prometheus.io/docs/practices/naming); renaming one breaks dashboards.
struct Metric {
  const char* name;
  const char* help;
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
inline constexpr Metric kCurrentAllocated{
    "mpsd_device_memory_current_allocated_bytes",
    "Device memory held by live tensors of the worker."};
inline constexpr Metric kDriverAllocated{
    "mpsd_device_memory_driver_allocated_bytes",
    "Device memory the driver holds for the worker."};
inline constexpr Metric kRecommendedMax{
    "mpsd_device_memory_recommended_max_bytes",
    "Device memory the system recommends not to exceed."};
inline constexpr Metric kFootprint{
    "mpsd_worker_footprint_bytes",
    "Memory the system charges to the worker process."};

// Labelled by job and device; gone some time after the job's end.
inline constexpr Metric kLoss{"mpsd_job_loss",
                              "Loss of the last step, mean over its labels."};
inline constexpr Metric kEvalLoss{
    "mpsd_job_eval_loss", "Loss of the last evaluation, mean over its labels."};
// Labelled by metric too: "accuracy", "f1" …
inline constexpr Metric kEvalMetric{
    "mpsd_job_eval_metric", "A metric of the task in the last evaluation."};
inline constexpr Metric kLearningRate{"mpsd_job_learning_rate",
                                      "Learning rate of the last step."};
inline constexpr Metric kGradNorm{
    "mpsd_job_grad_norm", "Gradient norm of the last step before clipping."};

inline constexpr Metric kWorkerExits{"mpsd_worker_exits_total",
                                     "Workers that ended, by reason."};
inline constexpr Metric kBuildInfo{"mpsd_build_info",
                                   "Always 1; the labels say what was built."};

}  // namespace mpsd::metrics

#endif  // MPSD_SERVER_METRICS_NAMES_H_
