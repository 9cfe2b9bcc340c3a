// SPDX-License-Identifier: Apache-2.0
#include "core/host/host.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

#include "absl/time/clock.h"
#include "core/host/device_error.h"
#include "core/host/environment.h"
#include "core/host/footprint.h"
#include "core/host/machine.h"
#include "core/host/traits.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

// The contracts of this room, for every system that implements them.

namespace mpsd::host {
namespace {

TEST(HostNames, GoBothWaysAndNumbersAreThoseOfMacOS) {
  for (PowerSource source : {PowerSource::kMains, PowerSource::kBattery}) {
    EXPECT_EQ(PowerSourceNamed(Name(source)), source);
  }
  for (Thermal level : {Thermal::kNominal, Thermal::kModerate, Thermal::kHeavy,
                        Thermal::kTrapping, Thermal::kSleeping}) {
    EXPECT_EQ(ThermalNamed(Name(level)), level);
  }
  for (MemoryPressure level : {MemoryPressure::kNormal, MemoryPressure::kWarn,
                               MemoryPressure::kCritical}) {
    EXPECT_EQ(MemoryPressureNamed(Name(level)), level);
  }
  EXPECT_EQ(Name(Thermal::kHeavy), "heavy");
  EXPECT_FALSE(PowerSourceNamed("").has_value());
  EXPECT_FALSE(ThermalNamed("hot").has_value());
  EXPECT_FALSE(MemoryPressureNamed("Warn").has_value());
  EXPECT_EQ(ThermalOfState(0), Thermal::kNominal);
  EXPECT_EQ(ThermalOfState(2), Thermal::kHeavy);
  EXPECT_EQ(ThermalOfState(4), Thermal::kSleeping);
  EXPECT_FALSE(ThermalOfState(5).has_value());
  EXPECT_EQ(MemoryPressureOfLevel(1), MemoryPressure::kNormal);
  EXPECT_EQ(MemoryPressureOfLevel(2), MemoryPressure::kWarn);
  EXPECT_EQ(MemoryPressureOfLevel(4), MemoryPressure::kCritical);
  EXPECT_FALSE(MemoryPressureOfLevel(3).has_value());
  EXPECT_FALSE(MemoryPressureOfLevel(0).has_value());
}

class FileHostTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  const fs::path path_ = FreshFolder("host") / "host.json";
  FileHost host_{path_};
};

TEST_F(FileHostTest, ReadsEveryMember) {
  Write(R"({"power_source": "battery", "battery_ratio": 0.5,
            "low_power_mode": true, "thermal": "heavy",
            "memory_pressure": "warn", "swap_used_bytes": 1024,
            "gpu_utilization_ratio": 0.75, "gpu_resets": 2,
            "wired_limit_bytes": 0, "user_idle_seconds": 3.5})");
  const Reading expected{PowerSource::kBattery,
                         0.5,
                         true,
                         Thermal::kHeavy,
                         MemoryPressure::kWarn,
                         1024,
                         0.75,
                         2,
                         0,
                         3.5};
  EXPECT_EQ(host_.Read(), expected);
}

TEST_F(FileHostTest, WhatIsMissingIsAbsentAndAHalfWrittenFileAsBefore) {
  EXPECT_EQ(host_.Read(), Reading());
  Write(R"({"thermal": "hot", "swap_used_bytes": "many"})");
  EXPECT_EQ(host_.Read(), Reading());
  Write(R"({"power_source": "battery"})");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kBattery);
  Write(R"({"power_sou)");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kBattery);
  Write(R"({"power_source": "mains"})");
  EXPECT_EQ(host_.Read().power_source, PowerSource::kMains);
  fs::remove(path_);
  EXPECT_EQ(host_.Read(), Reading());
}

class LinuxFilesTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void Supply(const std::string& name, const std::string& file,
              const std::string& text) {
    Write("sys/class/power_supply/" + name + "/" + file, text);
  }
  void Battery(const std::string& status) {
    Supply("BAT0", "type", "Battery");
    Supply("BAT0", "status", status);
    Supply("BAT0", "capacity", "62");
  }
  void Zone(int temperature) {
    const std::string zone = "sys/class/thermal/thermal_zone0/";
    Write(zone + "temp", std::to_string(temperature));
    Write(zone + "trip_point_0_type", "active");
    Write(zone + "trip_point_0_temp", "50000");
    Write(zone + "trip_point_1_type", "passive");
    Write(zone + "trip_point_1_temp", "80000");
    Write(zone + "trip_point_2_type", "critical");
    Write(zone + "trip_point_2_temp", "100000");
  }
  Reading Read() { return ReadLinuxFiles(root_); }

  const fs::path root_ = FreshFolder("linux_files");
};

TEST_F(LinuxFilesTest, AMachineThatSaysNothingThenOneThingAfterTheOther) {
  EXPECT_EQ(Read(), Reading());
  EXPECT_FALSE(Read().low_power_mode.has_value());
  Write("sys/firmware/acpi/platform_profile", "low-power");
  EXPECT_EQ(Read().low_power_mode, true);
  Write("sys/firmware/acpi/platform_profile", "balanced");
  EXPECT_EQ(Read().low_power_mode, false);
  Write("sys/class/thermal/thermal_zone1/temp", "99000");
  EXPECT_FALSE(Read().thermal.has_value());
  const auto level = [&](const std::string& some, const std::string& full) {
    Write("proc/pressure/memory", "some avg10=" + some +
                                      " avg60=0.00 avg300=0.00 total=1\n"
                                      "full avg10=" +
                                      full + " avg60=0.00 avg300=0.00 total=1");
    return Read().memory_pressure;
  };
  EXPECT_EQ(level("0.00", "0.00"), MemoryPressure::kNormal);
  EXPECT_EQ(level("12.50", "3.00"), MemoryPressure::kWarn);
  EXPECT_EQ(level("40.00", "20.00"), MemoryPressure::kCritical);
  Write("proc/meminfo",
        "MemTotal: 100 kB\nSwapTotal:   2048 kB\n"
        "SwapFree:    1024 kB");
  EXPECT_EQ(Read().swap_used_bytes, 1 << 20);
  Write("sys/class/drm/card0/device/gpu_busy_percent", "7");
  Write("sys/class/drm/card1/device/gpu_busy_percent", "93");
  EXPECT_EQ(Read().gpu_utilization_ratio, 0.93);
}

TEST_F(LinuxFilesTest, ALaptopThatChargesAndUnplugged) {
  Battery("Charging");
  EXPECT_EQ(Read().power_source, PowerSource::kMains);
  Battery("Discharging");
  Supply("AC", "type", "Mains");
  Supply("AC", "online", "0");
  EXPECT_EQ(Read().power_source, PowerSource::kBattery);
  EXPECT_EQ(Read().battery_ratio, 0.62);
  Supply("AC", "online", "1");
  EXPECT_EQ(Read().power_source, PowerSource::kMains)
      << "a weak charger lets the battery sink";
}

TEST_F(LinuxFilesTest, AMousesBatteryIsNotTheMachines) {
  Battery("Discharging");
  Supply("BAT0", "scope", "Device");
  EXPECT_FALSE(Read().power_source.has_value());
  EXPECT_FALSE(Read().battery_ratio.has_value());
}

TEST_F(LinuxFilesTest, TheHighestTripPointPassed) {
  Zone(60'000);
  EXPECT_EQ(Read().thermal, Thermal::kNominal) << "a fan is no trouble";
  Zone(80'000);
  EXPECT_EQ(Read().thermal, Thermal::kModerate);
  Zone(101'000);
  EXPECT_EQ(Read().thermal, Thermal::kTrapping);
}

TEST(Machine, HasABootIdMemoryAndCores) {
  EXPECT_EQ(BootId(), BootId());
  EXPECT_EQ(BootId().size(), 36) << BootId();
  EXPECT_EQ(BootId().find_first_not_of("0123456789abcdef-"), std::string::npos);
  EXPECT_GT(PhysicalMemoryBytes(), int64_t{1} << 28);
  EXPECT_LT(PhysicalMemoryBytes(), int64_t{1} << 50);
  const Cores cores = CountCores();
  EXPECT_GE(cores.all, 1);
  EXPECT_LE(cores.fast.value_or(0) + cores.efficient.value_or(0), cores.all);
}

constexpr char kTable[] =
    "overlay / overlay rw,relatime 0 0\n"
    "/dev/disk1 /srv ext4 rw 0 0\n"
    "nas:/models /srv/ann/models nfs4 ro,vers=4.2 0 0\n"
    "ann@far: /mnt/my\\040disk fuse.sshfs rw 0 0\n"
    "/dev/disk2 /data xfs rw 0 0\n"
    "tmpfs /data tmpfs rw 0 0\n"
    "\n"
    "broken\n";

std::string TypeAt(const fs::path& path) {
  const auto mount = MountOf(path, ParseMounts(kTable));
  return mount ? mount->type : "none";
}

TEST(Mounts, TheDeepestOrTheLatestHoldsAPath) {
  EXPECT_EQ(TypeAt("/"), "overlay");
  EXPECT_EQ(TypeAt("/usr/lib"), "overlay");
  EXPECT_EQ(TypeAt("/srv/ann/there/is/none"), "ext4");
  EXPECT_EQ(TypeAt("/srv/ann/models/llama"), "nfs4");
  EXPECT_EQ(TypeAt("/srv/ann/../ann/models"), "nfs4");
  EXPECT_EQ(TypeAt("/srvs"), "overlay");
  EXPECT_EQ(MountOf("/x", {}), std::nullopt);
  EXPECT_EQ(TypeAt("/data/set"), "tmpfs");
}

TEST(Mounts, KnowsANetworkVolumeItsSourceAndWhetherItIsReadOnly) {
  const auto models = MountOf("/srv/ann/models", ParseMounts(kTable)).value();
  EXPECT_TRUE(models.network);
  EXPECT_TRUE(models.read_only);
  EXPECT_EQ(models.source, "nas:/models");
  const auto disk = MountOf("/mnt/my disk/a", ParseMounts(kTable)).value();
  EXPECT_TRUE(disk.network);
  EXPECT_FALSE(disk.read_only);
  EXPECT_EQ(disk.point, "/mnt/my disk");
  for (const char* type : {"nfs", "nfs4", "cifs", "smbfs", "smb3", "afpfs",
                           "fuse.sshfs", "webdav", "lustre", "macfuse"}) {
    EXPECT_TRUE(IsNetworkType(type)) << type;
  }
  for (const char* type : {"apfs", "hfs", "ext4", "xfs", "zfs", "tmpfs",
                           "overlay", "fuse.ntfs", ""}) {
    EXPECT_FALSE(IsNetworkType(type)) << type;
  }
}

class LinksTest : public testing::Test {
 protected:
  std::vector<Mount> Table() const {
    return {{"/", "apfs", "disk", false, false},
            {(folder_ / "away").string(), "nfs", "nas:/x", true, false}};
  }
  const fs::path folder_ = fs::canonical(FreshFolder("mounts"));
};

TEST_F(LinksTest, AreFollowedToTheVolumeTheyNameAndNoFurther) {
  fs::create_directory_symlink(folder_ / "away" / "cache", folder_ / "one");
  fs::create_directory_symlink("one", folder_ / "two");
  EXPECT_EQ(MountOf(folder_ / "two" / "x", Table())->type, "nfs");
  EXPECT_EQ(MountOf(folder_ / "three" / "x", Table())->type, "apfs");
  fs::create_directory_symlink("b", folder_ / "a");
  fs::create_directory_symlink("a", folder_ / "b");
  EXPECT_EQ(MountOf(folder_ / "a" / "x", Table())->type, "apfs");
}

TEST(ListMounts, HasTheRootsVolume) {
  const std::vector<Mount> table = ListMounts();
  ASSERT_FALSE(table.empty());
  const auto root = MountOf("/", table);
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->point, "/");
  EXPECT_NE(root->type, "");
}

TEST(PlatformTest, CountsTheOpenDescriptors) {
  const ProcessUsage before = ReadProcessUsage();
  const int first = open("/dev/null", O_RDONLY), second = dup(first);
  ASSERT_GE(second, 0);
  EXPECT_EQ(ReadProcessUsage().open_descriptors.value(),
            before.open_descriptors.value() + 2);
  close(first);
  close(second);
  EXPECT_EQ(ReadProcessUsage().open_descriptors, before.open_descriptors);
  EXPECT_GT(before.most_descriptors.value(), before.open_descriptors.value());
}

// The kernel keeps the machine's start to a second.
TEST(PlatformTest, DescribesTheMachineAndItsProcess) {
  const double start = ReadProcessUsage().start_time_seconds.value();
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LE(start, now + 2);
  EXPECT_GE(start, now - 3600);
  EXPECT_EQ(ReadProcessUsage().start_time_seconds, start);
  EXPECT_GT(PhysicalMemoryBytes(), int64_t{1} << 28);
  EXPECT_FALSE(ProcessorName().empty());
  EXPECT_THAT(OperatingSystem(), testing::ContainsRegex("^[A-Z][a-z]+ [0-9]"));
}

const Process* Find(const std::vector<Process>& all, int64_t pid) {
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const Process& process) { return process.pid == pid; });
  return found == all.end() ? nullptr : &*found;
}

TEST(ListProcesses, HasThisOneWithItsParentNameAndMemory) {
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> memory(kBytes);
  std::memset(memory.data(), 1, kBytes);
  const std::vector<Process> all = ListProcesses();
  const Process* self = Find(all, getpid());
  ASSERT_NE(self, nullptr);
  EXPECT_EQ(self->parent, getppid());
  EXPECT_NE(self->name, "");
  EXPECT_GE(self->memory_bytes.value_or(0), static_cast<int64_t>(kBytes));
  EXPECT_EQ(memory[kBytes - 1], 1);
  EXPECT_EQ(Find(ListProcesses(), 0), nullptr);
  EXPECT_GE(ListProcesses().size(), 1u);
}

TEST(OpenHostTest, SaysNothingThatCannotBe) {
  const std::unique_ptr<Host> host = OpenHost();
  const Reading reading = host->Read();
  const auto ratio = [](std::optional<double> value) {
    return value.value_or(0) >= 0 && value.value_or(1) <= 1;
  };
  EXPECT_TRUE(ratio(reading.battery_ratio));
  EXPECT_TRUE(ratio(reading.gpu_utilization_ratio));
  ASSERT_TRUE(reading.swap_used_bytes.has_value()) << "every system has it";
  EXPECT_GE(*reading.swap_used_bytes, 0);
  EXPECT_GE(reading.wired_limit_bytes.value_or(0), 0);
  EXPECT_GE(reading.user_idle_seconds.value_or(0), 0);
}

TEST(OpenHostTest, IsKeptAwakeAndLetGo) {
  const std::unique_ptr<Host> host = OpenHost();
  for (int i = 0; i < 2; ++i) {
    const std::unique_ptr<Awake> awake = host->KeepAwake("a test");
#ifdef __APPLE__
    EXPECT_NE(awake, nullptr);
#else
    EXPECT_EQ(awake, nullptr);
#endif
  }
}

}  // namespace
}  // namespace mpsd::host

namespace mpsd::backend {
namespace {

TEST(ChoiceTest, EveryNameComesBack) {
  for (const auto& [name, choice] : kChoices) {
    EXPECT_EQ(NameOf(choice), name);
    EXPECT_EQ(ChoiceOf(name), choice);
  }
  EXPECT_EQ(ChoiceOf("tpu"), std::nullopt);
  EXPECT_EQ(ChoiceOf(""), std::nullopt);
}

// A job that names no device is estimated for the one that mpsd is for.
TEST(TraitsTest, AutoIsTakenForMps) {
  EXPECT_EQ(&TraitsOf(Choice::kAuto), &TraitsOf(Choice::kMps));
}

}  // namespace
}  // namespace mpsd::backend

namespace mpsd::host {
namespace {

TEST(WorkerEnvironment, SetsWhatASharedMacNeeds) {
  const Environment environment = WorkerEnvironment({{"HOME", "/home/u"}});
  EXPECT_EQ(environment, (Environment{
                             {"AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "1"},
                             {"HOME", "/home/u"},
                             {"OMP_WAIT_POLICY", "PASSIVE"},
                             {"PYTORCH_ENABLE_MPS_FALLBACK", "0"},
                             {"PYTORCH_MPS_FAST_MATH", "0"},
                             {"PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.95"},
                             {"PYTORCH_MPS_LOW_WATERMARK_RATIO", "0.75"},
                         }));
}

TEST(WorkerEnvironment, TheUsersWordStands) {
  const Environment environment =
      WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "1"},
                         {"PYTORCH_MPS_FAST_MATH", "1"},
                         {"OMP_WAIT_POLICY", "ACTIVE"},
                         {"AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "0"}});
  EXPECT_EQ(environment.at("PYTORCH_ENABLE_MPS_FALLBACK"), "1");
  EXPECT_EQ(environment.at("PYTORCH_MPS_FAST_MATH"), "1");
  EXPECT_EQ(environment.at("OMP_WAIT_POLICY"), "ACTIVE");
  EXPECT_EQ(environment.at("AGX_RELAX_CDM_CTXSTORE_TIMEOUT"), "0");
}

TEST(WorkerEnvironment, AJobMayOptInToTheCpuAndNoNumberIsReplaced) {
  EXPECT_EQ(WorkerEnvironment({}, true).at("PYTORCH_ENABLE_MPS_FALLBACK"), "1");
  EXPECT_EQ(WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "0"}}, true)
                .at("PYTORCH_ENABLE_MPS_FALLBACK"),
            "1");
  // torch calls std::stoi on it while it loads.
  EXPECT_EQ(WorkerEnvironment({{"PYTORCH_ENABLE_MPS_FALLBACK", "yes"}})
                .at("PYTORCH_ENABLE_MPS_FALLBACK"),
            "0");
  // torch throws "invalid low watermark ratio" otherwise.
  const auto low = [](const char* high) {
    return WorkerEnvironment({{"PYTORCH_MPS_HIGH_WATERMARK_RATIO", high}})
        .at("PYTORCH_MPS_LOW_WATERMARK_RATIO");
  };
  EXPECT_EQ(low("0.5"), "0.5");
  EXPECT_EQ(low("0.8"), "0.75");
  EXPECT_EQ(low("0"), "0.75") << "no limit";
  const Environment once = WorkerEnvironment({}, true);
  EXPECT_EQ(WorkerEnvironment(once, true), once);
}

TEST(WithoutSecrets, KeepsWhatAWorkerNeedsAndNothingElse) {
  const Environment needed = {{"PATH", "/bin"},
                              {"HOME", "/home/u"},
                              {"LANG", "C"},
                              {"LC_ALL", "C.UTF-8"},
                              {"TZ", "UTC"},
                              {"HF_HOME", "/srv/hf"},
                              {"HF_HUB_OFFLINE", "1"},
                              {"XDG_CACHE_HOME", "/c"},
                              {"LD_LIBRARY_PATH", "/cuda"},
                              {"OMP_NUM_THREADS", "4"},
                              {"PYTORCH_CUDA_ALLOC_CONF", "x"},
                              {"CUDA_VISIBLE_DEVICES", "0"},
                              {"ASAN_OPTIONS", "x"}};
  Environment all = needed;
  for (const char* secret :
       {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "NOTIFY_SOCKET",
        "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST",
        "HTTPS_PROXY", "CREDENTIALS_DIRECTORY", "MPSD_TOKEN", "LD_PRELOAD",
        "DYLD_INSERT_LIBRARIES", "TORCH_HUB_TOKEN", "CUDA_API_KEY", "PATHS",
        "lc_all", "", "SOMETHING_NEW"}) {
    EXPECT_FALSE(IsKeptForWorker(secret)) << secret;
    all[secret] = "canary";
  }
  EXPECT_EQ(WithoutSecrets(all), needed);
}

TEST(GoldenEnvironment, HasWhatMattersAndOfASecretThatItIsSet) {
  for (const char* name :
       {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_ENABLE_MPS_FALLBACK",
        "DYLD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "LANG", "LC_ALL", "TZ",
        "XDG_CACHE_HOME", "HF_HOME", "HF_TOKEN"}) {
    EXPECT_TRUE(Matters(name)) << name;
  }
  for (const char* name : {"PATH", "HOME", "AWS_SECRET_ACCESS_KEY", "OMP",
                           "MY_OMP_THREADS", "SSH_AUTH_SOCK", ""}) {
    EXPECT_FALSE(Matters(name)) << name;
  }
  const Environment environment =
      ThoseThatMatter({{"HF_TOKEN", "hf_abc"},
                       {"HF_ENDPOINT", "https://ann:pw@hub.example"},
                       {"TORCH_HUB_API_KEY", "k"},
                       {"LC_PASSWORD", "p"},
                       {"OMP_NUM_THREADS", "8"},
                       {"GITHUB_TOKEN", "none of ours"}});
  EXPECT_THAT(
      environment,
      ElementsAre(Pair("HF_ENDPOINT", "set"), Pair("HF_TOKEN", "set"),
                  Pair("LC_PASSWORD", "set"), Pair("OMP_NUM_THREADS", "8"),
                  Pair("TORCH_HUB_API_KEY", "set")));
}

constexpr size_t kBlock = 64 << 20;

TEST(FootprintWatch, ReportsThePeakWhileItLives) {
  EXPECT_EQ(PeakFootprintBytes(), std::nullopt);
  {
    const FootprintWatch watch;
    const auto before = PeakFootprintBytes();
    ASSERT_TRUE(before);
    // The block is there for longer and longer, up to a minute, until the
    // watch's thread has looked: a busy machine may hold that thread up.
    const int64_t much = *before + static_cast<int64_t>(kBlock) / 2;
    absl::Duration held = absl::Milliseconds(300);
    for (; *PeakFootprintBytes() <= much && held < absl::Minutes(1);
         held *= 2) {
      const auto block = std::make_unique<char[]>(kBlock);
      std::memset(block.get(), 1, kBlock);
      absl::SleepFor(held);
    }
    EXPECT_GT(*PeakFootprintBytes(), much);
  }
  EXPECT_EQ(PeakFootprintBytes(), std::nullopt);
}

TEST(ProcessLimits, AreTheSoftOnesOfThisProcess) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(ReadProcessLimits().descriptors, 200);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(ReadProcessLimits().descriptors, 200);
}

using Kind = DeviceError::Kind;

// A text as torch or macOS words it, and what it means: one at least for each
// row of the table.
struct Case {
  const char* text;
  Kind kind;
  const char* advice;  // a part of it
};
constexpr Case kCases[] = {
    {"MPS backend out of memory (MPS allocated: 5.20 GB, other allocations: "
     "1.10 GB, max allowed: 6.00 GB). Tried to allocate 1.00 GB on private "
     "pool.",
     Kind::kOutOfMemory, "gradient_checkpointing"},
    {"CUDA error: out of memory", Kind::kOutOfMemory, "max_length"},
    {"CUDA out of memory. Tried to allocate 2.00 GiB", Kind::kOutOfMemory,
     "max_length"},
    {"[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate "
     "memory: you tried to allocate 99 bytes.",
     Kind::kOutOfMemory, "max_length"},
    {"Error: command buffer exited with error status.\n\tThe Metal Performance "
     "Shaders operations encoded on it may not have completed.\n\tError: "
     "(null)\n\tInsufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
     Kind::kOutOfMemory, "Metal dropped the work"},
    {"Error: command buffer exited with error status.\n\tInsufficient Memory",
     Kind::kOutOfMemory, "Metal dropped the work"},
    {"Invalid buffer size: 12.00 GB", Kind::kOutOfMemory, "2^31"},
    {"MPSGaph does not support tensor dims larger than INT_MAX",
     Kind::kOutOfMemory, "2^31"},
    {"MPSGraph does not support tensor dims larger than INT_MAX",
     Kind::kOutOfMemory, "2^31"},
    {"/AppleInternal/Library/BuildRoots/x/MPSNDArray.mm:850: failed assertion "
     "`[MPSNDArray initWithDevice:descriptor:isTextureBacked:] Error: total "
     "bytes of NDArray > 2**32'",
     Kind::kOutOfMemory, "4 GiB"},
    {"Execution of the command buffer was aborted due to an error during "
     "execution. Impacting Interactivity "
     "(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)",
     Kind::kTransient, "display"},
    {"aborted due to an error: Impacting Interactivity", Kind::kTransient,
     "display"},
    {"Caused GPU Timeout Error "
     "(00000002:kIOGPUCommandBufferCallbackErrorTimeout)",
     Kind::kTransient, "too long"},
    {"Caused GPU Timeout Error", Kind::kTransient, "too long"},
    {"Caused GPU Address Fault Error "
     "(0000000b:kIOGPUCommandBufferCallbackErrorPageFault)",
     Kind::kTransient, "reset"},
    {"Ignored (for causing prior/excessive GPU errors) "
     "(00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)",
     Kind::kTransient, "reset"},
    {"Error: command buffer exited with error status.", Kind::kTransient,
     "last checkpoint"},
    {"the device dropped work without an error (its canary was not written): "
     "out of memory or a GPU reset",
     Kind::kTransient, "last checkpoint"},
    {"The operator 'aten::linalg_eig' is not currently implemented for the MPS "
     "device. If you want this op to be considered for addition please comment "
     "on the tracker",
     Kind::kUnsupported, "allow_cpu_fallback"},
    {"index out of range in self", Kind::kBadIndex, "vocab_size"},
    {"[enforce fail] INDICES element is out of DATA bounds, id=9 axis_dim=8",
     Kind::kBadIndex, "vocab_size"},
    {"index 49160 is out of bounds for dimension 0 with size 49152",
     Kind::kBadIndex, "vocab_size"},
    {"cross_entropy: target 9 is out of bounds for 8 classes", Kind::kBadIndex,
     "beyond its table"},
    {"IndexKernelUtils.cu:16: vectorized_gather_kernel: block: [0,0,0], "
     "Assertion `ind >=0 && ind < ind_dim_size && \"vectorized gather kernel "
     "index out of bounds\"` failed.",
     Kind::kBadIndex, "vocab_size"},
    {"Indexing.cu:1553: indexSelectSmallIndex: block: [1,0,0], Assertion "
     "`srcIndex < srcSelectDimSize` failed.",
     Kind::kBadIndex, "vocab_size"},
    {"CUDA error: device-side assert triggered\nCUDA kernel errors might be "
     "asynchronously reported at some other API call",
     Kind::kBadIndex, "vocab_size"},
    {"loc(\"mps_multiply\"): error: 'mps.multiply' op requires the same "
     "element type for all operands and results",
     Kind::kTransient, "assertion"},
    {"MPSGraph.mm:1: failed assertion `bad axis'", Kind::kTransient,
     "assertion"},
    {"/x/MPSCore/Types/MPSNDArray.mm:99: failed assertion `[MPSTemporaryND"
     "Array] buffer is not large enough'",
     Kind::kTransient, "assertion"},
    {"MPSNDArray.mm: error: the shape is wrong", Kind::kTransient, "assertion"},
    {"LLVM ERROR: Failed to infer result type(s). mps.matmul", Kind::kTransient,
     "assertion"},
    {"Compiler encountered XPC_ERROR_CONNECTION_INVALID (is the OS shutting "
     "down?) MTLCompilerService",
     Kind::kTransient, "launchd"},
    {"the host is out of memory", Kind::kOutOfMemory, "max_length"},
};

TEST(FindDeviceError, KnowsEveryTextAndNoOther) {
  for (const Case& c : kCases) {
    const auto found = FindDeviceError(c.text);
    ASSERT_TRUE(found.has_value()) << c.text;
    EXPECT_EQ(found->kind, c.kind) << c.text;
    EXPECT_NE(found->advice.find(c.advice), std::string::npos) << c.text << "\n"
                                                               << found->advice;
  }
  std::set<const DeviceErrorRow*> met;
  for (const Case& c : kCases) {
    const std::string_view text = c.text;
    for (const DeviceErrorRow& row : DeviceErrorTable()) {
      bool fits = true;
      for (std::string_view sign : row.signs) {
        fits = fits && text.find(sign) != std::string_view::npos;
      }
      if (!fits) continue;
      met.insert(&row);
      break;  // the first is the one that counts
    }
  }
  for (const DeviceErrorRow& row : DeviceErrorTable()) {
    EXPECT_TRUE(met.contains(&row)) << row.signs[0];
  }
  for (const char* text :
       {"", "step 8/8  epoch 1.00  loss 0.5", "train.jsonl:3: no field",
        "jinja: list index out of range",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"}) {
    EXPECT_FALSE(FindDeviceError(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace mpsd::host
