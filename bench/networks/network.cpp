// SPDX-License-Identifier: Apache-2.0
// Decode and prefill tokens a second of the network alone (no actors, no HTTP)
// for the demo model and a random Llama of 100 million parameters, by batch
// size; and what batch invariance costs against `deterministic = false`,
// the two arms in turn. Usage: bench_network [demo|100m]
#include <cstdio>
#include <string>
#include <vector>

#include "bench/models.hpp"
#include "bench/networks/direct_loop.hpp"
#include "bench/statistics.hpp"

using namespace troupe;

namespace {

constexpr int kRuns = 5;
constexpr std::uint32_t kLongPrompt = 512;
constexpr std::uint32_t kPrompt = 32;
constexpr std::uint32_t kSteps = 24;

struct CpuModelPair {
  std::shared_ptr<const CpuModel> deterministic, free_order;
};

std::shared_ptr<const CpuModel> load(const std::string& directory, bool deterministic) {
  CpuModelSettings settings;
  settings.deterministic = deterministic;
  settings.memory_budget_bytes = 3ULL << 30;
  settings.max_pages = 2048;
  return load_cpu_model(plan_cpu_model(directory, settings));
}

// Tokens a second of one prompt in chunks of the largest batch.
double prefill_rate(const std::shared_ptr<const CpuModel>& model) {
  bench::CpuLoop loop(model, 1, kLongPrompt + 1);
  loop->prefill_all(kLongPrompt);  // touches the device's memory
  return kLongPrompt / loop->prefill_all(kLongPrompt);
}

double decode_rate(const std::shared_ptr<const CpuModel>& model, std::uint32_t num_sequences) {
  bench::CpuLoop loop(model, num_sequences, kPrompt + 2 * kSteps);
  loop->prefill_all(kPrompt);
  loop->decode(kSteps / 2);
  return kSteps * num_sequences / loop->decode(kSteps).seconds;
}

// measure: tokens a second of a model. Both arms in turn; one more run warms up.
template <typename Measure>
void compare(const char* what, const CpuModelPair& models, Measure measure) {
  std::vector<double> rates, ratios;
  for (int run = -1; run < kRuns; ++run) {
    const double ours = measure(models.deterministic);
    const double other = measure(models.free_order);
    if (run < 0) continue;
    rates.push_back(ours);
    ratios.push_back(ours / other);
  }
  const auto ratio = bench::spread_of(ratios);
  std::printf("  %-18s %9.0f tok/s   to deterministic=false %.2f (%.2f-%.2f)\n", what,
              bench::spread_of(rates).median, ratio.median, ratio.minimum, ratio.maximum);
}

void report(const char* name, const std::string& directory) {
  const CpuModelPair models{load(directory, true), load(directory, false)};
  std::printf("%s, %s, %u threads, median of %d\n", name,
              std::string(name_of(models.deterministic->compute_type)).c_str(),
              models.deterministic->settings.num_threads, kRuns);
  compare("prefill of 512", models, prefill_rate);
  for (const std::uint32_t batch : {1U, 4U, 16U, 32U})
    compare(("decode, batch " + std::to_string(batch)).c_str(), models,
            [&](const auto& model) { return decode_rate(model, batch); });
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string only = argc > 1 ? argv[1] : "";
  if (only != "100m") report("demo model", bench::demo_model());
  if (only != "demo") report("random Llama, 100 M", bench::llama_100m_model());
  return 0;
}
