// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace troupe;

TEST_CASE("metrics: a counter, a gauge and a histogram appear with the model's label") {
  const Metrics metrics("demo");
  metrics.generation_tokens.add(3);
  metrics.pages_free.set(7);
  metrics.time_to_first_token.observe(0.25);
  const auto text = metrics.expose();
  CHECK(text.find("troupe_generation_tokens_total{model_name=\"demo\"} 3") != std::string::npos);
  CHECK(text.find("troupe_kv_pages{model_name=\"demo\",state=\"free\"} 7") != std::string::npos);
  CHECK(text.find("troupe_time_to_first_token_seconds_count{model_name=\"demo\"} 1") != std::string::npos);
}

TEST_CASE("metrics: a model's name can't forge lines") {
  const Metrics metrics("a\"} 1\nforged 2");
  CHECK(metrics.expose().find("\nforged") == std::string::npos);
}
