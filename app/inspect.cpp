// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include "app/commands.hpp"
#include "app/convert/conversion.hpp"
#include "app/loading/backend_choice.hpp"
#include "app/loading/model_loading.hpp"
#include "app/loading/model_source.hpp"
#include "gpu/cpu/cpu_backend.hpp"
#include "gpu/cpu/cpu_model.hpp"
#include "gpu/model/model_directory.hpp"

namespace troupe {
namespace {

void print_line(const char* label, const std::string& text) {
  std::printf("%-14s %s\n", label, text.c_str());
}

std::string in_words(std::uint64_t count) {
  if (count < 10'000) return std::to_string(count);
  char text[32];
  const bool is_large = count >= 1'000'000'000;
  std::snprintf(text, sizeof text, "%.2f %s", static_cast<double>(count) / (is_large ? 1e9 : 1e6),
                is_large ? "billion" : "million");
  return text;
}

void print_shape(const ModelConfig& config) {
  std::string heads;  // recurrent cells have none
  if (config.num_heads > 0)
    heads = ", " + std::to_string(config.num_heads) + " heads (" + std::to_string(config.num_kv_heads) +
            " for keys and values) of " + std::to_string(config.head_dim);
  print_line("shape", std::to_string(config.num_layers) + " layers, width " +
                          std::to_string(config.hidden_size) + heads + ", vocabulary " +
                          std::to_string(config.vocabulary_size) + ", context " +
                          std::to_string(config.context_length));
}

void print_parameters(const ModelDirectory& directory) {
  std::string text = in_words(directory.num_parameters);
  if (directory.config && directory.config->experts)
    text += " (" + in_words(directory.num_active_parameters) + " for a token, which chooses " +
            std::to_string(directory.config->experts->num_chosen) + " of " +
            std::to_string(directory.config->experts->num_experts) + " experts)";
  print_line("parameters", text + ", " + shown_bytes(directory.weight_file_bytes));
}

void print_directory(const ModelDirectory& directory) {
  print_line(directory.is_gguf ? "GGUF" : "directory", directory.path.string());
  for (const auto& file : directory.files)
    print_line("  file", file.name + ", " + shown_bytes(file.size_bytes));
  if (!directory.architecture.empty()) print_line("architecture", directory.architecture);
  if (directory.config) print_shape(*directory.config);
  if (directory.num_parameters > 0) print_parameters(directory);
  for (const auto& [type, count] : directory.element_types)
    print_line("  type", type + ": " + std::to_string(count.num_tensors) + " tensors, " +
                             shown_bytes(count.size_bytes));
}

// Empty: fine.
std::string tokenizer_problem(const std::string& directory) {
  try {
    const auto tokenizer = load_model_tokenizer(directory);
    print_line("tokenizer", std::to_string(tokenizer->vocabulary_size()) + " tokens");
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// A template that can't be used does not keep the model from being served.
void print_template(const std::string& directory) {
  try {
    print_line("chat template",
               load_model_template(directory) ? "yes" : "none: only /v1/completions is served");
  } catch (const std::exception& error) {
    print_line("chat template",
               std::string("can't be used, only /v1/completions is served: ") + error.what());
  }
}

// Whether `troupe convert` can write it.
void print_conversion(const std::string& model) {
  try {
    const Conversion conversion = plan_conversion(model, Quantization::kQ8);
    print_line("convert",
               "to a GGUF file of " + shown_bytes(conversion.data_bytes()) + " with q8, or less with q4");
    if (!conversion.losses.empty()) print_line("", "other programs read its tokenizer less exactly");
  } catch (const std::exception& error) {
    print_line("convert", std::string("no: ") + error.what());
  }
}

}  // namespace

int run_inspect(const InspectCommand& command) {
  Options options = command.options;
  options.models = {{.dir = command.directory}};
  const auto settings = backend_settings(with_device_numbers(options, DeviceKind::kCpu));
  std::string rows;
  const auto directory = inspect_model_directory(command.directory, [&](const auto& path) {
    const CpuModelPlan plan = plan_cpu_model(path, cpu_model_settings(settings));
    rows = in_words(plan.settings.activations);
    return ModelPlan{
        .compute_type = plan.compute_type, .weight_formats = plan.weight_formats, .memory = plan.memory};
  });
  print_directory(directory);
  auto problem = directory.unsupported;
  const auto in_tokenizer = tokenizer_problem(command.directory);
  print_template(command.directory);
  if (problem.empty()) problem = in_tokenizer;
  if (directory.compute_type) {
    const std::string kept =
        directory.weight_formats.empty() ? "" : ", weights in " + directory.weight_formats;
    const std::string kv = settings.kv_type == KvType::kQ8 ? ", KV in q8" : "";
    if (!rows.empty()) rows = ", " + rows;
    print_line("products in", std::string(name_of(*directory.compute_type)) + kept + rows + kv);
  }
  if (directory.memory) std::printf("%s", to_string(*directory.memory).c_str());
  if (directory.memory) print_line("GPU", cuda_in_words(options));
  if (problem.empty()) print_conversion(command.directory);
  print_line("verdict", problem.empty() ? "supported" : "not supported: " + problem);
  return problem.empty() ? 0 : 1;
}

}  // namespace troupe
