// SPDX-License-Identifier: Apache-2.0
// Decode and prefill tokens a second of the network alone (no actors, no HTTP)
// for the demo model and a random Llama of 100 million parameters, by batch
// size; and what batch invariance costs against `deterministic = false`,
// the two arms in turn. Usage: bench_network [demo|100m]
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/direct_loop.hpp"
#include "bench/models.hpp"
#include "bench/statistics.hpp"

using namespace troupe;

namespace {

constexpr int kRuns = 5;
constexpr std::uint32_t kPrompt = 128;
constexpr std::uint32_t kSteps = 32;

std::shared_ptr<const HostModel> load(const std::string& directory, bool deterministic) {
  HostModelSettings settings;
  settings.deterministic = deterministic;
  settings.memory_budget_bytes = 3ULL << 30;
  settings.max_pages = 2048;
  return load_host_model(plan_host_model(directory, settings));
}

struct Rates {
  double prefill = 0, decode = 0;  // tokens/s
};

Rates measure(const std::shared_ptr<const HostModel>& model, std::uint32_t num_sequences) {
  bench::DirectLoop loop(model, num_sequences, kPrompt + 2 * kSteps + 8);
  const double prefill_seconds = loop.prefill(kPrompt);
  double network = 0;
  loop.decode(4, network);
  const double decode_seconds = loop.decode(kSteps, network);
  return {kPrompt * num_sequences / prefill_seconds, kSteps * num_sequences / decode_seconds};
}

void report(const char* name, const std::string& directory) {
  const auto invariant = load(directory, true);
  const auto free_order = load(directory, false);
  std::printf("%s, %s, %u threads; prompt %u, %u steps; median of %d\n", name,
              std::string(name_of(invariant->compute_type)).c_str(), invariant->settings.num_threads, kPrompt, kSteps,
              kRuns);
  std::printf("  batch   prefill tok/s   decode tok/s   ratio to deterministic=false: prefill, decode (min-max)\n");
  for (const std::uint32_t batch : {1U, 4U, 16U, 32U}) {
    std::vector<double> prefill, decode, prefill_ratio, decode_ratio;
    for (int run = 0; run < kRuns; ++run) {
      const auto ours = measure(invariant, batch);
      const auto other = measure(free_order, batch);
      prefill.push_back(ours.prefill);
      decode.push_back(ours.decode);
      prefill_ratio.push_back(ours.prefill / other.prefill);
      decode_ratio.push_back(ours.decode / other.decode);
    }
    const auto p = bench::spread_of(prefill_ratio);
    const auto d = bench::spread_of(decode_ratio);
    std::printf("  %5u %15.0f %14.0f   %.2f (%.2f-%.2f), %.2f (%.2f-%.2f)\n", batch, bench::spread_of(prefill).median,
                bench::spread_of(decode).median, p.median, p.minimum, p.maximum, d.median, d.minimum, d.maximum);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  if (only != "100m") report("demo model", bench::demo_model());
  if (only != "demo") report("random Llama, 100 M", bench::llama_100m_model());
  return 0;
}
