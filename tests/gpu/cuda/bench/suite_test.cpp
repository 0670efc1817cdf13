// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/cuda/suite.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

using namespace troupe::bench;
using Json = nlohmann::json;

namespace {

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("cuda bench: every part runs with tiny shapes and says what it should") {
  std::ostringstream text;
  CHECK(run_suite({.is_tiny = true}, text));
  std::set<std::string> ids;
  std::size_t num_goals = 0;
  const auto lines = lines_of(text.str());
  REQUIRE(!lines.empty());
  CHECK(lines.front().at("kind") == "device");
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const Json& line = lines[i];
    CAPTURE(line.dump());
    REQUIRE(line.at("kind") == "measurement");
    CHECK(line.at("tiny") == true);
    CHECK(line.at("value").is_number());
    CHECK_FALSE(line.at("title").get<std::string>().empty());
    CHECK_FALSE(line.at("unit").get<std::string>().empty());
    CHECK(line.at("details").is_object());
    CHECK(ids.insert(line.at("id")).second);  // none twice
    CHECK(line.at("goal").is_null() == line.at("met").is_null());
    num_goals += line.at("goal").is_null() ? 0 : 1;
  }
  for (const char* id : {"limit_read",
                         "limit_copy",
                         "limit_product",
                         "limit_to_device",
                         "limit_to_host",
                         "decode_attention_64x16384",
                         "decode_attention_64x256",
                         "mixed_attention_32x8_of_2048",
                         "prefill_attention_8192",
                         "layer_norm_1x10",
                         "lstm_step_512",
                         "short_convolution_64",
                         "short_convolution_8192",
                         "completion_polled_word",
                         "completion_polled_of_host_function",
                         "train_slowed_by_polled_word",
                         "train_slowed_by_host_function",
                         "pages_from_host",
                         "pages_to_host",
                         "pages_from_host_wide"}) {
    CAPTURE(id);
    CHECK(ids.contains(id));
  }
  CHECK(num_goals == 15);
}

TEST_CASE("cuda bench: only the parts that were asked for run, behind the limits") {
  std::ostringstream text;
  CHECK(run_suite({.is_tiny = true, .parts = {"page_copies"}}, text));
  for (const Json& line : lines_of(text.str())) {
    const std::string id = line.value("id", "limit_");
    CHECK((id.starts_with("limit_") || id.starts_with("pages_")));
  }
  CHECK_THROWS_AS(run_suite({.is_tiny = true, .parts = {"swop"}}, text), std::invalid_argument);
}

TEST_CASE("cuda bench: goals are bounds, and what is no number meets none") {
  CHECK(Goal{.at_least = 0.9}.is_met_by(0.9));
  CHECK_FALSE(Goal{.at_least = 0.9}.is_met_by(0.89));
  CHECK(Goal{.at_most = 3.0}.is_met_by(-1.0));
  CHECK_FALSE(Goal{.at_most = 3.0}.is_met_by(std::nan("")));
}

TEST_CASE("cuda bench: a share of a limit that was not measured is no measurement") {
  std::ostringstream text;
  Recorder recorder(text, false);
  recorder.add({.id = "read",
                .title = "",
                .value = std::numeric_limits<double>::infinity(),
                .unit = "",
                .goal = Goal{.at_least = 0.85}});
  const Json line = lines_of(text.str()).at(0);
  CHECK(line.at("kind") == "not_run");
  CHECK(line.at("id") == "read");
}
