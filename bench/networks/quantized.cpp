// SPDX-License-Identifier: Apache-2.0
// Decode and prefill tokens a second of one network with weights in bf16, 8 and 4
// bits, and of a GGUF file in its own blocks ("keep"), with activations as they are and in
// 8 bits ("+a8"), in turn, without actors and HTTP, and the share of the memory's read
// bandwidth that one stream's weights take. Usage:
// bench_quantized_network [100m|1b|FILE.gguf] [rounds]; 1b writes 2.2 GB to the
// temporary directory.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/kernels/cpu/measure.hpp"
#include "bench/models.hpp"
#include "bench/networks/direct_loop.hpp"
#include "bench/statistics.hpp"

using namespace troupe;

namespace {

constexpr std::uint32_t kPrompt = 32;
constexpr std::uint32_t kLongPrompt = 256;
constexpr std::uint32_t kTokens = 48;  // of all sequences together, at least 8 steps

std::shared_ptr<const CpuModel> load(const std::string& directory, Quantization quantization,
                                     Activations activations = Activations::kComputed) {
  CpuModelSettings settings;
  settings.compute_type = DataType::kBF16;
  settings.quantization = quantization;
  settings.activations = activations;
  settings.memory_budget_bytes = 4ULL << 30;
  settings.max_pages = 512;
  return load_cpu_model(plan_cpu_model(directory, settings));
}

double decode_rate(const std::shared_ptr<const CpuModel>& model, std::uint32_t num_sequences) {
  const std::uint32_t steps = std::max(8U, kTokens / num_sequences);
  bench::CpuLoop loop(model, num_sequences, kPrompt + 2 * steps);
  loop->prefill_all(kPrompt);
  loop->decode(2);
  return steps * num_sequences / loop->decode(steps).seconds;
}

double prefill_rate(const std::shared_ptr<const CpuModel>& model) {
  bench::CpuLoop loop(model, 1, kLongPrompt + 1);
  return kLongPrompt / loop->prefill_all(kLongPrompt);
}

// Bytes that a decode step reads: the table of embeddings is looked up only.
double bytes_a_step(const CpuModel& model) {
  const CpuTable* table = model.weights->find_table(model.network->weights().front().name);
  const std::uint64_t table_bytes = table == nullptr ? 0 : table->rows.size();
  return static_cast<double>(model.memory.request.weight_bytes - table_bytes);
}

struct Arm {
  std::string name;
  std::shared_ptr<const CpuModel> model;
};

// measure: tokens a second of a model. One round more warms up.
template <typename Measure>
void compare(const std::string& what, const std::vector<Arm>& arms, int num_rounds, double bandwidth,
             Measure measure) {
  std::vector<std::vector<double>> rates(arms.size()), ratios(arms.size());
  for (int round = -1; round < num_rounds; ++round) {
    std::vector<double> found;
    for (const Arm& arm : arms) found.push_back(measure(arm.model));
    for (std::size_t i = 0; round >= 0 && i < arms.size(); ++i) {
      rates[i].push_back(found[i]);
      ratios[i].push_back(found[i] / found[0]);
    }
  }
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const auto ratio = bench::spread_of(ratios[i]);
    const double rate = bench::spread_of(rates[i]).median;
    std::printf("  %-16s %-7s %8.1f tok/s   over bf16 %.2f (%.2f-%.2f)", what.c_str(), arms[i].name.c_str(),
                rate, ratio.median, ratio.minimum, ratio.maximum);
    if (bandwidth > 0)
      std::printf("   %.1f GB/s, %.2f of read", rate * bytes_a_step(*arms[i].model) / 1e9,
                  rate * bytes_a_step(*arms[i].model) / bandwidth);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string asked = argc > 1 ? argv[1] : "100m";
  const int num_rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  const bool is_gguf = asked.ends_with(".gguf");
  const std::string model = is_gguf         ? asked
                            : asked == "1b" ? bench::llama_1b_model()
                                            : bench::llama_100m_model();
  std::vector<Arm> arms = {{"bf16", load(model, Quantization::kNone)}};
  std::vector<Quantization> blocks = {Quantization::kQ8, Quantization::kQ4};
  if (is_gguf) blocks.push_back(Quantization::kKeep);
  for (const Quantization quantization : blocks) {
    const std::string name(name_of(quantization));
    arms.push_back({name, load(model, quantization)});
    arms.push_back({name + "+a8", load(model, quantization, Activations::kQ8)});
  }
  const unsigned num_threads = arms.front().model->settings.num_threads;
  double bandwidth = 0;
  {
    Team team(num_threads, Clock::kElapsed);
    bandwidth = read_bandwidth(team, num_threads);
  }
  std::printf("%s%s, %u threads, median of %d, read %.1f GB/s\n", is_gguf ? "" : "random Llama, ",
              asked.c_str(), num_threads, num_rounds, bandwidth / 1e9);
  compare("decode, batch 1", arms, num_rounds, bandwidth,
          [](const auto& model) { return decode_rate(model, 1); });
  for (const std::uint32_t batch : {8U, 16U})
    compare("decode, batch " + std::to_string(batch), arms, num_rounds, 0,
            [batch](const auto& model) { return decode_rate(model, batch); });
  compare("prefill of " + std::to_string(kLongPrompt), arms, num_rounds, 0,
          [](const auto& model) { return prefill_rate(model); });
  return 0;
}
