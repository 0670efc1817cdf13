// SPDX-License-Identifier: Apache-2.0
// How good our products are on this machine: one row against the memory's read
// bandwidth, many rows against oneDNN with prepacked weights, everything in one
// run and interleaved, since machines are shared and clocks move.
//
//   bench_matmul [threads] [K] [N] [pairs] [isa] [elapsed|processor]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/kernels/cpu/measure.hpp"
#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "gpu/cpu/kernels/matmul/onednn_matmul.hpp"
#include "gpu/cpu/kernels/number_formats.hpp"

using namespace troupe;

namespace {

struct Setting {
  std::size_t num_threads = 2;
  std::size_t num_inputs = 2048;
  std::size_t num_outputs = 5632;
  int num_pairs = 9;
  Isa isa = best_isa();
};

// Weights are rotated so that none is still in a cache when its turn comes.
constexpr std::size_t kRotatedBytes = std::size_t{320} << 20;

class Comparison {
 public:
  Comparison(const Setting& setting, DataType type, Team& team)
      : setting_(setting), type_(type), team_(team) {
    const auto weights = random_floats(setting.num_outputs * setting.num_inputs, 1);
    const std::vector<MatrixSource> sources{{weights.data(), DataType::kF32, setting.num_outputs}};
    const std::size_t bytes =
        PackedMatrix::packed_bytes(setting.num_outputs, setting.num_inputs, format_of(type));
    for (std::size_t i = 0; i <= kRotatedBytes / bytes; ++i) {
      ours_.emplace_back(sources, setting.num_inputs, format_of(type));
      ours_.back().pack();
      theirs_.emplace_back(sources, setting.num_inputs, type, setting.num_threads);
    }
    a_ = random_floats(kMaxRows * setting.num_inputs, 2);
    a_bf16_.resize(a_.size());
    convert_to_bf16(DataType::kF32, a_.data(), a_bf16_.data(), a_.size());
    c_.resize(kMaxRows * setting.num_outputs);
  }

  double ours(std::size_t rows) {
    const MatmulArguments arguments{.weight = &ours_[turn_++ % ours_.size()],
                                    .a = a(),
                                    .a_type = type_,
                                    .a_stride = setting_.num_inputs,
                                    .c = c_.data(),
                                    .c_stride = setting_.num_outputs,
                                    .num_rows = rows,
                                    .num_threads = setting_.num_threads,
                                    .isa = setting_.isa};
    return team_.time(matmul_num_tasks(arguments),
                      [&](std::size_t task) { matmul_run_task(arguments, task); });
  }

  double theirs(std::size_t rows) {
    const OnednnMatmulArguments arguments{.weight = &theirs_[turn_++ % theirs_.size()],
                                          .a = a(),
                                          .a_stride = setting_.num_inputs,
                                          .c = c_.data(),
                                          .c_stride = setting_.num_outputs,
                                          .num_rows = rows};
    return team_.time(onednn_matmul_num_tasks(arguments),
                      [&](std::size_t task) { onednn_matmul_run_task(arguments, task); });
  }

  void print(std::size_t rows, double bandwidth) {
    // Few rows are short: several products a measurement, every weight once.
    const int repeats = rows <= 16 ? static_cast<int>(ours_.size()) : rows <= 64 ? 4 : 2;
    std::vector<double> our_times, their_times, ratios;
    for (std::size_t i = 0; i < theirs_.size(); ++i) theirs(rows);
    for (int pair = 0; pair < setting_.num_pairs; ++pair) {
      double ours_sum = 0.0, theirs_sum = 0.0;
      for (int i = 0; i < repeats; ++i) ours_sum += ours(rows);
      for (int i = 0; i < repeats; ++i) theirs_sum += theirs(rows);
      our_times.push_back(ours_sum / repeats);
      their_times.push_back(theirs_sum / repeats);
      ratios.push_back(theirs_sum / ours_sum);
    }
    const double flops = 2.0 * static_cast<double>(rows * setting_.num_inputs * setting_.num_outputs);
    const double bytes = static_cast<double>(ours_[0].size_bytes());
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf(
        "%-5s %4zu  %8.1f GFLOP/s  %6.1f GB/s  %5.2f of read   onednn %8.1f GFLOP/s   ours/onednn "
        "%.2f (%.2f-%.2f)\n",
        name_of(type_).data(), rows, flops / median(our_times) / 1e9, bytes / median(our_times) / 1e9,
        bytes / median(our_times) / bandwidth, flops / median(their_times) / 1e9, median(ratios), *low,
        *high);
    std::fflush(stdout);
  }

  static constexpr std::size_t kMaxRows = 512;

 private:
  const void* a() const {
    return type_ == DataType::kBF16 ? static_cast<const void*>(a_bf16_.data()) : a_.data();
  }
  Setting setting_;
  DataType type_;
  Team& team_;
  std::vector<PackedMatrix> ours_;
  std::vector<OnednnMatrix> theirs_;
  std::vector<float> a_, c_;
  std::vector<std::uint16_t> a_bf16_;
  std::size_t turn_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Setting setting;
  setting.num_threads = number(argc, argv, 1, setting.num_threads);
  setting.num_inputs = number(argc, argv, 2, setting.num_inputs);
  setting.num_outputs = number(argc, argv, 3, setting.num_outputs);
  setting.num_pairs = static_cast<int>(number(argc, argv, 4, 9));
  for (const Isa isa : kAllIsas) {
    if (argc > 5 && name_of(isa) == argv[5]) setting.isa = isa;
  }
  const bool is_shared = argc > 6 && std::string(argv[6]) == "processor";
  Team team(setting.num_threads, is_shared ? Clock::kProcessor : Clock::kElapsed);
  const double bandwidth = read_bandwidth(team, setting.num_threads);
  std::printf("%s, %zu threads, K %zu, N %zu, %d pairs, weights rotated over %zu MiB\n",
              name_of(setting.isa).data(), setting.num_threads, setting.num_inputs, setting.num_outputs,
              setting.num_pairs, kRotatedBytes >> 20);
  std::printf("read: %.1f GB/s\n", bandwidth / 1e9);
  for (const DataType type : {DataType::kBF16, DataType::kF32}) {
    if (!OnednnMatrix::can_multiply(type)) {
      std::printf("%s: not compared, oneDNN has no such product for this processor\n", name_of(type).data());
      continue;
    }
    Comparison comparison(setting, type, team);
    for (const std::size_t rows : {1, 4, 16, 64, 256, 512}) comparison.print(rows, bandwidth);
  }
}
