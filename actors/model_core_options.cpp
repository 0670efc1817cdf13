// SPDX-License-Identifier: Apache-2.0
#include "actors/model_core_options.hpp"

#include <algorithm>

#include "actors/disk_tier.hpp"

namespace troupe {
namespace {

PageMapOptions page_map_options(const ActorEnvironment& environment, ModelIndex model, PageSecret secret) {
  const CacheOptions& cache = environment.options.cache;
  PageMapOptions options{.recompute_cost = environment.models[model].served.recompute_cost,
                         .load_from_host = cache.load_from_host,
                         .load_from_disk = cache.load_from_disk,
                         .secret = secret};
  const auto& models = environment.models;
  const auto first = std::find_if(models.begin(), models.end(),
                                  [](const EngineModel& one) { return one.served.has_pages(); });
  if (!cache.disk || first != models.begin() + model) return options;
  options.num_disk_pages = cache.disk->num_pages();
  options.first_generation = cache.disk->first_generation();
  options.disk_secret = cache.disk->secret();
  options.stored = cache.disk->take_stored();
  return options;
}

CoreOptions core_options(const ActorEnvironment& environment, ModelIndex model, PageSecret secret) {
  return {.serving = environment.models[model].serving.value_or(environment.options.serving),
          .pages = page_map_options(environment, model, secret),
          .encoder_costs = environment.models[model].served.encoder_costs,
          .unfolding = environment.models[model].served.unfolding(),
          .source = environment.models[model].served.source(),
          .max_cell_batches = environment.models[model].served.max_cell_batches};
}

}  // namespace

std::vector<ModelCoreOptions> model_core_options(const ActorEnvironment& environment, PageSecret secret) {
  std::vector<ModelCoreOptions> models;
  for (ModelIndex model = 0; model < environment.models.size(); ++model)
    models.push_back(
        {.kind = environment.models[model].served.kind, .core = core_options(environment, model, secret)});
  return models;
}

}  // namespace troupe
