// SPDX-License-Identifier: Apache-2.0
#include "app/loading/model_set.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/loading/backend_choice.hpp"
#include "app/loading/cpu_placement.hpp"
#include "app/loading/hardware.hpp"
#include "app/options/configuration_error.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/model/model_config.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

std::uint64_t part_of(std::uint64_t bytes, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * share);
}

// Divides the memory among models, each of which is loaded as soon as its part is known.
class ModelSet {
 public:
  explicit ModelSet(const Options& options)
      : options_(options),
        total_(options.memory_bytes > 0 ? options.memory_bytes : available_memory_bytes() / 4 * 3),
        left_(total_),
        models_(options.models.size()) {
    // Processes have cores of their own.
    const bool is_on_cpu = options.device == "cpu" || options.device == "auto";
    if (is_on_cpu && options.worker_placement != "child") cores_ = make_cpu_cores(options);
  }

  std::vector<LoadedModel> load() && {
    for (std::size_t i = 0; i < models_.size(); ++i)
      if (!has_pages(i) && options_.models[i].memory_share == 0) load_model_at(i, left_, 0);
    const std::uint64_t for_all = left_;
    const std::vector<double> shares = shares_of_rest(false), host_shares = shares_of_rest(true);
    for (std::size_t i = 0; i < models_.size(); ++i)
      if (!models_[i]) load_model_at(i, part_of(for_all, shares[i]), host_shares[i]);
    std::vector<LoadedModel> loaded;
    for (auto& model : models_) loaded.push_back(*std::move(model));
    return loaded;
  }

 private:
  bool has_pages(std::size_t model) const {
    return load_model_config(options_.models[model].dir).has_pages();
  }

  // Memory shares by model. of_pages: only models that have pages count. A model that is loaded
  // already, or does not count, has 0.
  std::vector<double> shares_of_rest(bool of_pages) const {
    const auto counts = [&](std::size_t i) { return !models_[i] && (!of_pages || has_pages(i)); };
    std::vector<ModelOptions> rest;
    for (std::size_t i = 0; i < models_.size(); ++i)
      if (counts(i)) rest.push_back(options_.models[i]);
    const auto of_rest = memory_shares(rest);
    std::vector<double> shares;
    auto next = of_rest.begin();
    for (std::size_t i = 0; i < models_.size(); ++i) shares.push_back(counts(i) ? *next++ : 0.0);
    return shares;
  }

  void load_model_at(std::size_t index, std::uint64_t memory_bytes, double host_share) {
    if (memory_bytes == 0)
      throw ConfigurationError("--memory: nothing is left for the model " +
                               served_name(options_.models[index]));
    Options options = options_of_model(options_, index, default_threads(granted_for_computing(options_)));
    // The free memory of a GPU is not known here, so "auto" is the CPU.
    if (options.device == "auto") options.device = "cpu";
    options.memory_bytes = memory_bytes;
    options.host_memory_share = host_share;
    if (options.cache_host_memory != kHostMemoryAuto)
      options.cache_host_memory = part_of(options_.cache_host_memory, host_share);
    models_[index] = load_model(options, cores_);
    // CPU workers share one budget, each GPU has its own. Shared weights are counted once a worker.
    const Options& in_force = models_[index]->options;
    const std::uint64_t num_sharing = in_force.device.starts_with("cuda") ? 1 : in_force.num_workers;
    left_ -= std::min(left_, models_[index]->planned_bytes * num_sharing);
  }

  const Options& options_;
  const std::uint64_t total_;
  std::uint64_t left_;
  std::vector<std::optional<LoadedModel>> models_;
  std::shared_ptr<CpuCores> cores_;  // null: nothing is computed
};

}  // namespace

Options options_of_model(const Options& options, std::size_t model, std::uint64_t num_cpus) {
  Options alone = options;
  const ModelOptions& own = options.models.at(model);
  alone.models = {own};
  if (own.max_batch_sequences > 0) alone.serving.max_batch_sequences = own.max_batch_sequences;
  if (own.max_waiting > 0) alone.serving.max_waiting = own.max_waiting;
  if (options.models.size() == 1 && alone.models.front().memory_share > 0)
    alone.memory_bytes = part_of(options.memory_bytes, alone.models.front().memory_share);
  if (options.worker_placement != "child") return alone;
  const ThreadShare share = thread_shares(options.models, options.threads, num_cpus).at(model);
  alone.threads = share.threads;
  alone.first_cpu = share.first_cpu;
  alone.pin_threads = options.pin_threads && share.has_cores;
  return alone;
}

void check_quantization(const Options& options) {
  if (options.quantize != "q8" && options.quantize != "q4") return;
  std::vector<std::string> others;
  for (const auto& model : options.models)
    if (!load_model_config(model.dir).has_pages()) others.push_back(served_name(model));
  if (others.size() == options.models.size())
    throw ConfigurationError("--quantize: " + others.front() +
                             " is no decoder of KV pages, whose weights alone are quantized");
  for (const std::string& name : others)
    log(LogLevel::kInfo, "weights are not quantized, the model is no decoder", {{"model", name}});
}

std::optional<ModelIndex> find_length_encoder(const Options& options) {
  if (options.length_encoder.empty()) return std::nullopt;
  std::string names;
  for (ModelIndex index = 0; index < options.models.size(); ++index) {
    const std::string name = served_name(options.models[index]);
    const ModelConfig config = load_model_config(options.models[index].dir);
    if (!config.encoder || config.labels()) continue;
    if (name != options.length_encoder) {
      names += (names.empty() ? "" : ", ") + name;
      continue;
    }
    if (!options.serving.foresees_lengths())
      log(LogLevel::kWarning,
          "--length-encoder has no effect: without --reservation predicted or an --admission-order by length "
          "nothing is foreseen",
          {{"model", name}});
    return index;
  }
  throw ConfigurationError("--length-encoder: expected the name of a served model of embeddings (" +
                           (names.empty() ? "there is none" : names) + "), got '" + options.length_encoder +
                           "'");
}

std::vector<LoadedModel> load_models(const Options& options) {
  check_model_directory(options);
  check_quantization(options);
  if (options.models.size() > 1) return ModelSet(options).load();
  std::vector<LoadedModel> models;
  models.push_back(load_model(options_of_model(options, 0, default_threads(granted_for_computing(options)))));
  return models;
}

LoadedModel load_first_model(const Options& options) {
  Options alone = options_of_model(options, 0, default_threads(granted_for_computing(options)));
  alone.weights_disk_space = 0;
  check_model_directory(alone);
  check_quantization(alone);
  return load_model(alone);
}

const LoadedModel* first_with_pages(const std::vector<LoadedModel>& models) {
  const auto found = std::find_if(models.begin(), models.end(),
                                  [](const LoadedModel& model) { return model.served.has_pages(); });
  return found == models.end() ? nullptr : &*found;
}

std::string joined_names(const std::vector<LoadedModel>& models) {
  std::string names;
  for (const auto& model : models) names += (names.empty() ? "" : "+") + model.served.name;
  return names;
}

}  // namespace troupe
