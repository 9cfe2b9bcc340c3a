// SPDX-License-Identifier: Apache-2.0
#include "client/text/format.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "absl/time/clock.h"

namespace mpsd::client {
namespace {

TEST(FormatTest, StatesAndKinds) {
  EXPECT_EQ(StateName(v1::JOB_STATE_QUEUED), "QUEUED");
  EXPECT_EQ(StateName(v1::JOB_STATE_UNSPECIFIED), "UNSPECIFIED");
  EXPECT_EQ(StateName(static_cast<v1::JobState>(99)), "?");
  EXPECT_TRUE(IsFinal(v1::JOB_STATE_FAILED));
  EXPECT_FALSE(IsFinal(v1::JOB_STATE_RUNNING));
  EXPECT_EQ(KindName(v1::JOB_KIND_UNSPECIFIED), "training");
  EXPECT_EQ(KindName(v1::JOB_KIND_TRAINING), "training");
  EXPECT_EQ(KindName(v1::JOB_KIND_BATCH_SWEEP), "batch sweep");
  EXPECT_EQ(KindName(static_cast<v1::JobKind>(99)), "kind 99");
  EXPECT_FALSE(IsStudy(v1::JOB_KIND_UNSPECIFIED));
  EXPECT_FALSE(IsStudy(v1::JOB_KIND_TRAINING));
  EXPECT_TRUE(IsStudy(v1::JOB_KIND_SMOKE));
}

TEST(FormatTest, SecondsInTheUnitThatFits) {
  EXPECT_EQ(Seconds(0), "0.0s");
  EXPECT_EQ(Seconds(9.94), "9.9s");
  EXPECT_EQ(Seconds(9.96), "10s");
  EXPECT_EQ(Seconds(59.6), "1m00s");
  EXPECT_EQ(Seconds(80), "1m20s");
  EXPECT_EQ(Seconds(3 * 3600 + 5 * 60), "3h05m");
  EXPECT_EQ(Seconds(86400 * 2 + 4 * 3600), "2d04h");
  EXPECT_EQ(Seconds(-1), "-");
  EXPECT_EQ(Seconds(std::nan("")), "-");
}

TEST(FormatTest, CountsWithCommas) {
  EXPECT_EQ(Count(0), "0");
  EXPECT_EQ(Count(999.6), "1,000");
  EXPECT_EQ(Count(1234567), "1,234,567");
  EXPECT_EQ(Count(-1234), "-1,234");
  EXPECT_EQ(Count(INFINITY), "-");
}

TEST(FormatTest, ANarrowTableKeepsSomeOfItsLastColumn) {
  Table table({"ID", "NAME"});
  table.Add({"12345678", "SmolLM2-135M-Instruct"});
  for (const int columns : {10, 26}) {
    std::ostringstream out;
    table.Print(out, columns);
    EXPECT_EQ(out.str(), "ID        NAME\n12345678  SmolLM2-135M-In…\n");
  }
}

TEST(FormatTest, CutsBetweenCharacters) {
  EXPECT_EQ(Width("naïve"), 5);
  EXPECT_EQ(Cut("naïve", 5), "naïve");
  EXPECT_EQ(Cut("naïve", 4), "naï…");
  EXPECT_EQ(Cut("naïve", 1), "…");
  EXPECT_EQ(Cut("naïve", 0), "");
  EXPECT_EQ(Width("気分🚀x"), 7);
  EXPECT_EQ(Cut("気分🚀x", 7), "気分🚀x");
  EXPECT_EQ(Cut("気分🚀x", 6), "気分…");
  EXPECT_EQ(Cut("気分🚀x", 2), "…");
  EXPECT_EQ(Width("שלום ━█⠿◆"), 9);
}

TEST(FormatTest, NothingSteersTheTerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\nc\td"), "a\\x1b[2Jb c d");
  EXPECT_EQ(Printable("\u009b\u202e\xff"), "\\u009b\\u202e\\xff");
  EXPECT_EQ(PrintableLines("a\nb\x07"), "a\n    b\\x07");
  EXPECT_EQ(Printable("naïve"), "naïve");
}

constexpr double kLargest = std::numeric_limits<double>::max();

struct Case {
  std::vector<double> values;
  int columns;
  const char* blocks;
  const char* plain;
};

TEST(BarTest, FillsWithProgress) {
  EXPECT_EQ(Bar(0, 4, "x", 17, true), "  0% ────────── x");
  EXPECT_EQ(Bar(1, 4, "x", 17, true), " 25% ━━──────── x");
  EXPECT_EQ(Bar(4, 4, "x", 17, true), "100% ━━━━━━━━━━ x");
  EXPECT_EQ(Bar(9, 4, "x", 17, true), "100% ━━━━━━━━━━ x");
  EXPECT_EQ(Bar(1, 4, "x", 17, false), " 25% ##-------- x");
  EXPECT_EQ(Bar(0, 0, "x", 17, true), "  0% ────────── x");
  EXPECT_EQ(Bar(1, 4, "0123456789", 20, true), " 25% 0123456789");
  EXPECT_EQ(Bar(1, 4, "0123456789", 10, true), " 25% 0123…");
}

TEST(BarTest, NeverWiderThanTheScreen) {
  for (int columns = 1; columns < 120; ++columns) {
    EXPECT_LE(Width(Bar(3, 7, "step 3/7  loss 1.0", columns, true)), columns);
  }
}

TEST(SparklineTest, Golden) {
  const Case cases[] = {
      {{}, 9, "", ""},
      {{3}, 9, "▅", "="},
      {{2, 2, 2}, 9, "▅▅▅", "==="},
      {{0, 1, 2, 3, 4, 5, 6, 7}, 9, "▁▂▃▄▅▆▇█", "_.:-=+*#"},
      {{9, 9, 9, 2, 1}, 2, "█▁", "#_"},
      {{9, 2, 1}, 0, "", ""},
      {{9, 2, 1}, -5, "", ""},
      {{-kLargest, 0, kLargest}, 9, "▁▅█", "_=#"},
      {{1, NAN, 2, INFINITY, 1}, 9, "▁ █ ▁", "_ # _"},
      {{NAN, -INFINITY}, 9, "  ", "  "},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Sparkline(c.values, c.columns, true), c.blocks);
    EXPECT_EQ(Sparkline(c.values, c.columns, false), c.plain);
  }
}

using Json = nlohmann::ordered_json;

TEST(CsvLine, WritesEachKindOfValue) {
  EXPECT_EQ(CsvLine({}), "\r\n");
  EXPECT_EQ(CsvLine({"a", 1, -2.5, nullptr, true, ""}), "a,1,-2.5,,true,\r\n");
  EXPECT_EQ(CsvLine({Json{{"k", "v"}}, Json::array({"a", "b"})}),
            "\"{\"\"k\"\":\"\"v\"\"}\",\"[\"\"a\"\",\"\"b\"\"]\"\r\n");
  EXPECT_EQ(CsvLine({"a,b", "say \"x\"", "two\nlines", "ünï"}),
            "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",ünï\r\n");
}

TEST(CsvLine, NoNameIsAFormulaOrSteersATerminal) {
  EXPECT_EQ(CsvLine({"=1+1", "+1", "-1", "@x", "\tx", "a=b", -1}),
            "'=1+1,'+1,'-1,'@x,'\tx,a=b,-1\r\n");
  EXPECT_EQ(CsvLine({"\x1b[2J", "a\rb", "\xff"}), "\\x1b[2J,a\\rb,\\xff\r\n");
}

TEST(JsonTest, EveryFieldOfAJobIsThere) {
  v1::Job job;
  const auto json = ToJson(job);
  const auto& type = *v1::Job::descriptor();
  EXPECT_EQ(static_cast<int>(json.size()), type.field_count());
  EXPECT_EQ(json.begin().key(), "id");
  EXPECT_TRUE(json["state"].is_null());
  EXPECT_TRUE(json["progress"].is_null());
  EXPECT_TRUE(json["eval_loss_before"].is_null());
  EXPECT_EQ(json["priority"], 0);
}

TEST(JsonTest, Values) {
  v1::Job job;
  job.set_id("J");
  job.set_state(v1::JOB_STATE_QUEUED);
  (*job.mutable_labels())["team"] = "nlp";
  job.mutable_create_time()->set_seconds(1767323045);
  job.mutable_create_time()->set_nanos(250'000'000);
  job.mutable_progress()->set_tokens(1LL << 40);
  job.set_queue_position(0);
  job.set_spec_json(R"({"model": "m", "lora": {"r": 4}})");
  const auto json = ToJson(job);
  EXPECT_EQ(json["state"], "QUEUED");
  EXPECT_EQ(json["labels"].dump(), R"({"team":"nlp"})");
  EXPECT_EQ(json["create_time"], "2026-01-02T03:04:05.25Z");
  EXPECT_EQ(json["progress"]["tokens"], 1LL << 40);
  EXPECT_EQ(json["queue_position"], 0);
  EXPECT_EQ(json["spec"]["lora"]["r"], 4);
  EXPECT_FALSE(json.contains("spec_json"));
}

TEST(JsonTest, OfAOneofTheOneThatIsSet) {
  v1::JobEvent event;
  event.set_sequence(7);
  event.mutable_evaluated()->set_eval_loss(0.5);
  EXPECT_EQ(ToJson(event).dump(), R"({"sequence":7,"time":null,)"
                                  R"("evaluated":{"step":0,"eval_loss":0.5,)"
                                  R"("metrics":{}}})");
}

TEST(JsonTest, NonFiniteNumbersAreNull) {
  v1::Evaluated evaluated;
  evaluated.set_eval_loss(std::nan(""));
  (*evaluated.mutable_metrics())["pearson"] = std::nan("");
  EXPECT_EQ(ToJson(evaluated).dump(),
            R"({"step":0,"eval_loss":null,"metrics":{"pearson":null}})");
}

TEST(JsonTest, AStateOfANewerDaemonHasNoName) {
  v1::StateChanged state;
  state.set_state(static_cast<v1::JobState>(99));
  EXPECT_NO_THROW(ToJson(state).dump());
}

TEST(HostText, SaysWhatTheMachineSays) {
  v1::HostReading host;
  EXPECT_EQ(HostText(host), "");
  host.set_on_battery(true);
  host.set_battery_ratio(0.625);
  host.set_low_power_mode(true);
  host.set_thermal_level(v1::THERMAL_LEVEL_HEAVY);
  host.set_memory_pressure(v1::MEMORY_PRESSURE_WARN);
  host.set_swap_used_bytes(1'200'000'000);
  host.set_gpu_utilization_ratio(0.5);
  host.set_gpu_resets(2);
  host.set_wired_limit_bytes(30'000'000'000);
  host.set_user_idle_seconds(125);
  EXPECT_EQ(
      HostText(host),
      "battery 62%, Low Power Mode, heat heavy, memory pressure warn, "
      "1.12 GiB swap, GPU busy 50%, 2 GPU resets, GPU may wire 27.94 GiB, "
      "idle for 2m05s");
}

TEST(PauseText, HasWordsForEveryReason) {
  std::set<std::string> texts;
  for (int i = v1::PauseReason_MIN + 1; i <= v1::PauseReason_MAX; ++i) {
    v1::Pause pause;
    pause.add_reasons(static_cast<v1::PauseReason>(i));
    texts.insert(PauseText(pause, absl::Now()));
  }
  EXPECT_EQ(static_cast<int>(texts.size()), v1::PauseReason_MAX);
  for (const std::string& text : texts) {
    EXPECT_EQ(text.find("does not know"), std::string::npos);
  }
}

// 2026-01-02 03:04:05 UTC.
const absl::Time kToday = absl::FromUnixSeconds(1767323045);

TEST(IdentityText, OfAnyServer) {
  v1::WhoAmIResponse who;
  who.set_role(static_cast<v1::Role>(77));
  who.set_way(static_cast<v1::Way>(77));
  EXPECT_EQ(IdentityText(who, kToday),
            "-, role 77, in a way this mpsctl does not know");
  who.set_user("a\x1b[2J\nb");
  who.set_way(v1::WAY_TOKEN);
  who.mutable_token()->set_id("\x1b]0;x\x07");
  const std::string text = IdentityText(who, kToday);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(DaysText, RoundsANewTokenUpAndHasHoursBelowTwoDays) {
  EXPECT_EQ(DaysText(absl::Hours(90 * 24 - 2)), "90 days");
  EXPECT_EQ(DaysText(absl::Hours(48)), "2 days");
  EXPECT_EQ(DaysText(absl::Hours(47) + absl::Minutes(5)), "47h05m");
  EXPECT_EQ(DaysText(absl::Hours(1) - absl::Seconds(3)), "1h00m");
}

TEST(AdviceAfterFailure, RetryIsForWhatMayEndOtherwise) {
  v1::Job job;
  job.set_id("X");
  job.set_checkpoint_step(12);
  for (const auto& [reason, advice] :
       {std::pair("Rejected", "`mpsctl clone X --set FIELD=VALUE`"),
        {"OutOfMemory", "--set training.per_device_train_batch_size=N`"},
        {"NonFinite", "--set training.learning_rate=RATE`"},
        {"TimeLimit", "raised the limit of its hours, `mpsctl retry X`"},
        {"Crashed", "`mpsctl retry X` resumes from step 12."},
        {"Machine", "`mpsctl retry X` resumes from step 12."}}) {
    job.set_exit_reason(reason);
    EXPECT_THAT(AdviceAfterFailure(job), testing::HasSubstr(advice));
  }
}

TEST(CertificateText, WarnsUnderFourteenDays) {
  const auto in = [](int days) {
    return CertificateText(kToday + absl::Hours(24 * days + 1), kToday);
  };
  EXPECT_EQ(in(365), "until 2027-01-02 (365 days)");
  EXPECT_EQ(in(14), "until 2026-01-16 (14 days)");
  EXPECT_EQ(in(13),
            "until 2026-01-15 (13 days): have its admin run `mpsd tls renew` "
            "SOON");
  EXPECT_EQ(in(1),
            "until 2026-01-03 (25h00m): have its admin run `mpsd tls renew` "
            "SOON");
  EXPECT_EQ(in(-2),
            "EXPIRED on 2025-12-31: its admin renews it with `mpsd tls renew`");
}

}  // namespace
}  // namespace mpsd::client
