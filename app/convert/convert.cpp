// SPDX-License-Identifier: Apache-2.0
#include "app/convert/convert.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/commands.hpp"
#include "app/convert/conversion.hpp"
#include "app/loading/backend_choice.hpp"
#include "app/options/usage_error.hpp"
#include "gpu/cpu/quantized_rows.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/model/conversion/config_keys.hpp"
#include "telemetry/log.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t kBytesAtOnce = std::uint64_t{32} << 20;
constexpr std::uint64_t kRowsATask = 16;
constexpr std::uint64_t kBytesAMessage = std::uint64_t{256} << 20;

void check_target(const ConvertCommand& command) {
  std::error_code failure;
  const std::filesystem::path out(command.out);
  if (std::filesystem::is_directory(out, failure))
    throw UsageError(command.out + ": expected the name of a file, got a directory");
  if (std::filesystem::equivalent(out, command.model, failure))
    throw UsageError(command.out + ": is the model itself");
  if (std::filesystem::exists(std::filesystem::symlink_status(out, failure)) && !command.replaces)
    throw UsageError(command.out + ": exists; --force replaces it");
}

// Reads what is written so far as any reader would, and compares it with what is meant.
void check_header(const Conversion& conversion, const GgufOutput& output, const std::string& model) {
  const ModelConfig said = load_model_config(output.temporary());
  if (const auto field = find_difference(conversion.config, said); !field.empty())
    throw std::runtime_error(model + ": its " + field + " can't be said in a GGUF file");
  check_weights(WeightStore(output.temporary()), *make_network(said));
}

void check_values(const Conversion& conversion, ThreadPool& threads) {
  for (const WeightSpec& spec : conversion.network->weights())
    check_finite(spec, find_sources(*conversion.store, spec),
                 [&](std::size_t num_tasks, const auto& task) { threads.run(num_tasks, task); });
}

void write_tensor(const ConvertedTensor& tensor, std::size_t index, GgufOutput& output, ThreadPool& threads) {
  const std::uint64_t row_bytes = tensor.entry.row_bytes(), num_rows = tensor.entry.num_rows();
  const std::uint64_t rows_at_once = std::max<std::uint64_t>(1, kBytesAtOnce / row_bytes);
  std::vector<std::byte> bytes(std::min(num_rows, rows_at_once) * row_bytes);
  for (std::uint64_t first = 0; first < num_rows; first += rows_at_once) {
    const std::uint64_t count = std::min(rows_at_once, num_rows - first);
    threads.run((count + kRowsATask - 1) / kRowsATask, [&](std::size_t task) {
      const std::uint64_t end = std::min(count, (task + 1) * kRowsATask);
      for (std::uint64_t row = task * kRowsATask; row < end; ++row)
        write_row(tensor, first + row, quantize_row, std::span(bytes).subspan(row * row_bytes, row_bytes));
    });
    output.write(index, first * row_bytes, std::span(bytes).first(count * row_bytes));
  }
}

// Vectors are known already; a reader's configuration depends on some.
void write_vectors(const Conversion& conversion, GgufOutput& output, ThreadPool& threads) {
  for (std::size_t i = 0; i < conversion.tensors.size(); ++i)
    if (conversion.tensors[i].parts.empty()) write_tensor(conversion.tensors[i], i, output, threads);
}

void write_matrices(const Conversion& conversion, GgufOutput& output, ThreadPool& threads) {
  const std::uint64_t total = conversion.data_bytes();
  std::uint64_t done = 0, shown = 0;
  for (std::size_t i = 0; i < conversion.tensors.size(); ++i) {
    const ConvertedTensor& tensor = conversion.tensors[i];
    done += tensor.entry.size_bytes();
    if (tensor.parts.empty()) continue;
    try {
      write_tensor(tensor, i, output, threads);
    } catch (const std::range_error& error) {
      throw std::runtime_error("tensor \"" + tensor.entry.name + "\" " + error.what());
    }
    if (done - shown < kBytesAMessage) continue;
    shown = done;
    log(LogLevel::kInfo, "converted", {{"size", shown_bytes(done)}, {"of", shown_bytes(total)}});
  }
}

std::string line(const char* label, const std::string& text) {
  std::string padded = label;
  padded.resize(15, ' ');
  return padded + text + "\n";
}

std::string report(const Conversion& conversion, const GgufOutput& output, const std::string& path) {
  std::string text = line("wrote", path + ", " + shown_bytes(output.size_bytes()));
  std::map<std::string_view, std::pair<std::size_t, std::uint64_t>> types;
  for (const ConvertedTensor& tensor : conversion.tensors) {
    auto& [count, size] = types[layout_of(tensor.entry.format).name];
    ++count;
    size += tensor.entry.size_bytes();
  }
  for (const auto& [type, sum] : types)
    text += line("  type", std::string(type) + ": " + std::to_string(sum.first) + " tensors, " +
                               shown_bytes(sum.second));
  for (const std::string& loss : conversion.losses)
    text += line("less exact", "in programs that read the keys tokenizer.ggml alone: " + loss);
  return text;
}

}  // namespace

std::string convert_model(const ConvertCommand& command) {
  check_target(command);
  const auto quantization = command.quantize == "q4" ? Quantization::kQ4 : Quantization::kQ8;
  const Conversion conversion = plan_conversion(command.model, quantization);
  Options options = command.options;
  options.models = {{.dir = command.model}};
  const BackendSettings settings = backend_settings(with_device_numbers(options, DeviceKind::kCpu));
  ThreadPool threads({.num_threads = settings.num_threads});
  std::vector<GgufOutputTensor> entries;
  for (const ConvertedTensor& tensor : conversion.tensors) entries.push_back(tensor.entry);
  GgufOutput output(command.out, conversion.keys, std::move(entries));
  write_vectors(conversion, output, threads);
  check_header(conversion, output, command.model);
  check_values(conversion, threads);
  write_matrices(conversion, output, threads);
  conversion.store->check_unchanged();
  output.finish(command.replaces);
  return report(conversion, output, command.out);
}

int run_convert(const ConvertCommand& command) {
  std::fputs(convert_model(command).c_str(), stdout);
  return 0;
}

}  // namespace troupe
