// SPDX-License-Identifier: Apache-2.0
// Products with weights in 8 and 4 bits against those in bf16 of the same shape:
// one row reads fewer bytes, many rows open them. The three arms in turn, with
// bf16 rows of a.
//
//   bench_quantized [threads] [K] [N] [rounds] [elapsed|processor]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/kernels/cpu/measure.hpp"
#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "gpu/cpu/kernels/number_formats.hpp"

using namespace troupe;

namespace {

struct Setting {
  std::size_t num_threads = 2;
  std::size_t num_inputs = 2048;
  std::size_t num_outputs = 5632;
  int num_rounds = 7;
};

// Weights are rotated so that none is still in a cache when its turn comes.
constexpr std::size_t kRotatedBytes = std::size_t{320} << 20;
constexpr std::size_t kMaxRows = 256;
constexpr Quantization kArms[] = {Quantization::kNone, Quantization::kQ8, Quantization::kQ4};

class Arm {
 public:
  Arm(const Setting& setting, Quantization quantization, const std::vector<float>& weights, Team& team)
      : setting_(setting), quantization_(quantization), team_(team), c_(kMaxRows * setting.num_outputs) {
    const std::vector<MatrixSource> sources{{weights.data(), DataType::kF32, setting.num_outputs}};
    do {
      copies_.emplace_back(sources, setting.num_inputs, DataType::kBF16, quantization);
      copies_.back().pack();
    } while (copies_.size() * copies_[0].size_bytes() < kRotatedBytes);
  }

  double size_bytes() const { return static_cast<double>(copies_[0].size_bytes()); }
  const char* name() const {
    return quantization_ == Quantization::kNone ? "bf16" : name_of(quantization_).data();
  }

  // Seconds of one product, all copies' mean for few rows.
  double time(const std::vector<std::uint16_t>& a, std::size_t rows) {
    const std::size_t repeats = rows <= 16 ? copies_.size() : 3;
    double sum = 0.0;
    for (std::size_t i = 0; i < repeats; ++i) {
      const MatmulArguments arguments{.weight = &copies_[turn_++ % copies_.size()],
                                      .a = a.data(),
                                      .a_type = DataType::kBF16,
                                      .a_stride = setting_.num_inputs,
                                      .c = c_.data(),
                                      .c_stride = setting_.num_outputs,
                                      .num_rows = rows,
                                      .num_threads = setting_.num_threads};
      sum += team_.time(matmul_num_tasks(arguments),
                        [&](std::size_t task) { matmul_run_task(arguments, task); });
    }
    return sum / static_cast<double>(repeats);
  }

 private:
  const Setting& setting_;
  Quantization quantization_;
  Team& team_;
  std::vector<PackedMatrix> copies_;
  std::vector<float> c_;
  std::size_t turn_ = 0;
};

void compare(std::vector<Arm>& arms, const std::vector<std::uint16_t>& a, std::size_t rows,
             const Setting& setting, double bandwidth) {
  std::vector<std::vector<double>> seconds(arms.size()), ratios(arms.size());
  for (int round = -1; round < setting.num_rounds; ++round) {
    std::vector<double> found;
    for (Arm& arm : arms) found.push_back(arm.time(a, rows));
    for (std::size_t i = 0; round >= 0 && i < arms.size(); ++i) {
      seconds[i].push_back(found[i]);
      ratios[i].push_back(found[0] / found[i]);
    }
  }
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const double time = median(seconds[i]);
    const auto [low, high] = std::minmax_element(ratios[i].begin(), ratios[i].end());
    const double flops = 2.0 * static_cast<double>(rows * setting.num_inputs * setting.num_outputs);
    std::printf("%4zu rows  %-4s  %7.1f GB/s  %5.2f of read  %8.1f GFLOP/s   over bf16 %.2f (%.2f-%.2f)\n",
                rows, arms[i].name(), arms[i].size_bytes() / time / 1e9,
                arms[i].size_bytes() / time / bandwidth, flops / time / 1e9, median(ratios[i]), *low, *high);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Setting setting;
  setting.num_threads = number(argc, argv, 1, setting.num_threads);
  setting.num_inputs = number(argc, argv, 2, setting.num_inputs);
  setting.num_outputs = number(argc, argv, 3, setting.num_outputs);
  setting.num_rounds = static_cast<int>(number(argc, argv, 4, 7));
  const bool is_shared = argc > 5 && std::string(argv[5]) == "processor";
  Team team(setting.num_threads, is_shared ? Clock::kProcessor : Clock::kElapsed);
  const auto weights = random_floats(setting.num_outputs * setting.num_inputs, 1);
  std::vector<Arm> arms;
  for (const Quantization quantization : kArms) arms.emplace_back(setting, quantization, weights, team);
  const auto values = random_floats(kMaxRows * setting.num_inputs, 2);
  std::vector<std::uint16_t> a(values.size());
  convert_to_bf16(DataType::kF32, values.data(), a.data(), a.size());
  const double bandwidth = read_bandwidth(team, setting.num_threads);
  std::printf("%s, %zu threads, K %zu, N %zu, %d rounds, read %.1f GB/s\n", name_of(best_isa()).data(),
              setting.num_threads, setting.num_inputs, setting.num_outputs, setting.num_rounds,
              bandwidth / 1e9);
  for (const std::size_t rows : {1, 2, 4, 8, 16, 64, 256}) compare(arms, a, rows, setting, bandwidth);
}
