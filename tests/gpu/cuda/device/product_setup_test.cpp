// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/product_setup.hpp"

#include <fstream>

#include <doctest/doctest.h>

#include "cuda_model.hpp"

namespace troupe {
namespace {

// Few bins, so that one start measures all of them.
BackendSettings settings_in(const TemporaryDirectory& directory) {
  auto settings = small_settings(DataType::kBF16);
  settings.max_batch_tokens = 2;
  settings.num_slots = 2;
  settings.product_choices = directory.path();
  return settings;
}

}  // namespace

TEST_CASE("product setup: what was measured at one start is used at the next") {
  const TemporaryDirectory directory;
  cuda::ProductChoices first;
  {
    const SmallModel model(settings_in(directory));
    CHECK(model.news() == "");
    first = model.get()->products;
    CHECK(!first.empty());
  }
  const SmallModel model(settings_in(directory));
  CHECK(model.news() == "");
  for (const auto& [shape, choice] : first) CHECK(model.get()->products.at(shape) == choice);
}

TEST_CASE("product setup: a damaged file costs a measurement and says so") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() / "product-choices.json") << "{\"format\": ";
  const SmallModel model(settings_in(directory));
  CHECK(model.news() != "");
  CHECK(!model.get()->products.empty());
}

TEST_CASE("product setup: without a directory nothing is measured") {
  const SmallModel plain(small_settings(DataType::kBF16));
  CHECK(plain.get()->products.empty());
}

TEST_CASE("product setup: a directory that is not there is no reason not to start") {
  auto settings = small_settings(DataType::kBF16);
  settings.product_choices = "/nowhere/at/all";
  const SmallModel model(settings);
  CHECK(model.news().find("/nowhere/at/all") != std::string::npos);
}

}  // namespace troupe
