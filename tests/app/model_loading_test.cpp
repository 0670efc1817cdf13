// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_loading.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/file_text.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;
using namespace troupe::test;
using nlohmann::json;

namespace {

// As the demo model, but for what its files say of tokens that end an answer. Without weights.
std::vector<std::int32_t> ends_of(const json& config_ids, const std::string& tokenizer_end) {
  const std::filesystem::path demo = TROUPE_SOURCE_DIR "/models/demo";
  const TemporaryDirectory directory;
  json config = json::parse(file_text(demo / "config.json"));
  config["eos_token_id"] = config_ids;
  json tokenizer = json::parse(file_text(demo / "tokenizer_config.json"));
  tokenizer["eos_token"] = tokenizer_end;
  directory.write("config.json", config.dump());
  directory.write("tokenizer_config.json", tokenizer.dump());
  directory.write("tokenizer.json", file_text(demo / "tokenizer.json"));
  Options options;
  options.device = "noop";
  options.models = {{.dir = directory.path().string()}};
  return load_model(options).served.eos_tokens;
}

}  // namespace

TEST_CASE("model loading: the tokenizer's own end ends answers, beside the configuration's") {
  CHECK(ends_of(0, "<|end|>") == std::vector<std::int32_t>{0, 4});
  CHECK(ends_of(json::array({4, 0}), "<|end|>") == std::vector<std::int32_t>{4, 0});
  CHECK(ends_of(nullptr, "<|end|>") == std::vector<std::int32_t>{4});
}
