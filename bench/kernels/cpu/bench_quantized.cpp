// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks, in f16 or in f32 against those in bf16 of the same shape: one row
// reads fewer bytes, many rows open them. The arms in turn, with bf16 rows of a, and with
// these rounded to 8 bits, which is part of their time.
//
//   bench_quantized [threads] [K] [N] [rounds] [elapsed|processor] [format or instruction set ...]
//
// Formats are Q8_0 and Q4_0 if none is named, each with about 330 MB of copies; the
// instruction set is the best one, or the last one named, as the first line of the output names it.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "bench/kernels/cpu/measure.hpp"
#include "gpu/cpu/kernels/matmul/matmul.hpp"
#include "gpu/cpu/kernels/matmul/q8_rows.hpp"
#include "gpu/cpu/kernels/number_formats.hpp"

using namespace troupe;

namespace {

struct Setting {
  std::size_t num_threads = 2;
  std::size_t num_inputs = 2048;
  std::size_t num_outputs = 5632;
  int num_rounds = 7;
  Isa isa = best_isa();
};

// Weights are rotated so that none is still in a cache when its turn comes.
constexpr std::size_t kRotatedBytes = std::size_t{320} << 20;
constexpr std::size_t kMaxRows = 256;

struct Format {
  const char* name;
  BlockFormat format;
};
constexpr Format kFormats[] = {
    {"bf16", BlockFormat::kBF16},  {"F16", BlockFormat::kF16},   {"F32", BlockFormat::kF32},
    {"Q8_0", BlockFormat::kQ8_0},  {"Q4_0", BlockFormat::kQ4_0}, {"Q4_1", BlockFormat::kQ4_1},
    {"Q5_0", BlockFormat::kQ5_0},  {"Q5_1", BlockFormat::kQ5_1}, {"Q4_K", BlockFormat::kQ4_K},
    {"Q5_K", BlockFormat::kQ5_K},  {"Q6_K", BlockFormat::kQ6_K}, {"IQ4_NL", BlockFormat::kIq4Nl},
    {"MXFP4", BlockFormat::kMxfp4}};

struct Values {
  std::vector<float> wide;
  std::vector<std::uint16_t> narrow;  // in f16
};

// Rounded towards zero; magnitudes below 2^-14 are zeros.
std::vector<std::uint16_t> in_f16(const std::vector<float>& values) {
  std::vector<std::uint16_t> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU, least = 113U << 23;
    const std::uint32_t shifted = magnitude < least ? 0 : (magnitude - (112U << 23)) >> 13;
    result[i] = static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | shifted);
  }
  return result;
}

// Made of the values where that can be done, else of blocks that are alike: no product
// takes longer for other numbers.
PackedMatrix matrix_of(const Setting& setting, BlockFormat format, const Values& values) {
  if (format == BlockFormat::kF16)
    return {{{values.narrow.data(), DataType::kF16, setting.num_outputs}}, setting.num_inputs, format};
  if (!is_quantized(format) || format == BlockFormat::kQ8_0 || format == BlockFormat::kQ4_0)
    return {{{values.wide.data(), DataType::kF32, setting.num_outputs}}, setting.num_inputs, format};
  QuantizedBlock block{.scale = 0x2C00, .minimum = 0x2C00, .factors = {7, 5}, .numbers = {}};
  for (std::size_t k = 0; k < kBlockInputs; ++k) block.numbers[k] = static_cast<std::int8_t>(k % 16);
  const auto read = [block](std::size_t, std::size_t, std::span<QuantizedBlock> blocks) {
    std::fill(blocks.begin(), blocks.end(), block);
  };
  return {read, setting.num_outputs, setting.num_inputs, format};
}

class Arm {
 public:
  Arm(const Setting& setting, Format format, const Values& weights, Team& team)
      : setting_(setting),
        format_(format),
        team_(team),
        c_(kMaxRows * setting.num_outputs),
        rounded_(q8_rows_bytes(kMaxRows, setting.num_inputs)) {
    do {
      copies_.push_back(matrix_of(setting, format.format, weights));
      copies_.back().pack();
    } while (copies_.size() * copies_[0].size_bytes() < kRotatedBytes);
  }

  double size_bytes() const { return static_cast<double>(copies_[0].size_bytes()); }
  const char* name() const { return format_.name; }
  bool has_blocks() const { return is_quantized(format_.format); }

  // Seconds of one product, all copies' mean for few rows.
  double time(const std::vector<std::uint16_t>& a, std::size_t rows, bool rounds) {
    const std::size_t repeats = rows <= 16 ? copies_.size() : 3;
    double sum = 0.0;
    for (std::size_t i = 0; i < repeats; ++i) {
      Q8Rows q8_rows;
      if (rounds) {
        q8_rows = place_q8_rows(rounded_.data(), rows, setting_.num_inputs);
        const RoundRowsArguments arguments{.a = a.data(),
                                           .a_type = DataType::kBF16,
                                           .a_stride = setting_.num_inputs,
                                           .num_inputs = setting_.num_inputs,
                                           .rows = q8_rows,
                                           .isa = setting_.isa};
        sum += team_.time(round_rows_num_tasks(arguments),
                          [&](std::size_t task) { round_rows_run_task(arguments, task); });
      }
      const MatmulArguments arguments{.weight = &copies_[turn_++ % copies_.size()],
                                      .a = a.data(),
                                      .a_type = DataType::kBF16,
                                      .a_stride = setting_.num_inputs,
                                      .q8_rows = q8_rows,
                                      .c = c_.data(),
                                      .c_stride = setting_.num_outputs,
                                      .num_rows = rows,
                                      .num_threads = setting_.num_threads,
                                      .isa = setting_.isa};
      sum += team_.time(matmul_num_tasks(arguments),
                        [&](std::size_t task) { matmul_run_task(arguments, task); });
    }
    return sum / static_cast<double>(repeats);
  }

 private:
  const Setting& setting_;
  Format format_;
  Team& team_;
  std::vector<PackedMatrix> copies_;
  std::vector<float> c_;
  std::vector<std::byte> rounded_;
  std::size_t turn_ = 0;
};

struct Turn {
  Arm* arm = nullptr;
  bool rounds = false;
  std::vector<double> seconds = {}, ratios = {};
};

void compare(std::vector<Arm>& arms, const std::vector<std::uint16_t>& a, std::size_t rows,
             const Setting& setting, double bandwidth) {
  std::vector<Turn> turns;
  for (Arm& arm : arms) {
    turns.push_back({&arm});
    if (arm.has_blocks()) turns.push_back({&arm, true});
  }
  for (int round = -1; round < setting.num_rounds; ++round) {
    double of_bf16 = 0.0;
    for (Turn& turn : turns) {
      const double found = turn.arm->time(a, rows, turn.rounds);
      if (&turn == &turns.front()) of_bf16 = found;
      if (round < 0) continue;
      turn.seconds.push_back(found);
      turn.ratios.push_back(of_bf16 / found);
    }
  }
  for (const Turn& turn : turns) {
    const double time = median(turn.seconds);
    const auto [low, high] = std::minmax_element(turn.ratios.begin(), turn.ratios.end());
    const double flops = 2.0 * static_cast<double>(rows * setting.num_inputs * setting.num_outputs);
    std::printf(
        "%4zu rows  %-6s %-7s  %7.1f GB/s  %5.2f of read  %8.1f GFLOP/s   over bf16 %.2f (%.2f-%.2f)\n", rows,
        turn.arm->name(), turn.rounds ? "q8 rows" : "", turn.arm->size_bytes() / time / 1e9,
        turn.arm->size_bytes() / time / bandwidth, flops / time / 1e9, median(turn.ratios), *low, *high);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Setting setting;
  setting.num_threads = number(argc, argv, 1, setting.num_threads);
  setting.num_inputs = number(argc, argv, 2, setting.num_inputs);
  setting.num_outputs = number(argc, argv, 3, setting.num_outputs);
  setting.num_rounds = static_cast<int>(number(argc, argv, 4, 7));  // 0: memory alone is measured
  const bool is_shared = argc > 5 && std::string(argv[5]) == "processor";
  Team team(setting.num_threads, is_shared ? Clock::kProcessor : Clock::kElapsed);
  Values weights{.wide = random_floats(setting.num_outputs * setting.num_inputs, 1), .narrow = {}};
  weights.narrow = in_f16(weights.wide);
  std::vector<std::string_view> names(argv + std::min(argc, 6), argv + argc);
  for (const Isa isa : kAllIsas)
    if (is_supported(isa) && std::erase(names, name_of(isa)) > 0) setting.isa = isa;
  std::vector<Arm> arms;
  for (const Format& format : kFormats) {
    const bool is_usual = format.format == BlockFormat::kQ8_0 || format.format == BlockFormat::kQ4_0;
    const bool is_named = std::find(names.begin(), names.end(), format.name) != names.end();
    if (format.format == BlockFormat::kBF16 || (names.empty() ? is_usual : is_named))
      arms.emplace_back(setting, format, weights, team);
  }
  const auto values = random_floats(kMaxRows * setting.num_inputs, 2);
  std::vector<std::uint16_t> a(values.size());
  convert_to_bf16(DataType::kF32, values.data(), a.data(), a.size());
  const double bandwidth = read_bandwidth(team, setting.num_threads);
  std::printf("%s, %zu threads, K %zu, N %zu, %d rounds, read %.1f GB/s\n", name_of(setting.isa).data(),
              setting.num_threads, setting.num_inputs, setting.num_outputs, setting.num_rounds,
              bandwidth / 1e9);
  if (setting.num_rounds == 0) return 0;
  for (const std::size_t rows : {1, 2, 4, 8, 16, 64, 256}) compare(arms, a, rows, setting, bandwidth);
}
