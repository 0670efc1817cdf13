// SPDX-License-Identifier: Apache-2.0
#include "loadgen/experiment/serving_flags.hpp"

#include <charconv>
#include <cstdint>

#include "loadgen/setting_check.hpp"

namespace troupe::loadgen {
namespace {

std::uint32_t count_of(const std::string& flag, const std::string& text) {
  std::uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size())
    refuse_setting(flag, "a whole number", "'" + text + "'");
  return count;
}

void set_policy(const std::string& name, ServingSettings& serving) {
  serving.prefix_cache = name != "none";
  serving.cache_policy = name == "lru" ? EvictionPolicy::kLru : EvictionPolicy::kValue;
}

void apply(const std::string& flag, const std::string& value, ServingSettings& serving) {
  if (flag == "--max-batch-sequences")
    serving.batch.max_sequences = count_of(flag, value);
  else if (flag == "--max-batch-tokens")
    serving.batch.max_tokens = count_of(flag, value);
  else if (flag == "--prefill-chunk")
    serving.batch.prefill_chunk = count_of(flag, value);
  else if (flag == "--max-in-flight")
    serving.max_in_flight = count_of(flag, value);
  else if (flag == "--max-waiting")
    serving.max_waiting = count_of(flag, value);
  else if (flag == "--max-queue-seconds")
    serving.max_queue_time = std::chrono::seconds(count_of(flag, value));
  else if (flag == "--look-ahead-pages")
    serving.pages.look_ahead_pages = count_of(flag, value);
  else if (flag == "--cache-policy")
    set_policy(value, serving);
  else if (flag == "--cache-copy-ahead-percent")
    serving.copy_ahead_below = count_of(flag, value) / 100.0;
  else if (flag == "--cache-keep-free-percent")
    serving.pages.kept_free = static_cast<std::uint32_t>(serving.num_pages * (count_of(flag, value) / 100.0));
}

}  // namespace

void apply_serving_flags(const std::vector<std::string>& argv, ServingSettings& serving) {
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const auto equals = argv[i].find('=');
    const auto flag = argv[i].substr(0, equals);
    if (flag == "--separate-prefill") {  // needs no value
      serving.batch.separates_prefill = equals == std::string::npos || argv[i].substr(equals + 1) == "true";
    } else if (equals != std::string::npos) {
      apply(flag, argv[i].substr(equals + 1), serving);
    } else if (i + 1 < argv.size()) {
      apply(flag, argv[i + 1], serving);
    }
  }
}

}  // namespace troupe::loadgen
