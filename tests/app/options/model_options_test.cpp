// SPDX-License-Identifier: Apache-2.0
#include "app/options/model_options.hpp"

#include "app/loading/model_loading.hpp"
#include "app/options/configuration_error.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace troupe;

TEST_CASE("model options: a model is called as it is told, else as its directory") {
  CHECK(served_name({.dir = "/m/a", .name = "x"}) == "x");
  CHECK(served_name({.dir = "/m/a"}) == "a");
  CHECK(served_name({.dir = "/m/a/"}) == "a");
  CHECK(served_name({.dir = "/m/b/../a"}) == "a");
  CHECK(served_name({.dir = "/m/a-1.5b.gguf"}) == "a-1.5b");
  CHECK(served_name({.dir = "/m/a-00001-of-00003.gguf"}) == "a");
  CHECK(served_name({.dir = "/m/a-0001-of-00003.gguf"}) == "a-0001-of-00003");
}

TEST_CASE("model options: what no model asks for is divided equally among those that say nothing") {
  CHECK(memory_shares({{.dir = "a"}}) == std::vector<double>{1.0});
  CHECK(memory_shares({{.dir = "a"}, {.dir = "b"}}) == std::vector<double>{0.5, 0.5});
  CHECK(memory_shares({{.dir = "a"}, {.dir = "b", .memory_share = 0.5}, {.dir = "c"}}) ==
        std::vector<double>{0.25, 0.5, 0.25});
  CHECK(memory_shares({{.dir = "a", .memory_share = 0.5}, {.dir = "b", .memory_share = 0.25}}) ==
        std::vector<double>{0.5, 0.25});
}

TEST_CASE("model options: processes of models have cores of their own where there are enough") {
  const std::vector<ModelOptions> both = {{.dir = "a", .threads = 2}, {.dir = "b"}};
  CHECK(thread_shares(both, 1, 4) == std::vector<ThreadShare>{{2, 0, true}, {1, 2, true}});
  CHECK(thread_shares(both, 1, 2) == std::vector<ThreadShare>{{2, 0, false}, {1, 2, false}});
}

TEST_CASE("model options: processes of models that say nothing divide the cores that others leave") {
  CHECK(thread_shares({{.dir = "a"}}, 0, 4) == std::vector<ThreadShare>{{4, 0, true}});
  CHECK(thread_shares({{.dir = "a"}, {.dir = "b"}}, 0, 5) ==
        std::vector<ThreadShare>{{3, 0, true}, {2, 3, true}});
  CHECK(thread_shares({{.dir = "a", .threads = 2}, {.dir = "b"}, {.dir = "c"}}, 0, 4) ==
        std::vector<ThreadShare>{{2, 0, true}, {1, 2, true}, {1, 3, true}});
  // None is left without a thread.
  CHECK(thread_shares({{.dir = "a", .threads = 4}, {.dir = "b"}}, 0, 4) ==
        std::vector<ThreadShare>{{4, 0, false}, {1, 4, false}});
}

TEST_CASE("model options: two models of one name are refused") {
  CHECK_FALSE(find_problem({{.dir = "/m/a"}, {.dir = "/m/b"}}));
  CHECK_FALSE(find_problem({{.dir = "/m/a"}, {.dir = "/n/a", .name = "other"}}));
  CHECK(find_problem({{.dir = "/m/a"}, {.dir = "/n/a"}}).value_or("").find("got 'a' twice") !=
        std::string::npos);
  CHECK(find_problem({{.dir = "/m/a"}, {.dir = "/m/b", .name = "a"}}).has_value());
  CHECK(find_problem({{.dir = "/m/a"}, {.dir = ""}}) == "--model: expected a directory, got ''");
}

TEST_CASE("model options: shares over 1, or none left for a model, are refused") {
  const auto models = [](double a, double b, double c) {
    return std::vector<ModelOptions>{
        {.dir = "/a", .memory_share = a}, {.dir = "/b", .memory_share = b}, {.dir = "/c", .memory_share = c}};
  };
  CHECK_FALSE(find_problem(models(0.7, 0.2, 0.1)));  // in doubles not quite 1
  CHECK_FALSE(find_problem(models(0.5, 0, 0)));
  CHECK(find_problem(models(0.7, 0.5, 0)) ==
        "memory_share: expected 1 at most for all models together, got 1.2");
  CHECK(find_problem(models(0.7, 0.3, 0)) ==
        "memory_share: expected something left for models without one, got 1 for the others");
}

TEST_CASE("model options: the directory that is missing, or has no model, is named") {
  Options options;
  options.models = {{.dir = TROUPE_SOURCE_DIR "/models/demo"}, {.dir = "/nowhere/b"}};
  CHECK_THROWS_WITH_AS(check_model_directory(options),
                       "--model: /nowhere/b: no such model directory or GGUF file", ConfigurationError);
  options.models[1].dir = TROUPE_SOURCE_DIR "/docs";
  CHECK_THROWS_WITH_AS(check_model_directory(options),
                       "--model: " TROUPE_SOURCE_DIR "/docs/config.json: is missing", ConfigurationError);
  options.models[1].dir = TROUPE_SOURCE_DIR "/models/demo/config.json";
  CHECK_THROWS_WITH_AS(check_model_directory(options),
                       "--model: " TROUPE_SOURCE_DIR
                       "/models/demo/config.json: is neither a model directory nor a GGUF file",
                       ConfigurationError);
}
