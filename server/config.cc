// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <system_error>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "absl/strings/str_cat.h"

namespace mpsd {
namespace fs = std::filesystem;
namespace {

constexpr char kFooter[] = R"(
An option on the command line wins over the file that --config names, the file
over the environment (MPSD_STATE_DIR), the environment over the default. In the
file each line is an option without its dashes:

  state-dir = "/var/lib/mpsd"
  listen = ["127.0.0.1:7433"]
  metrics-address = "off"
)";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path ProgramPath() {
#ifdef __APPLE__
  uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  return fs::path(path.c_str());
#else
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
#endif
}

// The options as CLI11 fills them in.
struct Options {
  std::string state_dir, worker;
  Config config;
  double hang_timeout = absl::ToDoubleSeconds(config.hang_timeout);
  double stop_grace = absl::ToDoubleSeconds(config.stop_grace);
  double retry_backoff = absl::ToDoubleSeconds(config.retry_backoff);
  double retry_backoff_max = absl::ToDoubleSeconds(config.retry_backoff_max);
  double metrics_linger = absl::ToDoubleSeconds(config.metrics_linger);
  std::string thermal, memory_pressure, quiet_hours, host_file;
  double idle_only = 0;
  double settle = absl::ToDoubleSeconds(config.pause.settle);
  double hold_limit = absl::ToDoubleSeconds(config.pause.hold_limit);
  double host_interval = absl::ToDoubleSeconds(config.host_interval);
};

void DeclarePlaces(CLI::App& app, Options& o) {
  app.add_option("--state-dir", o.state_dir,
                 "Folder of the database, the jobs, the socket and the log "
                 "[" +
                     DefaultStateDir().string() + "]");
  app.add_option("--worker", o.worker, "The mpsd-worker to run [beside mpsd]");
  app.add_flag("--skip-selftest", o.config.skip_selftest,
               "Run jobs on a device that has not passed the worker's "
               "--selftest");
  app.add_option("--listen", o.config.listen,
                 "Serve the API on this HOST:PORT or unix:PATH too, without "
                 "authentication; may be repeated");
  app.add_option("--metrics-address", o.config.metrics_address,
                 "HOST:PORT of the Prometheus metrics, or off")
      ->capture_default_str();
}

void DeclareLog(CLI::App& app, Options& o) {
  app.add_option("--log-level", o.config.log_level, "Least level logged")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-max-bytes", o.config.log_max_bytes,
                 "Size at which STATE/log/mpsd.log rotates")
      ->check(CLI::Range(int64_t{1} << 10, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--log-files", o.config.log_files, "Rotated logs kept")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  app.add_option("--log-stderr", o.config.log_stderr,
                 "Log to stderr too: on or off [on]");
}

void DeclareLimits(CLI::App& app, Options& o) {
  const auto seconds = [&](const char* name, double& value,
                           const char* description) {
    app.add_option(name, value, description)
        ->check(CLI::Range(0.001, 1e9))
        ->capture_default_str();
  };
  seconds("--hang-timeout-seconds", o.hang_timeout,
          "A worker that does no work for so long is killed, or for three "
          "times as long as the job's slowest step took");
  seconds("--stop-grace-seconds", o.stop_grace,
          "Time for a checkpoint before a worker is killed");
  seconds("--retry-backoff-seconds", o.retry_backoff,
          "Wait after a job's first failure; doubles with each");
  seconds("--retry-backoff-max-seconds", o.retry_backoff_max,
          "The longest such wait");
  seconds("--metrics-linger-seconds", o.metrics_linger,
          "A finished job's series are kept so long");
  app.add_option("--max-failures", o.config.max_failures,
                 "Failures in a row, without a new checkpoint between, after "
                 "which a job has FAILED")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

// Each of them pauses what trains and keeps the queue waiting.
void DeclareManners(CLI::App& app, Options& o) {
  app.add_flag("--pause-on-battery", o.config.pause.on_battery,
               "Do not train on battery or in Low Power Mode");
  app.add_option("--pause-on-thermal", o.thermal,
                 "Do not train at this thermal level or above [heavy is where "
                 "macOS slows down]")
      ->check(CLI::IsMember({"moderate", "heavy", "trapping"}));
  app.add_option("--pause-on-memory-pressure", o.memory_pressure,
                 "Do not train at this memory pressure or above")
      ->check(CLI::IsMember({"warn", "critical"}));
  app.add_option("--quiet-hours", o.quiet_hours,
                 "Do not train in this span of the day, as 22:00-07:00");
  app.add_option("--idle-only-seconds", o.idle_only,
                 "Train only while nobody has touched the machine for so long; "
                 "0: always")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--pause-hold-seconds", o.hold_limit,
                 "A pause longer than this writes a checkpoint and gives the "
                 "memory back (a minute at most under memory pressure)")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--pause-settle-seconds", o.settle,
                 "A pause ends once its reason has been gone for so long")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--host-interval-seconds", o.host_interval,
                 "How often the machine is looked at")
      ->check(CLI::Range(0.01, 1e9))
      ->capture_default_str();
  app.add_option("--host-file", o.host_file)->group("");  // of tests
}

// CLI11 says "INI was not able to parse KEY", "KEY.++" for a section.
absl::Status UnknownKey(const CLI::ConfigError& error) {
  std::string key = error.what();
  key = key.substr(key.rfind(' ') + 1);
  if (const size_t section = key.find(".++"); section != key.npos) {
    key = absl::StrCat("[", key.substr(0, section), "]");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the --config file: '", key,
                   "' is no option of mpsd; mpsd --help lists them"));
}

absl::Status FinishManners(const Options& o, Config& config) {
  jobs::PausePolicy& pause = config.pause;
  pause.thermal = host::ThermalNamed(o.thermal);
  pause.memory_pressure = host::MemoryPressureNamed(o.memory_pressure);
  if (!o.quiet_hours.empty()) {
    absl::StatusOr<jobs::QuietHours> hours =
        jobs::ParseQuietHours(o.quiet_hours);
    if (!hours.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--quiet-hours: ", hours.status().message()));
    }
    pause.quiet_hours = *hours;
  }
  pause.idle_only = absl::Seconds(o.idle_only);
  pause.settle = absl::Seconds(o.settle);
  pause.hold_limit = absl::Seconds(o.hold_limit);
  config.host_interval = absl::Seconds(o.host_interval);
  config.host_file = o.host_file;
  return absl::OkStatus();
}

absl::StatusOr<Config> Finish(Options o) {
  if (o.state_dir.empty()) o.state_dir = Environment("MPSD_STATE_DIR");
  Config config = std::move(o.config);
  config.state_dir =
      o.state_dir.empty() ? DefaultStateDir() : fs::path(o.state_dir);
  if (config.state_dir.empty()) {
    return absl::InvalidArgumentError(
        "--state-dir: neither it nor HOME is set; name a folder");
  }
  config.state_dir = fs::absolute(config.state_dir).lexically_normal();
  config.worker = o.worker.empty() ? DefaultWorker() : fs::absolute(o.worker);
  if (config.metrics_address == "off") config.metrics_address.clear();
  config.hang_timeout = absl::Seconds(o.hang_timeout);
  config.stop_grace = absl::Seconds(o.stop_grace);
  config.retry_backoff = absl::Seconds(o.retry_backoff);
  config.retry_backoff_max = absl::Seconds(o.retry_backoff_max);
  config.metrics_linger = absl::Seconds(o.metrics_linger);
  if (absl::Status s = FinishManners(o, config); !s.ok()) return s;
  return config;
}

}  // namespace

fs::path DefaultStateDir() {
  const std::string home = Environment("HOME");
  if (home.empty()) return {};
#ifdef __APPLE__
  return fs::path(home) / "Library" / "Application Support" / "mpsd";
#else
  return fs::path(home) / ".local" / "state" / "mpsd";
#endif
}

fs::path DefaultWorker() { return ProgramPath().parent_path() / "mpsd-worker"; }

absl::StatusOr<std::variant<Config, PrintAndExit>> ParseConfig(
    const std::vector<std::string>& args) {
  CLI::App app(
      "mpsd: the daemon that queues and runs fine-tuning jobs on one "
      "device.",
      "mpsd");
  app.set_version_flag("--version", std::string("mpsd ") + MPSD_VERSION);
  app.set_config("--config", "", "A TOML file with these options");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.footer(kFooter);
  Options options;
  DeclarePlaces(app, options);
  DeclareLog(app, options);
  DeclareLimits(app, options);
  DeclareManners(app, options);
  try {
    // CLI11 takes them last one first.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    return PrintAndExit{app.help()};
  } catch (const CLI::CallForVersion&) {
    return PrintAndExit{app.version() + "\n"};
  } catch (const CLI::ConfigError& e) {
    return UnknownKey(e);
  } catch (const CLI::ParseError& e) {
    return absl::InvalidArgumentError(
        absl::StrCat(e.what(), "; mpsd --help lists the options"));
  }
  absl::StatusOr<Config> config = Finish(std::move(options));
  if (!config.ok()) return config.status();
  return *std::move(config);
}

}  // namespace mpsd
