// SPDX-License-Identifier: Apache-2.0
#include "policy/serving_settings.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>

using namespace troupe;

namespace {

const Setting<ServingSettings>& setting_of(std::string_view flag) {
  for (const auto& setting : serving_table())
    if (setting.flag == flag) return setting;
  FAIL("no such flag");
  return serving_table().front();
}

// What is wrong with it; empty: nothing.
std::string set(ServingSettings& settings, std::string_view flag, std::string_view text) {
  const auto& setting = setting_of(flag);
  return set_place(setting.field.in(settings), setting.rule(), text).value_or("");
}

std::string text(ServingSettings& settings, std::string_view flag) {
  const auto& setting = setting_of(flag);
  return text_of(setting.field.in(settings), setting.rule());
}

}  // namespace

TEST_CASE("settings: a duration is whole seconds or days, a share whole percents") {
  ServingSettings settings;
  CHECK(set(settings, "--max-queue-seconds", "90") == "");
  CHECK(settings.max_queue_time == std::chrono::minutes(1) + std::chrono::seconds(30));
  CHECK(set(settings, "--cache-keep-days", "2") == "");
  CHECK(settings.keep_for == std::chrono::days(2));
  CHECK(set(settings, "--cache-keep-free-percent", "7") == "");
  CHECK(settings.keep_free == 0.07);
  CHECK(text(settings, "--max-queue-seconds") == "90");
  CHECK(text(settings, "--cache-keep-days") == "2");
  CHECK(text(settings, "--cache-keep-free-percent") == "7");
  CHECK(set(settings, "--cache-keep-free-percent", "91") == "expected a whole number from 0 to 90, got '91'");
  CHECK(set(settings, "--cache-keep-free-percent", "0.1") != "");
  CHECK(set(settings, "--max-queue-seconds", "0") == "expected a whole number from 1 to 3600, got '0'");
  CHECK(settings.keep_free == 0.07);
}

TEST_CASE("settings: a choice is one of its words") {
  ServingSettings settings;
  for (const char* word : {"none", "lru", "value"}) {
    CHECK(set(settings, "--cache-policy", word) == "");
    CHECK(text(settings, "--cache-policy") == word);
  }
  CHECK(settings.cache_policy == EvictionPolicy::kValue);
  CHECK(set(settings, "--cache-policy", "fifo") == "expected one of value, lru, none, got 'fifo'");
}

TEST_CASE("settings: what is left to the device is auto, and no number that may be asked for") {
  ServingSettings settings;
  for (const char* flag : {"--max-batch-sequences", "--max-in-flight", "--reserved-percent"}) {
    CHECK(set(settings, flag, "3") == "");
    CHECK(text(settings, flag) == "3");
    CHECK(set(settings, flag, "auto") == "");
    CHECK(text(settings, flag) == "auto");
  }
  CHECK(settings.max_batch_sequences == 0);
  CHECK(settings.max_in_flight == 0);
  CHECK(settings.reserved_quantile == 0);
  CHECK(set(settings, "--max-in-flight", "0") == "expected auto or a whole number from 1 to 16, got '0'");
  CHECK(set(settings, "--look-ahead-pages", "auto") == "expected a whole number from 0 to 64, got 'auto'");
}

TEST_CASE("settings: the share that is to fit follows costs of what is set aside, but for longest_first") {
  ServingSettings settings;
  CHECK(settings.aimed_quantile() == 0.6);
  settings.reservation = ReservationPolicy::kPredicted;
  CHECK(settings.aimed_quantile() == 0);
  settings.admission_order = AdmissionOrder::kShortestFirst;
  CHECK(settings.aimed_quantile() == 0);
  settings.admission_order = AdmissionOrder::kLongestFirst;
  CHECK(settings.aimed_quantile() == 0.6);
  settings.reserved_quantile = 0.9;
  CHECK(settings.aimed_quantile() == 0.9);
}

TEST_CASE("settings: a number that the struct can't hold is refused, limited or not") {
  ServingSettings settings;
  const auto& setting = setting_of("--max-waiting");
  const auto place = setting.field.in(settings);
  CHECK_FALSE(set_place(place, unlimited(setting.rule()), "4294967295"));
  CHECK(settings.max_waiting == 4294967295);
  CHECK(set_place(place, unlimited(setting.rule()), "4294967296") ==
        "expected a whole number, got '4294967296'");
  const auto& factor = setting_of("--itl-factor");
  CHECK(set_place(factor.field.in(settings), unlimited(factor.rule()), "inf") ==
        "expected a number, got 'inf'");
}

TEST_CASE("settings: each has names of its own, and a default that may be said") {
  for (const auto& setting : serving_table()) {
    CHECK(&setting == &setting_of(setting.flag));
    ServingSettings settings;
    CHECK(set(settings, setting.flag, text(settings, setting.flag)) == "");
  }
  CHECK(environment_name("scheduler.max_waiting") == "TROUPE_SCHEDULER_MAX_WAITING");
  CHECK(profile_name("--max-waiting") == "max_waiting");
}
