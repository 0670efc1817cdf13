// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_set.hpp"

#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "app/options/configuration_error.hpp"
#include "tests/support/small_embedder.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace troupe;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Options in_processes(std::vector<ModelOptions> models) {
  Options options;
  options.worker_placement = "child";
  options.models = std::move(models);
  return options;
}

}  // namespace

TEST_CASE("model set: one model keeps device and memory, whatever its threads") {
  const Options alone = options_of_model(in_processes({{.dir = "a", .threads = 2}}), 0, 4);
  CHECK(alone.device == "auto");
  CHECK(alone.memory_bytes == 0);
  CHECK(alone.threads == 2);
  CHECK(alone.first_cpu == 0);
  CHECK(alone.pin_threads);
}

TEST_CASE("model set: one model has its share of --memory") {
  Options options;
  options.models = {{.dir = "a", .memory_share = 0.25}};
  options.memory_bytes = 8 * kGiB;
  const Options alone = options_of_model(options, 0, 4);
  CHECK(alone.memory_bytes == 2 * kGiB);
  CHECK(alone.device == "auto");
}

TEST_CASE("model set: processes of two models have their threads on cores of their own") {
  const Options both = in_processes({{.dir = "a", .threads = 3}, {.dir = "b"}});
  const Options first = options_of_model(both, 0, 4), second = options_of_model(both, 1, 4);
  CHECK(first.models == std::vector<ModelOptions>{both.models[0]});
  CHECK(second.models == std::vector<ModelOptions>{both.models[1]});
  CHECK(first.threads == 3);
  CHECK(first.first_cpu == 0);
  CHECK(second.threads == 1);
  CHECK(second.first_cpu == 3);
  CHECK(first.pin_threads);
  CHECK(second.pin_threads);
  CHECK_FALSE(options_of_model(both, 1, 3).pin_threads);  // four threads on three cores
}

TEST_CASE("model set: a model may have limits of its own") {
  Options both;
  both.serving.max_batch_sequences = 8;
  both.serving.max_waiting = 100;
  both.models = {{.dir = "a"}, {.dir = "b", .max_batch_sequences = 2, .max_waiting = 5}};
  const Options first = options_of_model(both, 0, 4), second = options_of_model(both, 1, 4);
  CHECK(first.serving.max_batch_sequences == 8);
  CHECK(first.serving.max_waiting == 100);
  CHECK(second.serving.max_batch_sequences == 2);
  CHECK(second.serving.max_waiting == 5);
}

TEST_CASE("model set: models in one process share its threads") {
  Options both = in_processes({{.dir = "a"}, {.dir = "b"}});
  both.worker_placement = "inline";
  both.threads = 4;
  CHECK(options_of_model(both, 1, 4).threads == 4);
  CHECK(options_of_model(both, 1, 4).first_cpu == 0);
}

TEST_CASE("model set: --quantize is refused where no model is a decoder, by the first one's name") {
  const std::string fixtures = TROUPE_SOURCE_DIR "/tests/fixtures/";
  Options options;
  options.models = {{.dir = fixtures + "cells/lstm"}, {.dir = fixtures + "cells/gru"}};
  for (const char* quantize : {"q8", "q4"}) {
    options.quantize = quantize;
    CHECK_THROWS_WITH_AS(check_quantization(options),
                         "--quantize: lstm is no decoder of KV pages, whose weights alone are quantized",
                         ConfigurationError);
  }
  options.models.push_back({.dir = fixtures + "families/qwen3"});
  CHECK_NOTHROW(check_quantization(options));
  options.models.pop_back();
  options.quantize = "none";
  CHECK_NOTHROW(check_quantization(options));
}

TEST_CASE("model set: lengths are foreseen with the help of a model of vectors, and of no other") {
  const test::TemporaryDirectory directory;
  test::write_small_embedder(directory.path() / "embedder");
  Options options;
  options.serving.reservation = ReservationPolicy::kPredicted;
  options.models = {{.dir = TROUPE_SOURCE_DIR "/tests/fixtures/families/qwen3"},
                    {.dir = (directory.path() / "embedder").string()}};
  CHECK_FALSE(find_length_encoder(options));
  options.length_encoder = "embedder";
  CHECK(find_length_encoder(options) == 1);
  std::swap(options.models[0], options.models[1]);
  CHECK(find_length_encoder(options) == 0);
  for (const char* name : {"qwen3", "nobody"}) {
    options.length_encoder = name;
    CHECK_THROWS_WITH_AS(
        find_length_encoder(options),
        ("--length-encoder: expected the name of a served model of embeddings (embedder), got '" +
         std::string(name) + "'")
            .c_str(),
        ConfigurationError);
  }
  options.models.erase(options.models.begin());
  CHECK_THROWS_WITH_AS(
      find_length_encoder(options),
      "--length-encoder: expected the name of a served model of embeddings (there is none), got "
      "'nobody'",
      ConfigurationError);
}
