// SPDX-License-Identifier: Apache-2.0
#include "gpu/cpu/cpu_model.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "gpu/backend.hpp"
#include "gpu/cpu/pool_layout.hpp"
#include "gpu/model/safetensors.hpp"
#include "tests/gpu/generation.hpp"
#include "tests/gpu/tiny_model.hpp"
#include "tests/support/gpu/gguf_model.hpp"
#include "tests/support/temporary_directory.hpp"

namespace troupe {
namespace {

// The logits behind a prompt of 100 tokens.
std::vector<float> last_logits(const std::filesystem::path& path, CpuModelSettings settings) {
  settings.num_threads = 2;
  const auto model = load_cpu_model(plan_cpu_model(path, settings));
  CapturedLogits captured;
  {
    CpuDevice device(model, {.on_logits = capture_logits(captured)});
    ProgramCache programs(model->network, model->compute_type, model->largest);
    generate(device, programs, {{.prompt = std::vector<std::int32_t>(100, 7), .num_new = 1}});
  }
  REQUIRE(captured[0].size() == 1);
  return captured[0][0];
}

// |a - b| / |b|
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double squares = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(squares / size);
}

// The bf16 weights of a directory again, as bf16 or f32, behind a header that
// puts the data `misalignment` bytes off.
void rewrite_weights(const std::filesystem::path& model_dir, DataType type, std::size_t misalignment) {
  const auto path = model_dir / "model.safetensors";
  nlohmann::json header;
  std::string bytes;
  {
    const SafetensorsFile file(path);
    for (const auto& entry : file.entries()) {
      const std::size_t begin = bytes.size();
      const auto* values = reinterpret_cast<const std::uint16_t*>(file.bytes_of(entry).data());
      for (std::size_t i = 0; i < entry.size_bytes / 2; ++i) {
        const std::uint32_t widened = std::uint32_t{values[i]} << 16;
        if (type == DataType::kF32) {
          bytes.append(reinterpret_cast<const char*>(&widened), sizeof(widened));
        } else {
          bytes.append(reinterpret_cast<const char*>(&values[i]), sizeof(values[i]));
        }
      }
      header[entry.name] = {{"dtype", type == DataType::kF32 ? "F32" : "BF16"},
                            {"shape", entry.shape},
                            {"data_offsets", {begin, bytes.size()}}};
    }
  }
  std::string text = header.dump();
  text.resize((text.size() + 63) / 64 * 64 + misalignment, ' ');
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(text.size() >> (8 * i) & 0xFF));
  file << text << bytes;
  REQUIRE(file.flush());
}

// Beyond what an f16 scale reaches in any format: 2^31 in bf16.
void enlarge_first_value(const std::filesystem::path& model_dir, const std::string& tensor) {
  const auto path = model_dir / "model.safetensors";
  std::uint64_t offset = 0;
  {
    const SafetensorsFile weights(path);
    const auto* entry = weights.find(tensor);
    REQUIRE(entry != nullptr);
    offset = entry->begin;
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write("\x00\x4F", 2);
  REQUIRE(file.flush());
}

}  // namespace

TEST_CASE("cpu model: oneDNN gives the same logits up to rounding") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const auto ours = last_logits(directory.path(), {.compute_type = compute_type});
    const auto theirs = last_logits(directory.path(), {.compute_type = compute_type, .deterministic = false});
    CHECK(distance(theirs, ours) < (compute_type == DataType::kF32 ? 1e-5 : 2e-2));
  }
}

TEST_CASE("cpu model: quantized weights give the logits but for their rounding, in fewer bytes") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  const auto weight_bytes = [&](Quantization quantization) {
    return plan_cpu_model(directory.path(), {.quantization = quantization}).memory.request.weight_bytes;
  };
  const auto exact = last_logits(directory.path(), {.compute_type = DataType::kF32});
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    for (const bool deterministic : {true, false}) {
      const auto logits = [&](Quantization quantization) {
        return last_logits(
            directory.path(),
            {.compute_type = compute_type, .deterministic = deterministic, .quantization = quantization});
      };
      const double of_q8 = distance(logits(Quantization::kQ8), exact);
      const double of_q4 = distance(logits(Quantization::kQ4), exact);
      MESSAGE(name_of(compute_type) << ": q8 " << of_q8 << ", q4 " << of_q4);
      CHECK(of_q8 > 1e-3);
      CHECK(of_q8 < 0.03);
      CHECK(of_q4 > of_q8);
      CHECK(of_q4 < 0.3);
    }
  }
  CHECK(weight_bytes(Quantization::kQ8) < weight_bytes(Quantization::kNone));
  CHECK(weight_bytes(Quantization::kQ4) < weight_bytes(Quantization::kQ8));
}

TEST_CASE("cpu model: KV in 8 bits gives the logits but for its rounding, in about half the bytes") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const auto plain = last_logits(directory.path(), {.compute_type = compute_type});
    const double loss = distance(
        last_logits(directory.path(), {.compute_type = compute_type, .kv_type = KvType::kQ8}), plain);
    CHECK(loss > 0.0);
    CHECK(loss < 0.01);
    const auto page_bytes = [&](KvType kv_type) {
      const CpuModelSettings settings{.compute_type = compute_type, .kv_type = kv_type};
      return static_cast<double>(plan_cpu_model(directory.path(), settings).memory.request.page_bytes);
    };
    const double share = page_bytes(KvType::kQ8) / page_bytes(KvType::kComputed);
    CHECK(share < (compute_type == DataType::kBF16 ? 0.57 : 0.29));
  }
}

TEST_CASE(
    "cpu model: activations in 8 bits give the logits but for their rounding, where weights have blocks") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const auto loss = [&](Quantization quantization) {
      CpuModelSettings settings{.compute_type = compute_type, .quantization = quantization};
      const auto exact = last_logits(directory.path(), settings);
      settings.activations = Activations::kQ8;
      return distance(last_logits(directory.path(), settings), exact);
    };
    for (const Quantization quantization : {Quantization::kQ8, Quantization::kQ4}) {
      MESSAGE(name_of(quantization) << ": " << loss(quantization));
      CHECK(loss(quantization) > 1e-4);
      CHECK(loss(quantization) < 0.02);
    }
    CHECK(loss(Quantization::kNone) == 0.0);
  }
}

TEST_CASE("cpu model: rows for weights of 4 bits are rounded by default, those for 8 bits are not") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  const auto change = [&](Quantization quantization, Activations from, Activations to) {
    CpuModelSettings settings{.quantization = quantization, .activations = from};
    const auto before = last_logits(directory.path(), settings);
    settings.activations = to;
    return distance(last_logits(directory.path(), settings), before);
  };
  CHECK(change(Quantization::kQ8, Activations::kComputed, Activations::kBelow8Bits) == 0.0);
  CHECK(change(Quantization::kQ4, Activations::kComputed, Activations::kBelow8Bits) > 1e-4);
  // The head of q4 has 8 bits.
  CHECK(change(Quantization::kQ4, Activations::kBelow8Bits, Activations::kQ8) > 1e-4);
}

TEST_CASE("cpu model: KV pages of quantized weights, and of activations in 8 bits, are none of others") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  std::set<std::string> computations;
  for (const auto quantization : {Quantization::kNone, Quantization::kQ8, Quantization::kQ4}) {
    for (const auto activations : {Activations::kComputed, Activations::kBelow8Bits, Activations::kQ8}) {
      BackendSettings settings;
      settings.model_dir = directory.path().string();
      settings.quantization = quantization;
      settings.activations = activations;
      computations.insert(make_cpu_backend(settings)->plan().computation);
    }
  }
  // Without blocks, or with 8-bit ones by default, activations stay as they are.
  CHECK(computations.size() == 6);
}

TEST_CASE("cpu weights: one that no scale can hold is named") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  enlarge_first_value(directory.path(), "model.layers.1.mlp.down_proj.weight");
  CHECK_NOTHROW(load_cpu_model(plan_cpu_model(directory.path(), {.num_threads = 2})));
  const auto plan = plan_cpu_model(directory.path(), {.quantization = Quantization::kQ8, .num_threads = 2});
  CHECK_THROWS_WITH_AS(load_cpu_model(plan),
                       "the weight \"model.layers.1.down\" has a value that is too large for blocks of q8",
                       std::runtime_error);
}

TEST_CASE("cpu weights: f32 copies of bf16 weights give the same bits in either arithmetic") {
  const TemporaryDirectory original;
  const TemporaryDirectory copy;
  write_random_llama(original.path(), tiny_llama(), 1);
  write_random_llama(copy.path(), tiny_llama(), 1);
  rewrite_weights(copy.path(), DataType::kF32, 0);
  for (const DataType compute_type : {DataType::kF32, DataType::kBF16}) {
    CAPTURE(name_of(compute_type));
    const CpuModelSettings settings{.compute_type = compute_type};
    CHECK(last_logits(copy.path(), settings) == last_logits(original.path(), settings));
  }
}

TEST_CASE("cpu model: f16 weights are computed in f32, bf16 ones in bf16 where the processor has it") {
  const DataType of_bf16 = is_supported(Isa::kAvx512Bf16) ? DataType::kBF16 : DataType::kF32;
  CHECK(choose_compute_type({}, DataType::kF16) == DataType::kF32);
  CHECK(choose_compute_type({}, DataType::kBF16) == of_bf16);
  CHECK(choose_compute_type({.compute_type = DataType::kBF16}, DataType::kF16) == DataType::kBF16);
}

TEST_CASE("cpu model: blocks beside embeddings in f16 decide how they are computed") {
  const TemporaryDirectory place;
  const auto gguf = place.path() / "model.gguf";
  const auto type_with = [&](BlockFormat of_matrices) {
    test::write_twins(gguf, place.path() / "plain", tiny_llama(), of_matrices, 3,
                      [&](const std::string& name) {
                        return name.find("embed") == std::string::npos ? of_matrices : BlockFormat::kF16;
                      });
    return natural_type_of(WeightStore(gguf), *load_network(gguf));
  };
  CHECK(type_with(BlockFormat::kF16) == DataType::kF16);
  CHECK(type_with(BlockFormat::kQ8_0) == DataType::kBF16);
}

TEST_CASE("cpu weights: tensors at odd addresses are read right") {
  const TemporaryDirectory original;
  const TemporaryDirectory copy;
  write_random_llama(original.path(), tiny_llama(), 1);
  for (const DataType type : {DataType::kBF16, DataType::kF32}) {
    write_random_llama(copy.path(), tiny_llama(), 1);
    rewrite_weights(copy.path(), type, 1);
    CHECK(last_logits(copy.path(), {}) ==
          last_logits(original.path(), {.compute_type = choose_compute_type({}, type)}));
  }
}

TEST_CASE("cpu model: settings that cannot be are refused") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  CHECK_THROWS_AS(plan_cpu_model(directory.path(), {.num_slots = 0}), std::runtime_error);
  CHECK_THROWS_AS(plan_cpu_model(directory.path(), {.compute_type = DataType::kF16}), std::runtime_error);
  CHECK_THROWS_WITH_AS(plan_cpu_model(directory.path(), {.memory_budget_bytes = 1000}),
                       doctest::Contains("does not fit"), std::runtime_error);
}

TEST_CASE("cpu model: devices share the weights and divide what is left") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  CpuModelSettings settings{.num_threads = 1, .memory_budget_bytes = 64 << 20, .max_pages = 1'000'000};
  const MemoryPlan alone = plan_cpu_model(directory.path(), settings).memory;
  settings.num_devices = 2;
  const MemoryPlan of_two = plan_cpu_model(directory.path(), settings).memory;
  const std::uint64_t common = alone.request.weight_bytes + alone.request.table_bytes;
  CHECK(of_two.request.weight_bytes == alone.request.weight_bytes);
  CHECK(common + 2 * (of_two.total_bytes - common) <= settings.memory_budget_bytes);
  CHECK(2 * of_two.num_pages <= alone.num_pages);
  CHECK(of_two.num_pages > alone.num_pages / 4);
}

TEST_CASE("cpu model: a shorter context is kept, a longer one is cut") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  CHECK(plan_cpu_model(directory.path(), {.context_length = 100}).settings.context_length == 100);
  CHECK(plan_cpu_model(directory.path(), {.context_length = 9999}).settings.context_length == 256);
}

TEST_CASE("cpu model: a tensor that is missing or misshapen is named before anything is loaded") {
  const TemporaryDirectory directory;
  ModelConfig config = tiny_llama();
  write_random_llama(directory.path(), config, 1);
  const auto weights = directory.path() / "model.safetensors";
  const TemporaryDirectory other;
  config.num_layers = 3;
  write_random_llama(other.path(), config, 1);
  std::filesystem::copy_file(weights, other.path() / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(plan_cpu_model(other.path(), {}),
                       doctest::Contains("model.layers.2.input_layernorm.weight"), std::runtime_error);
  config = tiny_llama();
  config.vocabulary_size = 101;
  write_random_llama(other.path(), config, 1);
  std::filesystem::copy_file(weights, other.path() / "model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS(plan_cpu_model(other.path(), {}), doctest::Contains("expected [101, 64]"),
                       std::runtime_error);
}

TEST_CASE("cpu model: huge pages that KV pages fill in part are within the budget") {
  const TemporaryDirectory directory;
  write_random_llama(directory.path(), tiny_llama(), 1);
  for (const std::uint64_t odd : {0, 1, 2, 3}) {
    const std::uint64_t budget = (std::uint64_t{64} << 20) + odd * 654'321;
    const auto plan = plan_cpu_model(directory.path(), {.num_threads = 1,
                                                        .memory_budget_bytes = budget,
                                                        .num_slots = 4,
                                                        .max_batch_tokens = 32,
                                                        .max_pages = 1'000'000});
    const KvLayout layout =
        in_whole_huge_pages(kv_layout_of(plan.network->shapes(), plan.compute_type, plan.memory.num_pages));
    REQUIRE(layout.num_pages * kv_page_bytes(layout) > 4 * kHugePageBytes);
    const std::uint64_t layer_bytes = plan.memory.num_pages * kv_page_bytes(layout);
    const std::uint64_t resident =
        layout.num_layers * ((layer_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes);
    CHECK(plan.memory.total_bytes - plan.memory.kv_bytes + resident <= budget);
    CHECK(budget - plan.memory.total_bytes <= layout.num_layers * (kHugePageBytes + kv_page_bytes(layout)));
  }
}

TEST_CASE("cpu model: memory that a control group of either version leaves bounds what is available") {
  const TemporaryDirectory root;
  const auto put = [&](const std::filesystem::path& name, const std::string& text) {
    std::filesystem::create_directories((root.path() / name).parent_path());
    std::ofstream(root.path() / name) << text << "\n";
  };
  put("proc/meminfo", "MemTotal: 4000 kB\nMemAvailable: 3000 kB");
  CHECK(available_memory_bytes(root.path()) == 3000 * 1024);
  put("proc/self/cgroup", "4:memory:/docker/abc\n0::/a/b");
  put("sys/fs/cgroup/a/memory.max", "2000000");
  put("sys/fs/cgroup/a/memory.current", "500000");
  put("sys/fs/cgroup/a/b/memory.max", "max");
  CHECK(available_memory_bytes(root.path()) == 1'500'000);
  put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1600000");
  put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "400000");
  CHECK(available_memory_bytes(root.path()) == 1'200'000);
  put("sys/fs/cgroup/a/memory.current", "2500000");
  CHECK(available_memory_bytes(root.path()) == 0);
  // What a model that was fetched a moment ago takes of the file cache is given back for it.
  put("sys/fs/cgroup/a/memory.stat", "anon 900000\nfile 1600000\ninactive_file 1300000\nactive_file 300000");
  CHECK(available_memory_bytes(root.path()) == 1'100'000);
  put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1500000");
  CHECK(available_memory_bytes(root.path()) == 100'000);
  put("sys/fs/cgroup/memory/docker/abc/memory.stat",
      "inactive_file 1\nactive_file 1\ntotal_inactive_file 600000\ntotal_active_file 200000");
  CHECK(available_memory_bytes(root.path()) == 900'000);
}

}  // namespace troupe
