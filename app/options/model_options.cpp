// SPDX-License-Identifier: Apache-2.0
#include "app/options/model_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>

#include "app/options/option_checks.hpp"

namespace troupe {
namespace {

constexpr double kRounding = 1e-9;  // of shares that are added up

struct SharesTaken {
  double sum = 0;
  std::size_t num_open = 0;  // models that share what is left
};

SharesTaken shares_taken(const std::vector<ModelOptions>& models) {
  SharesTaken taken;
  for (const auto& model : models) {
    taken.sum += model.memory_share;
    if (model.memory_share == 0) ++taken.num_open;
  }
  return taken;
}

std::string in_words(double number) {
  std::array<char, 32> digits{};
  return {
      digits.data(),
      std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::general, 6).ptr};
}

// "name-00001-of-00003" is the first file of "name".
std::string without_part_number(std::string stem) {
  constexpr std::string_view kPattern = "-#####-of-#####";
  if (stem.size() <= kPattern.size()) return stem;
  const std::size_t begin = stem.size() - kPattern.size();
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const char c = stem[begin + i];
    if (kPattern[i] == '#' ? c < '0' || c > '9' : c != kPattern[i]) return stem;
  }
  stem.resize(begin);
  return stem;
}

}  // namespace

std::span<const Setting<ModelOptions>> model_table() {
  using Unit = SettingUnit;
  // clang-format off
  static const std::vector<Setting<ModelOptions>> table = {
      {"model.dir", "--model", "directory of the model, Hugging Face layout, or a GGUF file; again for one more model",
       &ModelOptions::dir, 0, 0, {}, Unit::kPath},
      {"model.name", "--model-name",
       "name clients call it by (default: the directory's name); of several models in their order",
       &ModelOptions::name, 0, 0, {}, Unit::kNone, {}, wrong_model_name},
      {"model.memory_share", "", "share of a device's memory, 0 for as much as each of the others of what is left",
       &ModelOptions::memory_share},
      {"model.threads", "", "compute threads of its workers together, 0 for --threads; with --worker-placement child",
       &ModelOptions::threads, 0, 1024},
      {"model.max_batch_sequences", "", "sequences of this model that run at once, 0 for [scheduler]'s",
       &ModelOptions::max_batch_sequences, 0, 4096},
      {"model.max_waiting", "", "requests for this model that may wait, 0 for [scheduler]'s",
       &ModelOptions::max_waiting, 0, 65536},
  };
  // clang-format on
  return table;
}

std::string served_name(const ModelOptions& model) {
  if (!model.name.empty()) return model.name;
  const auto path = std::filesystem::absolute(model.dir).lexically_normal();
  if (path.extension() == ".gguf") return without_part_number(path.stem().string());
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

std::vector<double> memory_shares(const std::vector<ModelOptions>& models) {
  const auto [sum, num_open] = shares_taken(models);
  std::vector<double> shares;
  for (const auto& model : models)
    shares.push_back(model.memory_share > 0 ? model.memory_share
                                            : std::max(0.0, 1 - sum) / static_cast<double>(num_open));
  return shares;
}

std::vector<ThreadShare> thread_shares(const std::vector<ModelOptions>& models, std::uint64_t threads,
                                       std::uint64_t num_cpus) {
  const auto asked = [&](const ModelOptions& model) { return model.threads > 0 ? model.threads : threads; };
  std::uint64_t num_taken = 0, num_open = 0;
  for (const auto& model : models) {
    num_taken += asked(model);
    if (asked(model) == 0) ++num_open;
  }
  std::uint64_t num_left = num_cpus - std::min(num_cpus, num_taken);
  std::vector<ThreadShare> shares;
  std::uint64_t sum = 0;
  for (const auto& model : models) {
    std::uint64_t own = asked(model);
    if (own == 0) {
      const std::uint64_t part = (num_left + num_open - 1) / num_open;
      num_left -= part;
      --num_open;
      own = std::max<std::uint64_t>(part, 1);
    }
    shares.push_back({.threads = own, .first_cpu = sum});
    sum += own;
  }
  for (auto& share : shares) share.has_cores = sum <= num_cpus;
  return shares;
}

std::optional<std::string> find_problem(const std::vector<ModelOptions>& models) {
  if (models.size() < 2) return std::nullopt;
  std::set<std::string> names;
  for (const auto& model : models) {
    if (model.dir.empty()) return "--model: expected a directory, got ''";
    if (const auto name = served_name(model); !names.insert(name).second)
      return "--model, --model-name: expected another name for each model, got '" + name + "' twice";
  }
  const auto [sum, num_open] = shares_taken(models);
  if (sum > 1 + kRounding)
    return "memory_share: expected 1 at most for all models together, got " + in_words(sum);
  if (num_open > 0 && sum > 1 - kRounding)
    return "memory_share: expected something left for models without one, got 1 for the others";
  return std::nullopt;
}

}  // namespace troupe
